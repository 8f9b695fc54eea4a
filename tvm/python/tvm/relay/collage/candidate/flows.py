# SPDX-License-Identifier: Apache-2.0
"""The flow of numbers that an operator reads as places: from which variables and constants they
come, through which operators, and what these must be for the numbers to be safe.

Needs are walked backwards, from READS of reads.py through FLOWS to the leaves. What a walk cannot
see through (another kind of operator) ends it, where the result's type or operator bounds it; else
the integers below are needed to be zero.

Test: candidate/test_reads.py
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay import expr as _expr
from tvm.relay.function import Function

from ..relay_util.walk import nodes_of
from .reads import PLAIN, RANGES, READS, ZERO, Need, fields_of, is_integer, names, shape_of, type_of

# What the operands of a call must be for its result to be what `need` says.
Flow = Callable[[Any, Need], Iterator[tuple[Any, Need]]]

# Forms of a whole tensor, which moving its numbers about would break.
_ORDERED = ("pointers", "regions", "boxes")
# A node with more needs than this has its own by too many ways to tell them apart: zeros serve all.
_MOST_NEEDS = 16


def _same(*places: int) -> Flow:
    """Make the flow of a result whose numbers are those of these operands, in another order or
    fewer."""

    def flow(call: relay.Call, need: Need) -> Iterator[tuple[Any, Need]]:
        for place in places:
            yield call.args[place], _without_form(need)

    return flow


def _in_order(call: relay.Call, need: Need) -> Iterator[tuple[Any, Need]]:
    """Yield the needs of operands whose numbers are the result's, one by one."""
    yield call.args[0], need


def _all_fields(call: relay.Call, need: Need) -> Iterator[tuple[Any, Need]]:
    for field in fields_of(call.args[0]) or [call.args[0]]:
        yield field, _without_form(need)


def _without_form(need: Need) -> Need:
    return need._replace(form="") if need.form in _ORDERED else need


def _within(low: float, high: float, need: Need) -> Need:
    """Return the need of a part of a sum or product; zero where there are no such numbers."""
    if math.isnan(low) or math.isnan(high) or low > high:
        low = high = 0
    first = None if math.isinf(low) else math.ceil(low)
    last = None if math.isinf(high) else math.floor(high)
    if first is not None and last is not None and first > last:
        first = last = 0
    return need._replace(low=first, high=last, form="")


def _values(node: relay.Expr) -> tuple[float, float] | None:
    """Return the least and the greatest number of a constant; None for what is none."""
    if not isinstance(node, _expr.Constant):
        return None
    array = node.data.numpy()
    return (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)


def _sum(sign: int) -> Flow:
    def flow(call: relay.Call, need: Need) -> Iterator[tuple[Any, Need]]:
        low, high = need.limits()
        left, right = call.args
        of_left, of_right = _values(left), _values(right)
        if of_right is not None:
            offsets = sorted(sign * value for value in of_right)
            yield left, _within(low - offsets[0], high - offsets[1], need)
            yield right, need._replace(low=None, high=None, form="")
        elif of_left is not None:
            ends = sorted((sign * (low - of_left[0]), sign * (high - of_left[1])))
            yield left, need._replace(low=None, high=None, form="")
            yield right, _within(ends[0], ends[1], need)
        elif sign < 0:
            yield left, _without_form(need)
            yield right, need._replace(low=0, high=0, form="")
        else:
            for side in (left, right):
                yield side, _within(max(low / 2, 0), high / 2, need)

    return flow


def _product(call: relay.Call, need: Need) -> Iterator[tuple[Any, Need]]:
    low, high = need.limits()
    for side, other in (call.args, reversed(call.args)):
        known = _values(other)
        if known is not None and known[0] > 0:
            yield side, _within(low / known[0], high / known[1], need)
        elif _values(side) is not None:
            yield side, need._replace(low=None, high=None, form="")
        else:
            yield side, _within(0, 1 if high >= 1 else 0, need)


def _quotient(call: relay.Call, need: Need) -> Iterator[tuple[Any, Need]]:
    low, high = need.limits()
    known = _values(call.args[1])
    if known is None or known[0] <= 0:
        yield call.args[0], _within(0, high, need)
    else:
        yield call.args[0], _within(low * known[1], (high + 1) * known[0] - 1, need)
    yield call.args[1], need._replace(low=1, high=16, form="")


def _remainder(call: relay.Call, need: Need) -> Iterator[tuple[Any, Need]]:
    """Yield the needs of a remainder: of a constant it is below that; a negative number's may be
    negative."""
    known = _values(call.args[1])
    is_bounded = known is not None and known[0] > 0 and known[1] - 1 <= need.limits()[1]
    yield call.args[0], need._replace(low=0, high=None if is_bounded else need.high, form="")
    yield call.args[1], need._replace(low=1, high=16, form="")


def _total(call: relay.Call, need: Need) -> Iterator[tuple[Any, Need]]:
    """Sums over axes, or over what comes before (cumsum)."""
    before, after = shape_of(call.args[0]), type_of(call)
    count = math.prod(before) if before else math.inf
    if before and call.op.name == "cumsum" and call.attrs.axis is not None:
        count = before[int(call.attrs.axis)]
    elif before and call.op.name == "sum" and isinstance(after, tvm.ir.TensorType):
        count //= max(1, math.prod(shape_of(call) or [1]))
    low, high = need.limits()
    yield call.args[0], _within(max(low / max(count, 1), 0), high / max(count, 1), need)


def _opposite(call: relay.Call, need: Need) -> Iterator[tuple[Any, Need]]:
    yield call.args[0], _within(-need.limits()[1], -need.limits()[0], need)


def _choice(call: relay.Call, need: Need) -> Iterator[tuple[Any, Need]]:
    # The condition is not looked into: of `where(i < 0, i + n, i)` both make demands on i.
    for branch in call.args[1:]:
        yield branch, _without_form(need)


FLOWS: dict[str, Flow] = {
    "add": _sum(1),
    "cumsum": _total,
    "divide": _quotient,
    "floor_divide": _quotient,
    "floor_mod": _remainder,
    "mod": _remainder,
    "multiply": _product,
    "negative": _opposite,
    "subtract": _sum(-1),
    "sum": _total,
    "trunc_divide": _quotient,
    "trunc_mod": _remainder,
    "where": _choice,
    **dict.fromkeys(["concatenate", "stack"], _all_fields),
    **dict.fromkeys(["maximum", "minimum"], _same(0, 1)),
    "nn.pad": _same(0, 1),
    "scatter_elements": _same(0, 2),
    "scatter_nd": _same(0, 2),
    **dict.fromkeys(
        names("""
        cast cast_like reshape contrib_reverse_reshape reshape_like expand_dims squeeze copy
        nn.batch_flatten dyn.reshape dyn.expand_dims dyn.squeeze annotation.stop_fusion on_device
        device_copy
        """),
        _in_order,
    ),
    **dict.fromkeys(
        names("""
        abs adv_index broadcast_to broadcast_to_like ceil clip collapse_sum_like
        dyn.broadcast_to dyn.full dyn.strided_slice dyn.tile floor full full_like gather gather_nd
        layout_transform max min nn.dropout nn.relu repeat reverse reverse_sequence round
        sequence_mask slice_like sliding_window sort split strided_slice take tile transpose trilu
        trunc dyn.nn.pad nn.mirror_pad
        """),
        _same(0),
    ),
}
# Operators whose results are numbers in a range of their own, whatever they get.
OWN_RANGE = names(
    "argmax argmin argsort argwhere shape_of ndarray_size arange topk unique vm.shape_of"
)


@dataclasses.dataclass
class Leaves:
    """The origins of the numbers that are read: variables with what they must be, in the order in
    which they are met, and constants whose values matter."""

    needs: dict[_expr.Var, Need]
    constants: set[_expr.Constant]


def leaves_read(functions: Iterable[Function], mod: tvm.IRModule | None = None) -> Leaves:
    """Return what these functions, of module `mod` if they call others of it, read as places,
    shapes or structure, or must not be zero or such.

    Parameters of functions that are called in them stand for what calls give for them: parts of
    external backends hold the calls that tell what a candidate's inputs are.
    """
    return leaves_read_by([node for each in functions for node in nodes_of(each.body)], mod)


def kept_constants(nodes: Iterable[Any]) -> list[Any]:
    """Return, for the pass, the constants that decide how long calls take which read places,
    whatever their size; of these calls and the lets of their function."""
    return list(leaves_read_by(nodes).constants)


def leaves_read_by(nodes: Iterable[Any], mod: tvm.IRModule | None = None) -> Leaves:
    """leaves_read of these nodes alone: calls that read, calls of functions and lets are enough."""
    waiting: list[tuple[Any, Need]] = []
    given: dict[_expr.Var, list] = {}
    for node in nodes:
        if isinstance(node, _expr.Let):
            given.setdefault(node.var, []).append(node.value)
        if not isinstance(node, _expr.Call):
            continue
        called = _called(node, mod)
        if isinstance(called, Function):
            for param, argument in zip(called.params, node.args, strict=True):
                given.setdefault(param, []).append(argument)
        elif isinstance(called, tvm.ir.Op):
            waiting.extend(_reads(called.name, node))
    return _walk(waiting, given, mod)


def _reads(name: str, call: relay.Call) -> Iterable[tuple[Any, Need]]:
    reads = READS.get(name) or RANGES.get(name)
    if reads is not None:
        return reads(call)
    if name in PLAIN or name in FLOWS or name in OWN_RANGE:
        return ()
    return [(arg, ZERO) for arg in call.args if is_integer(arg)]


def _walk(
    waiting: list[tuple[Any, Need]], given: dict[_expr.Var, list], mod: tvm.IRModule | None
) -> Leaves:
    found = Leaves({}, set())
    seen: dict[Any, set[Need]] = {}
    while waiting:
        node, need = waiting.pop()
        of_node = seen.setdefault(node, set())
        if len(of_node) >= _MOST_NEEDS:
            need = ZERO
        if need in of_node:
            continue
        of_node.add(need)
        if isinstance(node, _expr.Constant):
            if need.decides:
                found.constants.add(node)
        elif isinstance(node, _expr.Var):
            if node in given:
                waiting += [(value, need) for value in given[node]]
            else:
                found.needs[node] = _both(found.needs.get(node), need)
        elif not _holds_any(node, need):
            waiting += _below(node, need, mod)
    return found


def _below(node: relay.Expr, need: Need, mod: tvm.IRModule | None) -> Iterable[tuple[Any, Need]]:
    if isinstance(node, _expr.TupleGetItem):
        whole = node.tuple_value
        called = _called(whole, mod) if isinstance(whole, _expr.Call) else None
        fields = fields_of(called.body if isinstance(called, Function) else whole)
        return [(fields[node.index] if fields else whole, need)]
    if isinstance(node, _expr.Tuple):
        return [(field, need) for field in node.fields]
    if isinstance(node, _expr.Let):
        return [(node.body, need)]
    if isinstance(node, _expr.If):
        return [(node.true_branch, need), (node.false_branch, need)]
    if not isinstance(node, _expr.Call):
        return []
    called = _called(node, mod)
    if isinstance(called, Function):
        return [(called.body, need)]
    if not isinstance(called, tvm.ir.Op) or called.name in OWN_RANGE:
        return []
    if called.name in FLOWS:
        return FLOWS[called.name](node, need)
    if need.low is None and need.high is None:
        return []  # any numbers do, and where these come from is computed
    return [(arg, need._replace(low=0, high=0, form="")) for arg in node.args if _is_wide(arg)]


def _called(call: relay.Call, mod: tvm.IRModule | None) -> Any:
    if isinstance(call.op, tvm.ir.GlobalVar) and mod is not None:
        return mod[call.op]
    return call.op


def _is_wide(node: relay.Expr) -> bool:
    """Return whether these are integers of a kind that are indices; bytes are a quantised net's."""
    return is_integer(node) and not str(type_of(node).dtype).endswith("int8")


def _holds_any(node: relay.Expr, need: Need) -> bool:
    """Return whether every number of the node's type is what is needed."""
    dtype = str(getattr(type_of(node), "dtype", ""))
    low, high = need.limits()
    if dtype == "bool":
        return low <= 0 and high >= 1
    if not is_integer(node):
        return False
    limits = np.iinfo(dtype)
    return low <= limits.min and limits.max <= high


def _both(one: Need | None, other: Need) -> Need:
    """Return what satisfies both; where nothing does, the one with numbers that are not
    negative."""
    if one is None:
        return other
    low = max((n.low for n in (one, other) if n.low is not None), default=None)
    high = min((n.high for n in (one, other) if n.high is not None), default=None)
    if low is not None and high is not None and low > high:
        return max(one, other, key=lambda need: need.limits()[0])
    formed = next((need for need in (one, other) if need.form), one)
    is_kept = (formed.low, formed.high) == (low, high)
    return formed._replace(
        low=low,
        high=high,
        form=formed.form if is_kept else "",
        decides=one.decides or other.decides,
    )
