# SPDX-License-Identifier: Apache-2.0
"""The tolerance of outputs beside TVM's: by the coarsest type inside and the length of its sums.

Test: measure/outputs/test_reference.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import onnx
import tvm
from tvm import relay
from tvm.relay import expr as _expr

from ...costs.rounding import EIGHT_BITS, LONG, OUTPUT, RELATIVE, SHORT, Tolerance
from ...ops import ONNX_NODES, model_of
from ...ops.onnx_names import graphs_in
from ...relay_util.walk import operator_calls, tensors_of

_COARSER = tuple(RELATIVE)
_BYTES = "8 bit"
# ONNX's operators that round to bytes, and its number for float16.
_TO_BYTES = re.compile("(Dynamic)?Quantize|QLinear|QGemm|QAttention")
_HALF = onnx.TensorProto.FLOAT16


def tolerance_of(mod: tvm.IRModule, computes_in: str = "") -> Tolerance:
    """Return the tolerance of the module's outputs. Precondition: types are inferred.

    computes_in: the type of RELATIVE that is computed in where the module's own are finer.
    """
    calls = operator_calls(mod)
    roundings = _roundings(calls)
    coarsest = _coarsest(calls, roundings)
    if not coarsest:
        return Tolerance(0.0, 0)
    coarsest = max(coarsest, computes_in, key=_coarseness)
    length = sum(map(reduction_length, calls))
    column = 0 if length <= SHORT else 1 if length <= LONG else 2
    return Tolerance(RELATIVE[coarsest][column], max(1, roundings))


def output_tolerance(mod: tvm.IRModule, computes_in: str = "") -> float:
    """max|a-b| / max|b| of a whole model's outputs; `computes_in` as tolerance_of has it.
    Precondition: types are inferred."""
    calls = operator_calls(mod)
    coarsest = max(_coarsest(calls, _roundings(calls)), computes_in, key=_coarseness)
    return OUTPUT[coarsest or "float32"]


def model_tolerance(model: onnx.ModelProto) -> float:
    """Return the same of an ONNX model's outputs."""
    return OUTPUT[_inside(model) or "float32"]


def _roundings(calls: list[_expr.Call]) -> int:
    """Count the calls that round to 8 bits."""
    return sum(
        any(d in EIGHT_BITS for d in _dtypes(call))
        and any(d not in EIGHT_BITS for d in _dtypes(call.args[0]))
        for call in calls
        if call.args
    )


def _coarsest(calls: list[_expr.Call], roundings: int) -> str:
    """Return the coarsest type of RELATIVE that the calls compute in; "" where all is whole
    numbers."""
    types = [_dtypes(node) for call in calls for node in (call, *call.args)]
    inside = [_inside(model_of(c.attrs)) for c in calls if c.op.name in ONNX_NODES]
    dtypes = {dtype for found in (*types, inside) for dtype in found}
    present = [name for name in _COARSER if name in dtypes]
    return _BYTES if present and roundings else (present[-1] if present else "")


def _inside(model: onnx.ModelProto) -> str:
    """Return the coarsest type of an ONNX model, of those coarser than float32; "" for none."""
    graphs = list(graphs_in(model.graph))
    if any(_TO_BYTES.match(node.op_type) for graph in graphs for node in graph.node):
        return _BYTES
    halves = any(w.data_type == _HALF for graph in graphs for w in graph.initializer)
    return "float16" if halves else ""


def _coarseness(kind: str) -> int:
    """Place in the order of RELATIVE; -1 for none."""
    return _COARSER.index(kind) if kind else -1


def reduction_length(call: _expr.Call) -> int:
    """Terms of the sum behind an element of the call's output; 1 for what sums nothing."""
    name = call.op.name.removeprefix("qnn.")
    if name in _LENGTHS:
        return max(1, _LENGTHS[name](call, *map(_shape, list(call.args)[:2])))
    if name.startswith("nn.conv"):
        return _convolution(call)
    # Means, norms, pools: what is not in the output was summed.
    size = math.prod(_shape(call.args[0])) if call.args else 1
    return max(1, size // max(1, math.prod(_shape(call))))


def _convolution(call: _expr.Call) -> int:
    """Weights for one channel of the output: input channels of a group times the kernel's size."""
    weights, channels = math.prod(_shape(call.args[1])), call.attrs.channels
    if channels is None:
        layout = call.attrs.out_layout or call.attrs.data_layout
        channels = _shape(call)[str(layout).index("C")]
    return weights // max(1, int(channels))


def _along_axis(call: _expr.Call, shape: list[int], *_: Any) -> int:
    return shape[int(call.attrs.axis)]


def _window(call: _expr.Call, *_: Any) -> int:
    return math.prod(int(extent) for extent in call.attrs.pool_size)


_LENGTHS: dict[str, Callable[..., int]] = {
    "nn.dense": lambda call, data, weight: weight[-1],
    "nn.matmul": lambda call, a, b: a[-2] if call.attrs.transpose_a else a[-1],
    "nn.batch_matmul": lambda call, a, b: a[-2] if call.attrs.transpose_a else a[-1],
    "nn.softmax": _along_axis,
    "nn.log_softmax": _along_axis,
    "nn.layer_norm": _along_axis,
    "nn.avg_pool1d": _window,
    "nn.avg_pool2d": _window,
    "nn.avg_pool3d": _window,
    "cumsum": lambda call, data, *_: math.prod(data),
}


def _dtypes(node: Any) -> list[str]:
    """Element types of a value; none for what is no tensor."""
    return [str(tensor.dtype) for tensor in tensors_of(node.checked_type)]


def _shape(node: relay.Expr) -> list[int]:
    """Extents of a tensor, of the first one of a tuple; those that are not known count as 1."""
    tensor = next(iter(tensors_of(node.checked_type)), None)
    shape = [] if tensor is None else tensor.shape
    return [int(extent) if isinstance(extent, tvm.tir.IntImm) else 1 for extent in shape]
