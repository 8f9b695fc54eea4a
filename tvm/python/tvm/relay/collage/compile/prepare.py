# SPDX-License-Identifier: Apache-2.0
"""The passes that come before partitioning: a module with its weights bound and simplified.

Test: compile/test_library.py
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from .computed import fold_constant
from .einsum import LOWER_EINSUM
from .fast_passes import fast_passes
from .implied import BROADCAST_BY_READER, NO_PADDING, PADDED_BY_WINDOW
from .prelu import RESTORE_PRELU
from .quantised import QUANTISED_AS_FLOATS, own_dequantized, scale_quantised_weights
from .rewriting import rewrite_in_place
from .taken import TAKE_AS_SLICE

# What importers write in forms that no library knows, by the names that a PassContext disables.
_REWRITES = {
    "RestorePReLU": RESTORE_PRELU,
    "LowerEinsum": LOWER_EINSUM,
    "RemovePadding": NO_PADDING,
    "PadByWindow": PADDED_BY_WINDOW,
    "BroadcastByReader": BROADCAST_BY_READER,
    "TakeAsSlice": TAKE_AS_SLICE,
    **QUANTISED_AS_FLOATS,
}


def prepare(
    mod: tvm.IRModule,
    params: dict[str, Any] | None = None,
    target: Any = None,
    *,
    opt_level: int | None = 3,
    is_simplified: bool = True,
) -> tvm.IRModule:
    """The typed module that is partitioned: `mod` with `params` bound as constants.

    Batch norms and other inference-only forms are expanded, scales are folded into weights,
    constant sub-graphs are evaluated, PReLU is restored (see `prelu`), einsum is a product of
    matrices (see `einsum`), what a reader pads or broadcasts itself is left to it (see `implied`),
    a take of neighbours is a slice (see `taken`), bytes stand between floats (see `quantised`), and
    what is computed twice is computed once: TVM's own build eliminates only what no backend took.
    `mod` itself is not changed; doing this
    twice changes nothing more.
    Passes that disagree with the current PassContext (disabled, opt level) are left out;
    `opt_level` None takes that context's level. What is not to be simplified is bound and typed
    alone.
    """
    mod = mod.clone()
    if params:
        mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    typed = [relay.transform.RemoveUnusedFunctions(), relay.transform.InferType()]
    passes = tvm.transform.Sequential(
        [
            *typed,
            relay.transform.SimplifyInference(),
            fold_constant,
            relay.transform.InferType(),
            _rewrite_forms,
            relay.transform.FoldScaleAxis(),
            fold_constant,
            relay.transform.InferType(),
            scale_quantised_weights,
            relay.transform.EliminateCommonSubexpr(),
            own_dequantized,
            relay.transform.InferType(),
        ]
        if is_simplified
        else typed
    )
    with fast_passes(opt_level):
        if target is None:
            return passes(mod)
        with tvm.target.Target(target):
            return passes(mod)


@tvm.transform.module_pass(opt_level=0, name="RewriteForms")
def _rewrite_forms(mod: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
    """The typed module, typed again, after all of _REWRITES that the context allows."""
    mod, disabled = mod.clone(), set(context.disabled_pass)
    rewrite_in_place(mod, *(rule for name, rule in _REWRITES.items() if name not in disabled))
    return mod
