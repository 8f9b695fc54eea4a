# SPDX-License-Identifier: Apache-2.0
"""The first node of an ONNX model that its import computes otherwise than onnxruntime does.

All values inside the model become outputs of a copy, which both compute. Here each node gets what
onnxruntime computed for its inputs, so that it differs by what it does itself: neither by the
rounding before it nor by a value that falls on the other side of a border.
Test: plans/original/test_check.py.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relay

from ...exec.reply import Unsupported
from ...importer.onnx import from_onnx
from ...measure.outputs.reference import array_of, evaluate
from ...measure.race.comparison import LEAST_SCALE, output_error

# What protobuf can hold in a file of its own.
_MOST_BYTES = 1 << 30

# Runs a model's file on inputs by name: its outputs.
RunFile = Callable[[str], Sequence[np.ndarray]]


class _Differs(Exception):
    """The output of this name is off by this error."""

    def __init__(self, name: str, error: float) -> None:
        super().__init__(name)
        self.name, self.error = name, error


def first_difference(
    file: str,
    inputs: Mapping[str, np.ndarray],
    run: RunFile,
    folder: str,
    builder: str,
    limit: float,
) -> str:
    """Return which node's output is the first that is off by more than the limit, and by how much;
    "" where the import is right: each of its nodes agrees, and yet its outputs do not.

    Unsupported where that cannot be told.
    """
    model = onnx.load(file)
    own_names = [each.name for each in model.graph.output]
    names = _show_values(model)
    copy = os.path.join(folder, "values.onnx")
    onnx.save(model, copy, save_as_external_data=model.ByteSize() > _MOST_BYTES)
    truth = dict(zip(names, run(copy), strict=True))
    shapes = {name: list(array.shape) for name, array in inputs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of outputs without types, which are these
        imported = from_onnx(model, shapes)[0]
    names, mod = _in_order(model, names, imported)
    arrays = [inputs[param.name_hint] for param in mod["main"].params]
    named: dict[Any, str] = {}
    for field, name in zip(mod["main"].body.fields, names, strict=True):
        named.setdefault(field, name)

    def watch(node: Any, value: Any) -> Any:
        name = named.get(node)
        if name is None or isinstance(value, list) or node.checked_type.dtype == "bfloat16":
            return value
        own = array_of(value)
        error = output_error([own], [truth[name]], LEAST_SCALE)
        if not error <= limit:
            raise _Differs(name, error)
        return truth[name].astype(own.dtype)

    try:
        evaluate(mod, arrays, builder, watch=watch)
    except _Differs as found:
        return f"the first node that differs is {_node_of(model, found.name)}, by {found.error:.2g}"
    given = dict(zip(names, evaluate(mod, arrays, builder), strict=True))
    own, right = [given[name] for name in own_names], [truth[name] for name in own_names]
    if output_error(own, right, LEAST_SCALE) <= limit:
        return "the file's own import agrees with it, so the module is another or was changed"
    return ""


def _show_values(model: onnx.ModelProto) -> list[str]:
    """Make outputs of the tensors inside a model; return the names of all of its outputs."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
    except Exception:  # noqa: BLE001 - of a model that is too large: then all may be tensors
        inferred = []
    others = {each.name for each in inferred if not each.type.HasField("tensor_type")}
    known = {each.name for each in model.graph.output} | others
    inside = [name for node in model.graph.node for name in node.output if name]
    model.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in inside if name not in known
    )
    return [each.name for each in model.graph.output]


def _in_order(
    model: onnx.ModelProto, names: Sequence[str], mod: tvm.IRModule
) -> tuple[list[str], tvm.IRModule]:
    """Return the names of the outputs, and a typed module that gives a tuple of them, in the order
    of the nodes, in which they are then computed: the model's own come first otherwise."""
    inside = [name for node in model.graph.node for name in node.output]
    place = {name: k for k, name in enumerate(inside)}
    order = sorted(range(len(names)), key=lambda k: place.get(names[k], -1))
    main = mod["main"]
    fields = main.body.fields if isinstance(main.body, relay.Tuple) else [main.body]
    body = relay.Tuple([fields[k] for k in order])
    typed = tvm.IRModule.from_expr(relay.Function(main.params, body))
    return [names[k] for k in order], relay.transform.InferType()(typed)


def _node_of(model: onnx.ModelProto, output: str) -> str:
    for node in model.graph.node:
        if output in node.output:
            name = f' "{node.name}"' if node.name else ""
            return f'{node.op_type}{name} (output "{output}")'
    raise Unsupported(f"no node gives the output {output}")
