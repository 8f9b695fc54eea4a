# SPDX-License-Identifier: Apache-2.0
"""Tells where TVM's BackwardFoldScaleAxis would make a model slower.

It moves a factor of a layer's result into the layer's weights even if the factor is only known at
run time, as in dense(x, w) * dense(y, v). Then a vector's product becomes a matrix's, weights can't
be packed any more, and backends that want constant weights are out.

Test: tests/python/collage/test_build_scale_axis.py
"""

from __future__ import annotations

import tvm
from tvm import relay

# What the pass scales the weights of.
_LAYERS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.dense")


def folds_at_run_time(mod: tvm.IRModule) -> bool:
    """Whether the pass would make weights of `mod`, a typed module, depend on its inputs."""
    if not any(_has_product(func) for func in _functions(mod)):
        return False
    # Without instruments: whoever asks may be one.
    with tvm.transform.PassContext(opt_level=3):
        folded = relay.transform.BackwardFoldScaleAxis()(mod.clone())
    return _count_run_time_weights(folded) > _count_run_time_weights(mod)


def _functions(mod):
    return [func for _, func in mod.functions_items() if isinstance(func, relay.Function)]


def _has_product(func) -> bool:
    """Whether two values that are no constants are multiplied: all others are cheap to tell."""

    def is_product(expr) -> bool:
        return _is_call(expr, ("multiply",)) and not any(
            isinstance(arg, relay.Constant) for arg in expr.args
        )

    return any(is_product(expr) for expr in _calls(func))


def _count_run_time_weights(mod) -> int:
    layers = (expr for func in _functions(mod) for expr in _calls(func) if _is_call(expr, _LAYERS))
    return sum(bool(relay.analysis.free_vars(layer.args[1])) for layer in layers)


def _calls(func):
    found = []
    relay.analysis.post_order_visit(
        func, lambda expr: found.append(expr) if isinstance(expr, relay.Call) else None
    )
    return found


def _is_call(expr, names) -> bool:
    return isinstance(expr.op, tvm.ir.Op) and expr.op.name in names
