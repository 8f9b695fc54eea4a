# SPDX-License-Identifier: Apache-2.0
"""The weight-free form of a module: constants become parameters and back.

Test: costs/test_candidate.py.

Precondition: the module is a plain Relay module; pattern `match` expressions keep their constants.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay import expr as _expr
from tvm.relay.analysis import post_order_visit
from tvm.relay.function import Function

from .flows import leaves_read
from .inputs import random_weights

# Constants up to this many elements stay as they are: axes, exponents, quantisation scales, clip
# bounds. Their values can change what is compiled; those of larger ones (weights) cannot, but for
# those that say where or how much is computed (kept_constants). The same number as in
# relay/identity.h, which signatures and the keys of placements follow.
SMALL_CONSTANT = 16
_PREFIX = "collage_weight_"

WeightNames = dict[str, list[str]]


def is_weight(node: relay.Expr) -> bool:
    """Whether a Relay node is a constant whose values do not belong to a candidate's identity,
    unless it is one of kept_constants."""
    if not isinstance(node, _expr.Constant):
        return False
    return int(np.prod(node.data.shape, dtype=np.int64)) > SMALL_CONSTANT


def kept_constants(
    functions: Iterable[Function], mod: tvm.IRModule | None = None
) -> set[_expr.Constant]:
    """Constants whose values decide how long something takes, however large: indexes, row pointers
    of sparse matrices, shapes. They belong to a candidate's identity, and it is measured with them.
    """
    return leaves_read(functions, mod).constants


def extract_weights(mod: tvm.IRModule) -> tuple[tvm.IRModule, WeightNames]:
    """Replace each weight that is none of kept_constants by a parameter appended to its function.

    Returns the weight-free module and, by global function, the names of the new parameters in
    order of first use. A constant used twice is one parameter. The result is for hashing and
    shipping: calls of a changed function lack the new arguments until bind_weights.
    """
    functions, names = {}, {}
    kept = kept_constants([f for f in mod.functions.values() if isinstance(f, Function)], mod)
    for var, function in mod.functions.items():
        functions[var] = function
        if not isinstance(function, Function):
            continue
        variables: dict[_expr.Constant, _expr.Var] = {}

        def visit(node: relay.Expr, variables: dict[Any, Any] = variables) -> None:
            if is_weight(node) and node not in kept and node not in variables:
                kind = tvm.ir.TensorType(node.data.shape, node.data.dtype)
                variables[node] = _expr.var(f"{_PREFIX}{len(variables)}", kind)

        post_order_visit(function.body, visit)
        if not variables:
            continue
        body = replace_nodes(function.body, variables)
        functions[var] = _with_body(function, [*function.params, *variables.values()], body)
        names[var.name_hint] = [v.name_hint for v in variables.values()]
    return tvm.IRModule(functions, mod.type_definitions), names


def bind_weights(mod: tvm.IRModule, names: WeightNames, seed: int = 0) -> tvm.IRModule:
    """Inverse of extract_weights up to values: the named parameters become constants again, with
    normal random data that depends only on the seed and on the order of the names.

    They must be constants, not inputs: else the compiler packs weights in each run, not once.
    """
    generator = np.random.default_rng(seed)
    functions = dict(mod.functions.items())
    for var in sorted(functions, key=lambda v: v.name_hint):
        wanted = set(names.get(var.name_hint, ()))
        if not wanted:
            continue
        function = functions[var]
        parameters = [p for p in function.params if p.name_hint in wanted]
        values = random_weights(parameters, function, generator)
        constants = dict(zip(parameters, map(_expr.const, values), strict=True))
        kept = [p for p in function.params if p not in constants]
        functions[var] = _with_body(function, kept, replace_nodes(function.body, constants))
    return tvm.IRModule(functions, mod.type_definitions)


def replace_nodes(root: tvm.relay.Expr, replacement: dict) -> tvm.relay.Expr:
    """A copy of `root` in which nodes that are keys of `replacement` are their values.

    A loop over the post order, not a recursion: a whole network is deeper than Python's stack.
    """
    done = dict(replacement)

    def visit(node: relay.Expr) -> None:
        if node not in done:
            changed = _rebuild(node, done)
            if changed is not None:
                done[node] = changed

    post_order_visit(root, visit)
    return done.get(root, root)


def _rebuild(node: relay.Expr, done: dict) -> Any:
    """`node` over its children's replacements, or None when none of them was replaced."""

    def new(child: Any) -> Any:
        return done.get(child, child)

    if isinstance(node, _expr.Call):
        if node.op in done or any(a in done for a in node.args):
            return _expr.CallWithFields(node, new(node.op), [new(a) for a in node.args])
    elif isinstance(node, _expr.Tuple):
        if any(f in done for f in node.fields):
            return _expr.TupleWithFields(node, [new(f) for f in node.fields])
    elif isinstance(node, _expr.TupleGetItem):
        if node.tuple_value in done:
            return _expr.TupleGetItem(new(node.tuple_value), node.index)
    elif isinstance(node, Function):
        if node.body in done:
            return _with_body(node, node.params, new(node.body))
    elif isinstance(node, _expr.Let):
        if node.value in done or node.body in done:
            return _expr.Let(node.var, new(node.value), new(node.body))
    elif isinstance(node, _expr.If):
        parts = [node.cond, node.true_branch, node.false_branch]
        if any(p in done for p in parts):
            return _expr.If(*(new(p) for p in parts))
    return None


def _with_body(function: Function, params: Iterable[Any], body: Any) -> Function:
    return Function(list(params), body, function.ret_type, function.type_params, function.attrs)
