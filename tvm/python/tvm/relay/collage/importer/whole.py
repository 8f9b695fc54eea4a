# SPDX-License-Identifier: Apache-2.0
"""A whole ONNX model as one node, which a library that reads ONNX runs as it is.

A plan of it keeps the promise that nothing slower ships than the best single backend: what the
import, Relay and our own export lose of the file's form, and what TVM's virtual machine costs a net
of branches and loops, it does not pay. And a model that TVM cannot import has this form at least.
Test: importer/test_whole.py. Docs: docs/accuracy.md
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import onnx
import tvm
from tvm import relay

from ..errors import ModelError, UnsupportedOpError
from ..messages.foreign import last_line
from ..ops import onnx_node
from ..ops.onnx_names import plainly_named, renamed
from ..ops.onnx_node import WHOLE_FILE
from ..ops.onnx_node import digest_of as _digest_of
from .clean import declared_types, inlined
from .opaque import Versions, type_info, types_of

# Of larger files the copies on the way to a library would take several times as much memory.
MOST_BYTES = 1 << 29
# The version of Identity that is old enough for all libraries and takes all types of numbers.
_IDENTITY = 13


def whole(
    model: onnx.ModelProto,
    inputs: Mapping[str, relay.TensorType],
    results: Sequence[relay.TensorType] | None = None,
    most_bytes: int = MOST_BYTES,
) -> tvm.IRModule:
    """Return a typed module of one node that computes a model; inputs: types by name, of all that
    it reads. results: types of its outputs, which onnxruntime tells where they are not given.
    ModelError says why there is none, as for a model of more than `most_bytes`."""
    if model.ByteSize() > most_bytes:
        raise ModelError(f"it has more than {most_bytes >> 20} MiB")
    if model.graph.sparse_initializer:
        raise ModelError("it has sparse weights")
    own = {value.name: value.type for value in model.graph.input}
    if others := [name for name in inputs if name not in own]:
        raise ModelError(f"it has no input {', '.join(others)}")
    model = inlined(plainly_named(model))
    if model.functions:
        raise ModelError("it has functions that cannot be written out")
    node = _one_node(model, inputs)
    if results is None:
        declared = declared_types(model)
        names = zip(node.graph.output, model.graph.output, strict=True)
        known = {own.name: declared[v.name] for own, v in names if v.name in declared}
        results = types_of(node, known)
    if len(results) != len(node.graph.output):
        raise ModelError("it has outputs that are several tensors")
    for value, kind in zip(node.graph.output, results, strict=True):
        value.CopyFrom(type_info(value.name, kind))
    # A branch that sizes decide about may not be right for those of another.
    for value, name in zip(node.graph.input, inputs, strict=True):
        value.type.CopyFrom(own[name])
    params = [relay.Var(name, kind) for name, kind in inputs.items()]
    try:
        call = onnx_node(node, params, results, operator=WHOLE_FILE)
    except UnsupportedOpError as error:
        raise ModelError(error.text) from None
    made = tvm.IRModule.from_expr(relay.Function(params, call))
    return relay.transform.InferType()(made)


def load_onnx(file: str | os.PathLike) -> onnx.ModelProto:
    """Return the model of a file. ModelError for one of another kind."""
    try:
        return onnx.load(file)
    except Exception as error:  # noqa: BLE001 - of protobuf's kinds, or a weight's file is missing
        raise ModelError(f"{os.fspath(file)} is no ONNX file ({last_line(error)})") from None


def digest_of(made: tvm.IRModule) -> str:
    """Return a hash of the model in a module of `whole`."""
    return _digest_of(made["main"].body.attrs)


def _one_node(model: onnx.ModelProto, types: Mapping[str, relay.TensorType]) -> onnx.ModelProto:
    """Return the graph with inputs input_0, ... of the types by name, in their order, and outputs
    output_0, ... without types. ModelError for an input that is not among them."""
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    more = [v.name for v in graph.input if v.name not in types and v.name not in weights]
    if more:
        raise ModelError(f"it has more inputs: {', '.join(more)}")
    place = {name: f"input_{i}" for i, name in enumerate(types)}

    def new(name: str) -> str:
        return place.get(name, f"inner_{name}")

    made = onnx.GraphProto(name=graph.name)
    made.input.extend(type_info(new(name), types[name]) for name in types)
    made.node.extend(renamed(node, new) for node in graph.node)
    for tensor in weights.values():
        if tensor.name not in types:
            made.initializer.add().CopyFrom(tensor)
            made.initializer[-1].name = new(tensor.name)
    for index, value in enumerate(graph.output):
        # One value may be several outputs, or an input.
        made.node.add(op_type="Identity", input=[new(value.name)], output=[f"output_{index}"])
        made.output.add(name=f"output_{index}")
    versions = Versions.of(model)
    if all(each.domain for each in versions.opsets):  # its nodes are of other domains alone
        own = onnx.helper.make_opsetid("", _IDENTITY)
        versions = Versions([*versions.opsets, own], versions.ir_version)
    return versions.model_of(made)
