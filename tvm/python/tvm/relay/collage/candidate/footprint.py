# SPDX-License-Identifier: Apache-2.0
"""The bytes that a module touches again in each run, beside its inputs and outputs: those of its
weights, and of values inside it.

Whether caches still hold them when it runs next, after the rest of its network has run, decides
part of its time (measure/profiler/in_network.py). Test: candidate/test_footprint.py.

Assumptions: a compiler gives memory that is free again to the next value, computes functions of
elements in the memory of an operand that nobody else reads, and reshapes nothing but shapes. What
TVM fuses besides counts, though it has no memory. Where there is control flow, or a size is not
known, values count nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import relay
from tvm.relay.function import Function

from ..relay_util.walk import elements_of, evaluate, key_of, nodes_of
from .weights import CACHE_BYTES, weight_bytes

# A network that touches less than this leaves all of it in any cache.
_FEWEST_BYTES = 64 << 10
# Relay's OpPatternKind: functions of elements, and those that broadcast an operand.
_MOST_ELEMENTWISE = 1
_CONTROL_FLOW = (relay.If, relay.Let, relay.Match, relay.RefCreate, relay.RefRead, relay.RefWrite)


def bytes_in_turn(mod: tvm.IRModule) -> int:
    """Return the bytes that a network (typed) touches between two runs of a part of it, as far as
    caches tell, to a power of two, for costs of other networks to be used. A module without weights
    says nothing of its network, which may have many."""
    weights = weight_bytes(mod)
    size = weights + inner_bytes(mod) if weights else CACHE_BYTES
    return 1 << round(math.log2(min(max(size, _FEWEST_BYTES), CACHE_BYTES)))


def inner_bytes(mod: tvm.IRModule) -> int:
    """Return the bytes of the values inside a module (typed), as many as are alive at once."""
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    return sum(map(_most_alive, functions))


class _Value(NamedTuple):
    """A value that a call makes: when, of how many bytes, of which values, and whether by a
    function of elements."""

    time: int
    size: int
    operands: tuple[int, ...]
    is_elementwise: bool


def _most_alive(function: Function) -> int:
    if nodes_of(function.body, *_CONTROL_FLOW):
        return 0
    values: list[_Value] = []

    def visit(expr: relay.Expr, operands: Sequence[Any]) -> Any:
        """Return the values that an expression is made of, by number, as its type has them."""
        if not isinstance(expr, relay.Call):
            return _mapped(expr.checked_type, lambda _: None)
        if _attribute(expr, "TReshapeOp"):
            return operands[0]
        time, read = len(values), tuple(_numbers(operands))

        def made(tensor: relay.TensorType) -> int:
            size = (elements_of(tensor) or 0) * math.ceil(tvm.DataType(tensor.dtype).bits / 8)
            values.append(_Value(time, size, read, is_elementwise=_is_elementwise(expr)))
            return len(values) - 1

        return _mapped(expr.checked_type, made)

    scope = {key_of(p): _mapped(p.checked_type, lambda _: None) for p in function.params}
    returned = set(_numbers([evaluate(function.body, scope, visit)]))
    last = [value.time for value in values]
    for value in values:
        for number in value.operands:
            last[number] = max(last[number], value.time)
    for number in returned:
        last[number] = len(values)
    return _peak(values, last, returned)


def _mapped(kind: relay.Type, function: Callable[[Any], Any]) -> Any:
    """Return what the function gives for the tensors of a type, in tuples where that has tuples."""
    if isinstance(kind, tvm.ir.TupleType):
        return tuple(_mapped(field, function) for field in kind.fields)
    return function(kind) if isinstance(kind, tvm.ir.TensorType) else None


def _numbers(values: Iterable[Any]) -> Iterator[int]:
    """Yield the numbers of values, which may be in tuples; None is of what is given from
    outside."""
    for value in values:
        if isinstance(value, tuple):
            yield from _numbers(value)
        elif value is not None:
            yield value


def _attribute(call: relay.Call, name: str) -> Any:
    """Return an attribute of the operator that is called; None where it has none, and of other
    calls."""
    return call.op.get_attr(name) if isinstance(call.op, tvm.ir.Op) else None


def _is_elementwise(call: relay.Call) -> bool:
    pattern = _attribute(call, "TOpPattern")
    return pattern is not None and int(pattern) <= _MOST_ELEMENTWISE


def _peak(values: Sequence[_Value], last: Sequence[int], returned: set[int]) -> int:
    """Most bytes at once of memory that holds no output: outputs are others' as well."""
    memory_of: list[int] = []  # by value: the first value in the same memory
    for number, value in enumerate(values):
        taken = next(
            (
                memory_of[operand]
                for operand in value.operands
                if value.is_elementwise
                if last[operand] == value.time and values[operand].size == value.size
            ),
            number,
        )
        memory_of.append(taken)
    of_outputs = {memory_of[number] for number in returned}
    spans: dict[int, tuple[int, int]] = {}
    for number, memory in enumerate(memory_of):
        begin, _ = spans.get(memory, (values[number].time, 0))
        spans[memory] = begin, last[number]
    changes = np.zeros(len(values) + 2, "int64")  # by time
    for memory, (begin, end) in spans.items():
        if memory not in of_outputs:
            changes[begin] += values[memory].size
            changes[end + 1] -= values[memory].size
    return int(changes.cumsum().max())
