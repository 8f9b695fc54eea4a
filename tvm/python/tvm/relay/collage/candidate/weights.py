# SPDX-License-Identifier: Apache-2.0
"""The weight-free form of a module: constants become parameters and back.

Test: candidate/test_candidate.py.

Precondition: the module is a plain Relay module; pattern `match` expressions keep their constants.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tvm
from tvm import relay
from tvm.relay import expr as _expr
from tvm.relay.function import Function

from ..relay_util.walk import children_of, nodes_of, rebuild, size_of
from .flows import leaves_read
from .inputs import random_weights

# Constants up to this many elements stay as they are: axes, exponents, quantisation scales, clip
# bounds. Their values can change what is compiled; those of larger ones (weights) cannot, but for
# those that say where or how much is computed (kept_constants). The same number as in
# relay/identity.h, which signatures and the keys of placements follow.
SMALL_CONSTANT = 16
_PREFIX = "collage_weight_"
# What caches are taken to hold: a network that touches more has to go to memory for it.
CACHE_BYTES = 32 << 20

WeightNames = dict[str, list[str]]


def is_weight(node: relay.Expr) -> bool:
    """Return whether a Relay node is a constant whose values do not belong to a candidate's
    identity, unless it is one of kept_constants."""
    if not isinstance(node, _expr.Constant):
        return False
    return int(np.prod(node.data.shape, dtype=np.int64)) > SMALL_CONSTANT


def weight_bytes(mod: tvm.IRModule) -> int:
    """Return the bytes of the weights that are bound in a module, each counted once."""
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    found = {node for f in functions for node in nodes_of(f.body, _expr.Constant)}
    return sum(size_of(node.data) for node in found if is_weight(node))


def kept_constants(
    functions: Iterable[Function], mod: tvm.IRModule | None = None
) -> set[_expr.Constant]:
    """Return the constants whose values decide how long something takes, however large: indexes,
    row pointers of sparse matrices, shapes. They belong to a candidate's identity, and it is
    measured with them."""
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
        for node in nodes_of(function.body, _expr.Constant):
            if is_weight(node) and node not in kept:
                kind = tvm.ir.TensorType(node.data.shape, node.data.dtype)
                variables[node] = _expr.var(f"{_PREFIX}{len(variables)}", kind)
        if not variables:
            continue
        body = replace_nodes(function.body, variables)
        functions[var] = _with_body(function, [*function.params, *variables.values()], body)
        names[var.name_hint] = [v.name_hint for v in variables.values()]
    return tvm.IRModule(functions, mod.type_definitions), names


def bind_weights(mod: tvm.IRModule, names: WeightNames, seed: int = 0) -> tvm.IRModule:
    """Invert extract_weights up to values: the named parameters become constants again, with normal
    random data that depends only on the seed and on the order of the names.

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
    """Copy `root` with nodes that are keys of `replacement` as their values.

    A loop over the post order, not a recursion: a whole network is deeper than Python's stack.
    """
    done = dict(replacement)
    for node in nodes_of(root):
        if node in done:
            continue
        old = children_of(node)
        changed = rebuild(node, old, [done.get(child, child) for child in old])
        if isinstance(node, Function) and node.body in done:
            changed = _with_body(node, node.params, done[node.body])
        elif isinstance(node, _expr.Call) and node.op in done:
            changed = _expr.CallWithFields(changed, done[node.op])
        if not changed.same_as(node):
            done[node] = changed
    return done.get(root, root)


def _with_body(function: Function, params: Iterable[relay.Var], body: relay.Expr) -> Function:
    return Function(list(params), body, function.ret_type, function.type_params, function.attrs)
