# SPDX-License-Identifier: Apache-2.0
"""Passes that come before partitioning: they bind a module's weights, and simplify it.

Test: compile/test_library.py
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from ..rewrites import own_dequantized, rewrite_forms, scale_quantised_weights
from .computed import fold_constant
from .fast_passes import fast_passes


def prepare(
    mod: tvm.IRModule,
    params: dict[str, Any] | None = None,
    target: Any = None,
    *,
    opt_level: int | None = 3,
    is_simplified: bool = True,
) -> tvm.IRModule:
    """Return the typed module that is partitioned: `mod` with `params` bound as constants.

    Batch norms and other inference-only forms are expanded, scales are folded into weights,
    constant sub-graphs are evaluated, forms that no library knows are rewritten (the steps "forms"
    and "scales" of rewrites/table.py), every reader of a dequantised value gets one of its own, and
    what is computed twice is computed once: TVM's own build eliminates only what no backend took.
    `mod` itself is not changed; doing this twice changes nothing more.
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
            rewrite_forms,
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
