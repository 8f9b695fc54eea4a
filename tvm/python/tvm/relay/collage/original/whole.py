# SPDX-License-Identifier: Apache-2.0
"""The file of an ONNX model as one node, which a library that reads ONNX runs as it is.

A plan of it keeps the promise that nothing slower ships than the best single backend: what the
import, Relay and our own export lose of the file's form, and what TVM's virtual machine costs a net
of branches and loops, it does not pay. Test: original/test_whole.py. Docs: docs/original.md
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import inliner, numpy_helper
from tvm import relay

from ..errors import ModelError, UnsupportedOpError
from ..exec.reply import Unsupported
from ..importer.opaque import Versions, type_info
from ..importer.types import DTYPES
from ..ops import onnx_node
from ..ops.onnx_names import renamed
from ..ops.onnx_node import WHOLE_FILE
from ..relay_util.walk import tensors_of

# Of larger files the copies on the way to a library would take several times as much memory.
_MOST_BYTES = 1 << 29


def whole(model: str | os.PathLike | onnx.ModelProto, mod: tvm.IRModule) -> tvm.IRModule:
    """Return a typed module of one node that computes the file or ModelProto from which `mod`
    (typed) was imported, of the same inputs and results. Unsupported says why there is none."""
    proto = _read(model)
    params = [relay.Var(p.name_hint, p.checked_type) for p in mod["main"].params]
    results = tensors_of(mod["main"].ret_type)
    if len(results) != len(proto.graph.output):
        raise Unsupported("it has outputs that are several tensors")
    try:
        node = _model_of(proto, {p.name_hint: p.type_annotation for p in params}, results)
        call = onnx_node(node, params, results, WHOLE_FILE)
    except (ModelError, UnsupportedOpError) as error:
        raise Unsupported(error.text) from None
    made = tvm.IRModule.from_expr(relay.Function(params, call))
    return relay.transform.InferType()(made)


def digest_of(made: tvm.IRModule) -> str:
    """Return a hash of the model in a module of `whole`."""
    return hashlib.sha256(str(made["main"].body.attrs["model"]).encode()).hexdigest()


def _read(model: Any) -> onnx.ModelProto:
    if isinstance(model, (str, os.PathLike)):
        try:
            model = onnx.load(model)
        except Exception as error:  # noqa: BLE001 - a file of another kind, by errors of protobuf
            raise Unsupported(f"it is no ONNX file ({type(error).__name__})") from None
    if model.ByteSize() > _MOST_BYTES:
        raise Unsupported(f"it has more than {_MOST_BYTES >> 20} MiB")
    if model.graph.sparse_initializer:
        raise Unsupported("it has sparse weights")
    return inliner.inline_local_functions(model) if model.functions else model


def _model_of(
    model: onnx.ModelProto, types: Mapping[str, Any], results: list[Any]
) -> onnx.ModelProto:
    """Return the graph with inputs input_0, ... of the types by name, in their order, and outputs
    output_0, ...; an input that is not among them is read by nothing, and zero."""
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    others = [v for v in graph.input if v.name not in types and v.name not in weights]
    place = {name: f"input_{i}" for i, name in enumerate(types)}

    def new(name: str) -> str:
        return place.get(name, f"inner_{name}")

    made = onnx.GraphProto(name=graph.name)
    made.input.extend(type_info(new(name), types[name]) for name in types)
    made.node.extend(renamed(node, new) for node in graph.node)
    for tensor in (*weights.values(), *map(_zeros, others)):
        if tensor.name not in types:
            made.initializer.add().CopyFrom(tensor)
            made.initializer[-1].name = new(tensor.name)
    for index, (value, kind) in enumerate(zip(graph.output, results, strict=True)):
        # One value may be several outputs, or an input.
        output = f"output_{index}"
        made.node.add(op_type="Identity", input=[new(value.name)], output=[output])
        made.output.append(type_info(output, kind))
    return Versions.of(model).model_of(made)


def _zeros(value: onnx.ValueInfoProto) -> onnx.TensorProto:
    tensor = value.type.tensor_type
    if tensor.elem_type not in DTYPES:
        raise Unsupported(f"its input {value.name} is no tensor of numbers")
    shape = [dim.dim_value or 1 for dim in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return numpy_helper.from_array(np.zeros(shape, dtype), value.name)
