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
from ...exec.arrays import PLAIN_DTYPES, view_of
from ...relay_util.walk import evaluate, key_of, operator_calls
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
    visit = _Visitor(backend, floats_alone)
    visit.places = {key_of(call): place for place, call in enumerate(operator_calls(function))}
    params = function.params
    scope = {key_of(param): visit.input(param.checked_type, param.name_hint) for param in params}
    result = evaluate(function.body, scope, visit)
    results = list(result) if isinstance(result, tuple) else [result]
    graph, results = rewritten(visit.graph, results, stages(preferred))
    return graph.model(results)


def why_not_exported(
    call: relay.Call, backend: str, floats_alone: frozenset[str] = frozenset()
) -> str:
    """Return why a call by itself cannot be exported, "" when it can."""
    visit = _Visitor(backend, floats_alone)
    try:
        visit(call, list(map(visit.operand, call.args)))
    except UnsupportedOpError as error:
        return str(error)
    return ""


class _Visitor:
    """Adds the nodes of one expression after the other, for `evaluate`."""

    def __init__(self, backend: str, floats_alone: frozenset[str]) -> None:
        self.graph, self._backend, self._floats_alone = GraphBuilder(), backend, floats_alone
        self.places: dict[int, int] = {}  # of the function's calls by key_of, where it has one

    def input(self, tensor_type: relay.Type, what: str) -> Any:
        """Add an input of a type, of a tuple one for each field; `what` names it in errors."""
        if isinstance(tensor_type, ir.TupleType):
            return tuple(self.input(each, what) for each in tensor_type.fields)
        return self.graph.input(*self._static(tensor_type, what))

    def operand(self, argument: relay.Expr) -> Any:
        """Add what a call by itself reads."""
        if isinstance(argument, relay.Constant):
            shape, dtype = self._static(argument.checked_type, "a constant")
            if math.prod(shape) > _SMALL:  # its values tell nothing, and copying weights takes long
                return self.graph.constant(np.broadcast_to(np.zeros((), dtype), shape))
            return self.graph.constant(view_of(argument.data))
        if isinstance(argument, relay.Tuple):
            return tuple(map(self.operand, argument.fields))
        return self.input(argument.checked_type, "an operand")

    def __call__(self, expr: relay.Expr, values: list[Any]) -> Any:
        if isinstance(expr, relay.Constant):
            return self.graph.constant(view_of(expr.data))
        if not (isinstance(expr, relay.Call) and isinstance(expr.op, ir.Op)):
            kind = type(expr).__name__
            raise UnsupportedOpError(self._backend, kind, "not an op, a tuple or a constant")
        self.graph.call = self.places.get(key_of(expr))
        name = expr.op.name
        if name not in _CONVERTERS:
            raise UnsupportedOpError(self._backend, name, "the op is not in its table")
        is_tuple = isinstance(expr.checked_type, ir.TupleType)
        types = expr.checked_type.fields if is_tuple else [expr.checked_type]
        results = [self._static(each, name) for each in types]
        call = ExportedCall(
            self.graph, self._backend, name, attrs=expr.attrs, values=values, results=results
        )
        if name not in OPAQUE:  # nodes of the original model compute in others too
            for dtype in (*(dtype for _, dtype in results), *(v.dtype for v in call.operands)):
                call.require(dtype in DTYPES, "dtype", dtype)
        if (
            name in self._floats_alone
            and values[0].dtype.startswith("int")
            and not (name in COMPARISONS and any(map(self._is_exact, values)))
        ):
            reason = f"dtype={values[0].dtype}: it computes them in float32, wrong beyond 2^24"
            raise UnsupportedOpError(self._backend, name, reason)
        answer = _CONVERTERS[name](call)
        return tuple(answer) if is_tuple else answer

    def _is_exact(self, value: Value) -> bool:
        """Return whether it is a constant that compares with any integer as their float32s do:
        rounding brings nothing to it or past it."""
        array = self.graph.array_of(value)
        if array is None or array.size > _SMALL:
            return False
        return bool(((array > -_EXACT_IN_FLOAT32) & (array < _EXACT_IN_FLOAT32)).all())

    def _static(self, tensor_type: relay.Type, what: str) -> tuple[tuple[int, ...], str]:
        """Return shape and dtype, both such as the runtimes take."""
        shape, dtype = static_type(tensor_type, what, self._backend)
        if 0 in shape:
            raise UnsupportedOpError(self._backend, what, f"its shape {list(shape)} is empty")
        if dtype not in PLAIN_DTYPES:
            raise UnsupportedOpError(self._backend, what, f"dtype={dtype} is not supported")
        return shape, dtype
