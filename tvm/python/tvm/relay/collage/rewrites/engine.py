# SPDX-License-Identifier: Apache-2.0
"""Rules of `rewrites.table`, and their application to a module.

Precondition: modules are typed (InferType). Test: rewrites/test_table.py
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import (
    AltPattern,
    DFPattern,
    DFPatternCallback,
    is_op,
    rewrite,
    wildcard,
)

from ..relay_util.walk import is_open_function, operator_calls


@dataclasses.dataclass(frozen=True)
class Rule:
    """A row of the table, by which a call becomes another expression of the same value."""

    name: str  # by which a PassContext disables it
    when: str  # the step of `prepare`, or the pass of TVM before or after which it is applied
    pattern: DFPattern  # of a call of these operators
    condition: Callable[[Any], bool]  # on a typed call of such an operator
    # On the call before anything below it was rewritten, which has types, and on the one after, of
    # which the result is made; None where nothing can be made of it.
    result: Callable[[Any, Any], Any]
    is_once: bool = False  # applied once: what it makes would match again
    # Operators of which a function holds one wherever the rule is of use, if other rules make the
    # calls of the condition.
    made_of: tuple[str, ...] = ()

    @functools.cached_property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators whose calls the pattern matches."""
        patterns, names = [self.pattern], []
        while patterns:
            pattern = patterns.pop()
            if isinstance(pattern, AltPattern):
                patterns += [pattern.left, pattern.right]
            else:
                names.append(pattern.op.expr.name)
        return tuple(names)


class _Callback(DFPatternCallback):
    """A rule as TVM's rewriter takes it."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(require_type=True, rewrite_once=rule.is_once)
        self.pattern, self._rule = rule.pattern, rule

    def callback(self, pre: relay.Expr, post: relay.Expr, node_map: object) -> Any:
        result = self._rule.result(pre, post) if self._rule.condition(pre) else None
        return post if result is None else result


def rewrite_in_place(mod: tvm.IRModule, rules: Iterable[Rule]) -> bool:
    """Apply rules to the open functions of `mod` until none of them matches, but for those that the
    PassContext disables; return whether anything changed. `mod` is typed again then.

    One walk finds the rules whose nodes a function holds, and only these match their patterns:
    most functions hold none.
    """
    disabled = {str(name) for name in tvm.transform.PassContext.current().disabled_pass}
    rules = [rule for rule in rules if rule.name not in disabled]
    changed = False
    for var, function in mod.functions_items():
        if is_open_function(function) and (needed := _needed(function, rules)):
            mod.update_func(var, rewrite(list(map(_Callback, needed)), function, mod))
            changed = True
    if changed:
        type_in_place(mod)
    return changed


def _needed(function: relay.Function, rules: list[Rule]) -> list[Rule]:
    calls: dict[str, list[relay.Call]] = {}
    for each in operator_calls(function):
        calls.setdefault(each.op.name, []).append(each)

    def is_needed(rule: Rule) -> bool:
        if rule.made_of:
            return any(name in calls for name in rule.made_of)
        return any(rule.condition(each) for name in rule.operators for each in calls.get(name, ()))

    return list(filter(is_needed, rules))


def type_in_place(mod: tvm.IRModule) -> None:
    """Type what a pass has returned, without instruments: whoever asks may be one."""
    with tvm.transform.PassContext():
        mod.update(relay.transform.InferType()(mod))


def always(_call: relay.Expr) -> bool:
    """Be the condition of a rule whose pattern says all, or whose result does."""
    return True


def reads(name: str) -> Callable[[Any], bool]:
    """Return the condition that a call reads what an operator of this name gives."""
    return lambda node: any(is_call(operand, name) for operand in node.args)


def first_operand(_pre: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Be the result of a rule that leaves a call out."""
    return post.args[0]


def is_call(node: relay.Expr, *names: str) -> bool:
    """Tell whether a node is a call of an operator of one of these names."""
    is_op_call = isinstance(node, relay.Call) and isinstance(node.op, tvm.ir.Op)
    return is_op_call and node.op.name in names


def call(*names: str, operands: Sequence[DFPattern] = ()) -> DFPattern:
    """Return the pattern of a call of any of these operators, on any operands unless given."""
    patterns = []
    for name in names:
        count = tvm.ir.Op.get(name).num_inputs  # a tuple counts as one
        patterns.append(is_op(name)(*(operands or [wildcard() for _ in range(count)])))
    first, *others = patterns
    for other in others:
        first |= other
    return first


def number_of(expr: relay.Expr) -> float | int | None:
    """Return the one number that a constant holds; None of anything else."""
    if not isinstance(expr, relay.Constant) or expr.data.numpy().size != 1:
        return None
    return expr.data.numpy().item()


def with_attrs(op: tvm.ir.Op, like: relay.Expr, operands: list[Any], **changed: Any) -> relay.Call:
    """Return a call of `op` with the attributes of the call `like`, some of them changed."""
    names = map(str, like.attrs.keys())
    fields = {name: like.attrs[name] for name in names} | changed
    attrs = tvm.ir.make_node(f"relay.attrs.{type(like.attrs).__name__}", **fields)
    return relay.Call(op, operands, attrs, span=like.span)
