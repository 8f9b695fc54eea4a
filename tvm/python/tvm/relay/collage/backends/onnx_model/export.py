# SPDX-License-Identifier: Apache-2.0
"""A Relay function -> an ONNX model of opset 17, weights included.

The tables of the ops_*.py say which ops and how; what they refuse is an UnsupportedOpError naming
op, attribute and value. Predicates ask the same functions, so pattern table and export agree.
Precondition: types are inferred; shapes are static. Test: backends/onnx_model/test_export.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from tvm import ir, relay

from ...errors import UnsupportedOpError
from ...relay_util.walk import evaluate, key_of
from ..partition.flatten import static_type
from .builder import GraphBuilder, Value
from .call import ExportedCall
from .ops_math import COMPARISONS, MATH
from .ops_nn import NN
from .ops_opaque import OPAQUE
from .ops_quantised import BYTES, QUANTISED
from .ops_recurrent import RECURRENT
from .ops_shape import SHAPE
from .rewrites import stages
from .rewriting import rewritten

_CONVERTERS: dict[str, Any] = {**MATH, **NN, **OPAQUE, **QUANTISED, **RECURRENT, **SHAPE}
EXPORTED_OPS = frozenset(_CONVERTERS)

# What both runtimes take; they compute in floats, bytes stand for floats, others serve indices and
# masks.
DTYPES = ("float32", "float16", "int64", "int32", "bool", *BYTES)
# What values of the original model's nodes may be besides.
_PLAIN_DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
)
# Constants of more elements are weights: no predicate looks at their values.
_SMALL = 16
# Below that each integer is a float32, and its neighbours are others.
_EXACT_IN_FLOAT32 = 2**24


def export_function(
    function: relay.Function,
    backend: str = "onnx",
    floats_alone: frozenset[str] = frozenset(),
    preferred: frozenset[str] = frozenset(),
) -> onnx.ModelProto:
    """Return the ONNX model of a function: input_0, ... in the order of its parameters, and
    output_0, ... in that of its results, tuples one by one.

    `backend` is who is named in an UnsupportedOpError. `floats_alone` are the ops that it gets no
    integers of, but for comparisons with a small constant. `preferred` are the operators (of
    rewrites.PREFERABLE) that it runs faster than what they are made of.
    """
    graph = GraphBuilder()
    scope = {
        key_of(param): _input(graph, param.checked_type, param.name_hint, backend)
        for param in function.params
    }
    result = evaluate(function.body, scope, _Visitor(graph, backend, floats_alone))
    results = list(result) if isinstance(result, tuple) else [result]
    graph, results = rewritten(graph, results, stages(preferred))
    return graph.model(results)


def why_not_exported(
    call: relay.Call, backend: str, floats_alone: frozenset[str] = frozenset()
) -> str:
    """Return why a call by itself cannot be exported, "" when it can."""
    graph = GraphBuilder()
    visit = _Visitor(graph, backend, floats_alone)
    try:
        visit(call, [_operand(graph, argument, backend) for argument in call.args])
    except UnsupportedOpError as error:
        return str(error)
    return ""


class _Visitor:
    """Adds the nodes of one expression after the other, for `evaluate`."""

    def __init__(self, graph: GraphBuilder, backend: str, floats_alone: frozenset[str]) -> None:
        self._graph, self._backend, self._floats_alone = graph, backend, floats_alone

    def __call__(self, expr: relay.Expr, values: list[Any]) -> Any:
        if isinstance(expr, relay.Constant):
            return _constant(self._graph, expr)
        if not (isinstance(expr, relay.Call) and isinstance(expr.op, ir.Op)):
            kind = type(expr).__name__
            raise UnsupportedOpError(self._backend, kind, "not an op, a tuple or a constant")
        name = expr.op.name
        if name not in _CONVERTERS:
            raise UnsupportedOpError(self._backend, name, "the op is not in its table")
        types = _fields(expr.checked_type)
        results = [_static(each, name, self._backend) for each in types]
        if name not in OPAQUE:
            self._check_types(name, results, values)
        call = ExportedCall(self._graph, self._backend, name, expr.attrs, values, results)
        if (
            name in self._floats_alone
            and values[0].dtype.startswith("int")
            and not (name in COMPARISONS and any(map(self._is_exact, values)))
        ):
            reason = f"dtype={values[0].dtype}: it computes them in float32, wrong beyond 2^24"
            raise UnsupportedOpError(self._backend, name, reason)
        answer = _CONVERTERS[name](call)
        return tuple(answer) if isinstance(expr.checked_type, ir.TupleType) else answer

    def _check_types(
        self, name: str, results: list[tuple[tuple[int, ...], str]], values: list[Any]
    ) -> None:
        """Refuse what our own nodes do not compute in; those of the original model do."""
        flat = [each for value in values for each in (value if type(value) is tuple else [value])]
        for dtype in (*(dtype for _, dtype in results), *(each.dtype for each in flat)):
            if dtype not in DTYPES:
                raise UnsupportedOpError(self._backend, name, f"dtype={dtype} is not supported")

    def _is_exact(self, value: Value) -> bool:
        """Return whether it is a constant that compares with any integer as their float32s do:
        rounding brings nothing to it or past it."""
        array = self._graph.array_of(value)
        if array is None or array.size > _SMALL:
            return False
        return bool(((array > -_EXACT_IN_FLOAT32) & (array < _EXACT_IN_FLOAT32)).all())


def _operand(graph: GraphBuilder, argument: relay.Expr, backend: str) -> Any:
    if isinstance(argument, relay.Constant):
        shape, dtype = _static(argument.checked_type, "a constant", backend)
        if math.prod(shape) > _SMALL:  # its values tell nothing, and copying weights takes long
            return graph.constant(np.broadcast_to(np.zeros((), dtype), shape))
        return _constant(graph, argument)
    if isinstance(argument, relay.Tuple):
        return tuple(_operand(graph, each, backend) for each in argument.fields)
    return _input(graph, argument.checked_type, "an operand", backend)


def _constant(graph: GraphBuilder, expr: relay.Expr) -> Value:
    return graph.constant(expr.data.numpy())


def _input(graph: GraphBuilder, tensor_type: relay.Type, what: str, backend: str) -> Any:
    if isinstance(tensor_type, ir.TupleType):
        return tuple(_input(graph, each, what, backend) for each in tensor_type.fields)
    return graph.input(*_static(tensor_type, what, backend))


def _fields(checked_type: relay.Type) -> list[Any]:
    return list(checked_type.fields) if isinstance(checked_type, ir.TupleType) else [checked_type]


def _static(tensor_type: relay.Type, what: str, backend: str) -> tuple[tuple[int, ...], str]:
    """Return shape and dtype, both such as the runtimes take."""
    shape, dtype = static_type(tensor_type, what, backend)
    if 0 in shape:
        raise UnsupportedOpError(backend, what, f"its shape {list(shape)} is empty")
    if dtype not in _PLAIN_DTYPES:
        raise UnsupportedOpError(backend, what, f"dtype={dtype} is not supported")
    return shape, dtype
