# SPDX-License-Identifier: Apache-2.0
"""The operators `collage.onnx_node_0`, `collage.onnx_node_1`, ...: a node of an ONNX model that
Relay has no operators for.

The operands are the node's inputs, without those that the node's model holds as constants. That
model is an attribute of the call. Libraries that run ONNX models take a call as the node that it
is, several neighbours in one part. TVM runs it by itself as a call of onnxruntime, so every plan
and every executor of a module has it; the VM also where the shape of a result depends on data.

There is an operator for each number of operands: TVM's operators take a fixed number, and those
that take a tuple cannot tell shapes by data.

Test: ops/test_onnx_node.py. Docs: docs/import.md
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import onnx
import tvm
from tvm import relay, te
from tvm.relay.op import op as registry

from ..errors import UnsupportedOpError
from ..relay_util.walk import tensors_of
from .onnx_names import count_nodes
from .register import register

# Nodes of more inputs than this are refused.
_MOST_OPERANDS = 32
NAMES = tuple(f"collage.onnx_node_{count}" for count in range(_MOST_OPERANDS + 1))
# What TVM's code calls for a node.
LIBRARY = "onnxruntime"
_RUN = "collage.onnx_model.run_node"
_TELL_SHAPES = "collage.onnx_model.tell_shapes"
_PACKED = tvm.ir.Op.get("tir.tvm_call_packed")
# The place of the threads among its arguments, the function's name counted.
_THREADS = 4
# What a call that is the whole of a model's file is called in reports, instead of its nodes.
WHOLE_FILE = "the model's file"
# Threads of engine.h: whose threads a model runs on.
OWN, AWAKE, SHARED, NONE = 0, 1, 2, 3
# Operators up to which threads that models share serve one better than its own, which find the
# next operator awake. A network may have hundreds of small parts; with threads of each, asleep
# since the last run, a part took longer on two cores by about what ten to thirty operators lose by
# waking the shared ones (commit 90e23156 measured it).
_FEW_OPERATORS = 8


def onnx_node(
    model: onnx.ModelProto,
    operands: Sequence[Any],
    types: Sequence[tvm.ir.Type],
    operator: str = "",
) -> Any:
    """Return a call that computes `model`, whose inputs input_0, ... are `operands`, and whose
    outputs output_0, ... have `types`: one value, or a tuple of several. `operator` is its name in
    reports, by default that of its nodes. UnsupportedOpError for more operands than there are
    operators for."""
    operator = operator or "+".join(node.op_type for node in model.graph.node)
    if len(operands) > _MOST_OPERANDS:
        what = f"it has {len(operands)} inputs, and {_MOST_OPERANDS} at most can be taken"
        raise UnsupportedOpError(LIBRARY, operator, what)
    attrs = tvm.ir.make_node(
        "DictAttrs",
        operator=operator,
        model=model.SerializeToString(deterministic=True).hex(),
        types=list(types),
    )
    return relay.Call(registry.get(NAMES[len(operands)]), list(operands), attrs)


def model_of(attrs: tvm.ir.Attrs) -> onnx.ModelProto:
    """Return the model of a call with these attributes."""
    return onnx.ModelProto.FromString(bytes.fromhex(str(attrs["model"])))


def digest_of(attrs: tvm.ir.Attrs) -> str:
    """Return a hash of the model of a call with these attributes."""
    return hashlib.sha256(str(attrs["model"]).encode()).hexdigest()


def is_file(attrs: tvm.ir.Attrs) -> bool:
    """Tell whether a call with these attributes is a model's whole file."""
    return str(attrs["operator"]) == WHOLE_FILE


def library_version() -> str:
    """Return the name and version of the library that TVM's code calls for a node."""
    return f"{LIBRARY} {tvm.get_global_func('collage.onnx_model.version')(LIBRARY)}"


def threads_of(model: onnx.ModelProto) -> int:
    """Return whose threads a model beside others runs on: shared ones, or its own."""
    return SHARED if count_nodes(model.graph) <= _FEW_OPERATORS else OWN


def _type_of(types: Sequence[tvm.ir.Type], attrs: tvm.ir.Attrs) -> Any:
    """Return the result's type; None while TVM does not know the operands'."""
    if not all(isinstance(item, relay.TensorType) for item in types[:-1]):
        return None
    results = list(attrs["types"])
    return results[0] if len(results) == 1 else relay.TupleType(results)


def _compute(attrs: tvm.ir.Attrs, inputs: Sequence[tvm.te.Tensor], out_type: tvm.ir.Type) -> Any:
    fields = tensors_of(out_type)
    tensors = te.extern(
        [_extents(field) for field in fields],
        list(inputs),
        functools.partial(_statement, _RUN, attrs),
        dtype=[field.dtype for field in fields],
        name="onnx_node",
    )
    return [tensors] if len(fields) == 1 else tensors


def _extents(field: Any) -> list[Any]:
    return [
        te.var("extent", "int32") if isinstance(extent, tvm.tir.Any) else extent
        for extent in field.shape
    ]


def _statement(
    function: str,
    attrs: tvm.ir.Attrs,
    inputs: Sequence[tvm.te.Tensor],
    outputs: Sequence[tvm.te.Tensor],
) -> tvm.tir.PrimExpr:
    threads = AWAKE if is_file(attrs) else threads_of(model_of(attrs))
    head = (LIBRARY, digest_of(attrs), str(attrs["model"]), threads, len(inputs))
    return tvm.tir.call_packed(function, *head, *inputs, *outputs)


def on_one_thread(call: tvm.tir.Call) -> tvm.tir.Call | None:
    """Return a call of a node that runs it on the calling thread alone; None for other calls."""
    if call.op != _PACKED or call.args[0].value not in (_RUN, _TELL_SHAPES):
        return None
    args = list(call.args)
    args[_THREADS] = tvm.tir.IntImm("int32", NONE)
    return tvm.tir.Call(call.dtype, call.op, args, call.span)


def _shapes(attrs: tvm.ir.Attrs, inputs: Sequence[tvm.te.Tensor], ranks: Sequence[Any]) -> Any:
    """Return vectors of the outputs' shapes, which the node tells by running."""
    vectors = te.extern(
        [(int(rank),) if int(rank) else () for rank in ranks],
        list(inputs),
        functools.partial(_statement, _TELL_SHAPES, attrs),
        dtype=["int64"] * len(ranks),
        name="onnx_node_shapes",
    )
    return [vectors] if len(ranks) == 1 else vectors


for _count, _name in enumerate(NAMES):
    operands = [f"input_{i}" for i in range(_count)]
    register(_name, operands, _type_of, compute_for=lambda _target: _compute)
    registry.register_shape_func(_name, True, _shapes)
