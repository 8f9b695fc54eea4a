# SPDX-License-Identifier: Apache-2.0
"""The rules by which Relay modules are rewritten: one row a rule.

A row's `when` is a step of `compile.prepare` or a pass of TVM, before or after which `fast_passes`
applies the rule. The file of its last two columns says why there is the rule.
Test: rewrites/test_table.py has, for each row, a module before and after, and one that stays.
"""

from __future__ import annotations

import tvm

from . import before_passes as passes
from . import forms, implied
from . import quantised as q
from .engine import Rule, always, call, first_operand, reads, rewrite_in_place

# The steps of `compile.prepare`: before FoldScaleAxis, and behind it.
FORMS, SCALES = "forms", "scales"

# fmt: off
RULES = (
    Rule("RestorePReLU", FORMS, forms.FLAT_PRELU, forms.is_flat_prelu, forms.prelu),
    Rule("LowerEinsum", FORMS, call("einsum"), always, forms.product_of_matrices),
    Rule("RemovePadding", FORMS, call("nn.pad"), implied.pads_by_nothing, first_operand),
    Rule("PadByWindow", FORMS, call(*implied.WINDOWS), reads("nn.pad"), implied.padding_more),
    Rule("BroadcastByReader", FORMS, call(*implied.BROADCASTING), reads("broadcast_to"),
         implied.broadcasting),
    Rule("TakeAsSlice", FORMS, call("take"), forms.is_take_of_neighbours, forms.slice_of),
    Rule("RequantizeAsFloats", FORMS, q.REQUANTIZE, q.is_requantize, q.requantized),
    Rule("QuantisedBinaryAsFloats", FORMS, q.BINARY, always, q.binary),
    Rule("QuantisedConcatenateAsFloats", FORMS, q.CONCATENATE, q.is_concatenate, q.concatenated),
    # Some of what it matches is made of requantizations.
    Rule("QuantisedProductAsFloats", FORMS, q.PRODUCT, always, q.product,
         made_of=tuple(q.PRODUCTS)),
    Rule("ScaledWeights", SCALES, q.SCALED_WEIGHTS, reads(q.DEQUANTIZE), q.scaled_weights),
    Rule("DepthwiseData", SCALES, q.DEPTHWISE, q.is_depthwise, q.depthwise_data),
    Rule("DoubleSum", "before SimplifyExpr", call("add"), passes.is_sum_with_itself,
         passes.doubled),
    Rule("FenceProducts", "before FoldScales", call("multiply"), passes.is_product_of_unknowns,
         passes.fenced_in, is_once=True),
    Rule("RemoveFences", "after FoldScales", call(passes.FENCE), passes.is_fence,
         first_operand),
    Rule("LayInARow", "before AlterOpLayout", call("nn.conv1d", "nn.conv2d"),
         passes.is_along_one_axis, passes.laid_in_a_row),
    Rule("ReshapeChannels", "before AlterOpLayout", call("squeeze"), passes.is_squeeze_of_channels,
         passes.reshaped),
)
# fmt: on


_STEPS = {step: [rule for rule in RULES if rule.when == step] for step in {r.when for r in RULES}}


def apply(mod: tvm.IRModule, when: str) -> bool:
    """Apply the rules of a step to `mod`, a typed module, in place; return whether it changed."""
    return when in _STEPS and rewrite_in_place(mod, _STEPS[when])


@tvm.transform.module_pass(opt_level=0, name="RewriteForms")
def rewrite_forms(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """Write what importers write in forms that no library knows as what they know."""
    mod = mod.clone()
    apply(mod, FORMS)
    return mod


@tvm.transform.module_pass(opt_level=0, name="ScaleQuantisedWeights")
def scale_quantised_weights(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """Fold factors of dequantised weights, and the data's by channel, into the weights' scales."""
    mod = mod.clone()
    apply(mod, SCALES)
    return mod
