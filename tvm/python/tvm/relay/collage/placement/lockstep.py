# SPDX-License-Identifier: Apache-2.0
"""The parts of a module that TVM's own passes partitioned, as nodes of the module before.

Both are walked together from their results: a call of a backend's function stands for its body with
the arguments in place of the parameters. Test: test_placement_lockstep.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tvm
from tvm import relay
from tvm._ffi import get_global_func

from .._plain import plain
from ..errors import PlacementError
from ..views import dataflow_graph
from .types import Composite, PartCost, PlacedPart

# Operators in a label at most, as in the pass's own.
_MOST_OPS = 8


def parts_of_partitioned(
    prepared: tvm.IRModule, partitioned: tvm.IRModule, backend: str
) -> dict[str, list[PlacedPart]]:
    """Parts by function, with their composites. Both modules are typed.

    PlacementError (kind "plan") names the backend when its passes did more than wrap nodes into
    functions, so that nodes of the one are not those of the other.
    """
    can_be_partitioned = get_global_func("collage.view.CanBePartitioned")
    return {
        var.name_hint: _Walk(prepared, partitioned, var.name_hint, backend).parts()
        for var, function in prepared.functions_items()
        if can_be_partitioned(function)
    }


@dataclasses.dataclass(frozen=True, eq=False)
class _Scope:
    """Where an expression of the partitioned module stands: in which calls of new functions."""

    part: _Scope | None  # the call of a backend's function, None in the function itself
    composite: str
    bindings: dict[Any, tuple[Any, _Scope]]
    body: Any
    attrs: dict[str, Any] = dataclasses.field(default_factory=dict)


class _Walk:
    """One function, before and after."""

    def __init__(self, prepared: tvm.IRModule, after: tvm.IRModule, name: str, backend: str):
        self._before, self._mod, self._name, self._backend = prepared[name], after, name, backend
        self._known = {var.name_hint for var in prepared.get_global_vars()}
        graph = dataflow_graph(self._before)
        self._index = {graph.expr(index): index for index in range(len(graph))}
        self._scopes: dict[tuple[Any, _Scope], _Scope] = {}
        self._owner: dict[int, _Scope] = {}
        self._variables: dict[Any, Any] = {}

    def parts(self) -> list[PlacedPart]:
        names = [var.name_hint for var in self._mod.get_global_vars()]
        if self._name not in names:
            raise PlacementError(self._refusal("it is no longer there"), "plan")
        after = self._mod[self._name]
        root = _Scope(None, "", {}, after.body)
        self._pair_variables(self._before.params, after.params)
        open_pairs = [(self._before.body, after.body, root)]
        while open_pairs:
            open_pairs += self._step(*open_pairs.pop())
        return self._collect()

    def _step(self, before: Any, after: Any, scope: _Scope) -> list[tuple[Any, Any, _Scope]]:
        """Pair one node; return the pairs of its children."""
        after, scope = self._resolve(before, after, scope)
        index = self._index[before]
        if index in self._owner:
            if self._owner[index] is not scope and _is_placed(before):
                raise self._differs(index, "it is computed twice")
            return []
        self._owner[index] = scope
        if type(before) is not type(after):
            raise self._differs(index, f"its kind is {type(after).__name__} afterwards")
        if isinstance(before, relay.Var):
            if self._variables.setdefault(before, after) != after:
                raise self._differs(index, "it is another variable afterwards")
            return []
        if not _is_alike(before, after):
            raise self._differs(index, "it says something else afterwards")
        children, others = _children(before), _children(after)
        if len(children) != len(others):
            raise self._differs(index, "it reads something else afterwards")
        return [(a, b, scope) for a, b in zip(children, others, strict=True)]

    def _resolve(self, before: Any, after: Any, scope: _Scope) -> tuple[Any, _Scope]:
        """What stands behind parameters, calls of new functions and their tuples of results."""
        while True:
            if isinstance(after, relay.Var) and after in scope.bindings:
                after, scope = scope.bindings[after]
            elif (called := self._new_function(after)) is not None:
                scope = self._enter(after, called, scope)
                after = scope.body
            elif isinstance(after, relay.TupleGetItem):
                inner, inside = self._resolve(None, after.tuple_value, scope)
                is_ours = isinstance(before, relay.TupleGetItem) and isinstance(
                    before.tuple_value, relay.Tuple
                )
                if not isinstance(inner, relay.Tuple) or inside is scope or is_ours:
                    return after, scope
                after, scope = inner.fields[after.index], inside
            else:
                return after, scope

    def _new_function(self, expr: Any) -> Any:
        """The function that a call is of when partitioning has made it, else None."""
        function = expr.op if isinstance(expr, relay.Call) else None
        if isinstance(function, relay.GlobalVar):
            function = self._mod[function] if function.name_hint not in self._known else None
        is_new = _is_closed(function) and function not in self._index
        return function if is_new else None

    def _enter(self, call: Any, function: Any, scope: _Scope) -> _Scope:
        if (call, scope) not in self._scopes:
            bindings = {
                param: (arg, scope) for param, arg in zip(function.params, call.args, strict=True)
            }
            composite = str(function.attrs["Composite"]) if "Composite" in function.attrs else ""
            attrs = _further_attrs(function) if composite else {}
            inner = _Scope(scope.part, composite, bindings, function.body, attrs)
            if "Compiler" in function.attrs:
                # A part is its own: the scope that everything inside it refers to.
                object.__setattr__(inner, "part", inner)
            self._scopes[call, scope] = inner
        return self._scopes[call, scope]

    def _pair_variables(self, before: Any, after: Any) -> None:
        self._variables.update(zip(before, after, strict=False))

    def _collect(self) -> list[PlacedPart]:
        is_placed = {i for expr, i in self._index.items() if _is_placed(expr)}
        by_part: dict[_Scope, dict[_Scope, list[int]]] = {}
        for index, scope in sorted(self._owner.items()):
            if scope.part is not None and index in is_placed:
                by_part.setdefault(scope.part, {}).setdefault(scope, []).append(index)
        return [self._part(scopes) for scopes in by_part.values()]

    def _part(self, scopes: dict[_Scope, list[int]]) -> PlacedPart:
        nodes = sorted(index for indexes in scopes.values() for index in indexes)
        return PlacedPart(
            backend=self._backend,
            rule="greedy",
            label=self._label(nodes),
            nodes=tuple(nodes),
            composites=tuple(
                Composite(scope.composite, tuple(indexes), scope.attrs)
                for scope, indexes in scopes.items()
                if scope.composite
            ),
            is_primitive=True,
            cost=PartCost("unknown", None, f"all that {self._backend} takes"),
        )

    def _label(self, nodes: list[int]) -> str:
        exprs = list(self._index)
        calls = [exprs[node] for node in nodes if isinstance(exprs[node], relay.Call)]
        ops = [call.op.name for call in calls if isinstance(call.op, tvm.ir.Op)]
        more = f", ... {len(ops)} ops" if len(ops) > _MOST_OPS else ""
        return f"{self._backend}({', '.join(ops[:_MOST_OPS])}{more})"

    def _differs(self, index: int, how: str) -> PlacementError:
        return PlacementError(self._refusal(f"node {index}: {how}"), "plan")

    def _refusal(self, why: str) -> str:
        return (
            f"the plan of backend {self._backend!r} alone cannot be saved as a placement: passes "
            f"of TVM or of {self._backend} rewrote function @{self._name} ({why})"
        )


def _further_attrs(function: relay.Function) -> dict[str, Any]:
    """What a composite's pattern gave it beside its name."""
    ours = ("Composite", "PartitionedFromPattern")
    return {key: plain(value) for key, value in function.attrs.items() if key not in ours}


def _is_placed(expr: Any) -> bool:
    """Whether a part can hold the node; leaves are reached from inside."""
    leaves = (relay.Var, relay.Constant, relay.GlobalVar, tvm.ir.Op)
    return not isinstance(expr, leaves)


def _is_closed(expr: Any) -> bool:
    """Whether it is a function that was given to a kernel or a backend, a node without inputs."""
    if not isinstance(expr, relay.Function) or expr.attrs is None:
        return False
    return any(name in expr.attrs for name in ("Primitive", "Composite", "Compiler"))


def _is_alike(before: Any, after: Any) -> bool:
    """Whether two nodes say the same apart from their children."""
    if isinstance(before, (relay.Constant, tvm.ir.Op, relay.GlobalVar)) or _is_closed(before):
        return tvm.ir.structural_equal(before, after)
    if isinstance(before, relay.Call):
        return tvm.ir.structural_equal(before.attrs, after.attrs)
    if isinstance(before, relay.TupleGetItem):
        return before.index == after.index
    # Scopes and references are nobody's to change; a pass that did would give other children.
    return True


def _children(expr: Any) -> list[Any]:
    if isinstance(expr, relay.Call):
        return [expr.op, *expr.args]
    if isinstance(expr, relay.Tuple):
        return list(expr.fields)
    if isinstance(expr, relay.TupleGetItem):
        return [expr.tuple_value]
    if isinstance(expr, relay.Let):
        return [expr.value, expr.var, expr.body]
    if isinstance(expr, relay.If):
        return [expr.cond, expr.true_branch, expr.false_branch]
    if isinstance(expr, relay.Function) and not _is_closed(expr):
        return [*expr.params, expr.body]
    if isinstance(expr, relay.Match):
        return [expr.data, *(clause.rhs for clause in expr.clauses)]
    if isinstance(expr, (relay.RefCreate, relay.RefRead, relay.RefWrite)):
        names = {relay.RefCreate: ["value"], relay.RefRead: ["ref"]}
        return [getattr(expr, name) for name in names.get(type(expr), ["ref", "value"])]
    return []
