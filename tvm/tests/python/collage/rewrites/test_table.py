# SPDX-License-Identifier: Apache-2.0
"""Each rule of the table on a module that it rewrites, and on one that it leaves as it is."""

import re

import numpy as np
import pytest
import tvm
from relay_text import parse
from tvm import relay
from tvm.relay.collage.relay_util.walk import operator_calls
from tvm.relay.collage.rewrites import RULES, apply
from tvm.relay.collage.rewrites.engine import rewrite_in_place

# Of an image, a matrix, weights that are constants and bytes. Variables c0, c1, ... are constants:
# of ones, of as many channels as there are; z is an int32 zero for each.
X = "%x: Tensor[(1, 4, 6, 6), float32]"
W = "%c0: Tensor[(2, 4, 3, 3), float32]"
M, N = "%a: Tensor[(4, 8), float32]", "%b: Tensor[(5, 8), float32]"
BYTES = "%x: Tensor[(1, 4, 6, 6), uint8]"
SCALES = "%c1: Tensor[(4), float32], %z1: Tensor[(4), int32]"
FENCED = "annotation.checkpoint({})"  # stands for a fence, whose attribute no text can have

# Rule -> parameters, what it rewrites, that rewritten, what it leaves.
CASES = {
    "RestorePReLU": (
        "%x: Tensor[(2, 3), float32], %c0: Tensor[(6), float32], %s: Tensor[(6), float32]",
        "%0 = reshape(%x, newshape=[-1]); %1 = nn.prelu(%0, %c0, axis=0);"
        "reshape(%1, newshape=[2, 3])",
        "nn.leaky_relu(%x, alpha=1f)",
        "%0 = reshape(%x, newshape=[-1]); %1 = nn.prelu(%0, %s, axis=0);"
        "reshape(%1, newshape=[2, 3])",
    ),
    "LowerEinsum": (
        f"{M}, {N}",
        '%0 = (%a, %b); einsum(%0, equation="ij,kj->ik")',
        """%0 = reshape(%a, newshape=[1, 4, 8]); %1 = reshape(%b, newshape=[1, 5, 8]);
        %2 = nn.batch_matmul(%0, %1, transpose_b=True); reshape(%2, newshape=[4, 5])""",
        '%0 = (%a, %a); einsum(%0, equation="ij,ij->ij")',
    ),
    "RemovePadding": (
        X,
        "nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [0, 0], [0, 0]])",
        "%x",
        "nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [0, 0], [0, 1]])",
    ),
    "PadByWindow": (
        f"{X}, {W}",
        """%0 = nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [0, 1], [1, 2]]);
        nn.conv2d(%0, %c0, strides=[2, 2], padding=[1, 0, 0, 0], kernel_size=[3, 3])""",
        "nn.conv2d(%x, %c0, strides=[2, 2], padding=[1, 1, 1, 2], kernel_size=[3, 3])",
        """%0 = nn.pad(%x, 1f, pad_width=[[0, 0], [0, 0], [0, 1], [1, 2]]);
        nn.conv2d(%0, %c0, padding=[0, 0, 0, 0], kernel_size=[3, 3])""",
    ),
    "BroadcastByReader": (
        f"{X}, %s: Tensor[(1, 4, 1, 1), float32]",
        "%0 = broadcast_to(%s, shape=[1, 4, 6, 6]); multiply(%x, %0)",
        "multiply(%x, %s)",
        "%0 = broadcast_to(%s, shape=[2, 4, 6, 6]); multiply(%x, %0)",
    ),
    "TakeAsSlice": (
        X,
        "take(%x, 2i64, axis=-3)",
        """%0 = strided_slice(%x, begin=[2], end=[3], strides=[1], axes=[1]);
        reshape(%0, newshape=[1, 6, 6])""",
        "take(%x, 2i64)",
    ),
    "RequantizeAsFloats": (
        BYTES,
        'qnn.requantize(%x, 0.5f, 0, 0.25f, 9, axis=1, out_dtype="uint8")',
        """%0 = qnn.dequantize(%x, 0.5f, 0, axis=1);
        qnn.quantize(%0, 0.25f, 9, out_dtype="uint8", axis=1)""",
        'qnn.requantize(%x, 0.5f, 0, 0.25f, 9, axis=1, out_dtype="int32")',
    ),
    "QuantisedBinaryAsFloats": (
        f"{BYTES}, %s: float32",
        "qnn.add(%x, %x, 0.5f, 1, 0.25f, 2, 0.125f, 3)",
        """%0 = qnn.dequantize(%x, 0.5f, 1); %1 = qnn.dequantize(%x, 0.25f, 2);
        %2 = add(%0, %1); qnn.quantize(%2, 0.125f, 3, out_dtype="uint8")""",
        "qnn.add(%x, %x, %s, 1, 0.25f, 2, 0.125f, 3)",
    ),
    "QuantisedConcatenateAsFloats": (
        f"{BYTES}, %t: (Tensor[(1, 4, 6, 6), uint8], Tensor[(1, 4, 6, 6), uint8])",
        """%0 = (%x, %x); %1 = (0.5f, 0.25f); %2 = (1, 2);
        qnn.concatenate(%0, %1, %2, 0.125f, 3, axis=1)""",
        """%0 = qnn.dequantize(%x, 0.5f, 1); %1 = qnn.dequantize(%x, 0.25f, 2); %2 = (%0, %1);
        %3 = concatenate(%2, axis=1); qnn.quantize(%3, 0.125f, 3, out_dtype="uint8")""",
        "%1 = (0.5f, 0.25f); %2 = (1, 2); qnn.concatenate(%t, %1, %2, 0.125f, 3, axis=1)",
    ),
    "QuantisedProductAsFloats": (
        "%a: Tensor[(4, 8), uint8], %c0: Tensor[(5, 8), int8]",
        """%0 = qnn.dense(%a, %c0, 7, 0, 0.5f, 0.25f, units=5, out_dtype="int32");
        qnn.dequantize(%0, 0.125f, 0)""",
        """%0 = qnn.dequantize(%a, 0.5f, 7); %1 = qnn.dequantize(%c0, 0.25f, 0, axis=0);
        nn.dense(%0, %1, units=5, out_dtype="float32")""",
        """%0 = qnn.dense(%a, %c0, 7, 0, 0.5f, 0.25f, units=5, out_dtype="int32");
        qnn.dequantize(%0, 0.25f, 0)""",
    ),
    "ScaledWeights": (
        f"%c0: Tensor[(4, 3), int8], {SCALES}, %c2: Tensor[(4, 1), float32]",
        "%0 = qnn.dequantize(%c0, %c1, %z1, axis=0); multiply(%0, %c2)",
        "qnn.dequantize(%c0, %c1, %z1, axis=0)",
        "%0 = qnn.dequantize(%c0, 1f, 5, axis=0); multiply(%0, %c2)",
    ),
    "DepthwiseData": (
        f"{BYTES}, {SCALES}, %c0: Tensor[(4, 1, 3, 3), int8]",
        """%0 = qnn.dequantize(%x, %c1, %z1, axis=1); %1 = qnn.dequantize(%c0, %c1, %z1, axis=0);
        nn.conv2d(%0, %1, padding=[0, 0, 0, 0], groups=4, channels=4, kernel_size=[3, 3])""",
        """%0 = qnn.dequantize(%x, 1f, 0); %1 = qnn.dequantize(%c0, %c1, %z1, axis=0);
        nn.conv2d(%0, %1, padding=[0, 0, 0, 0], groups=4, channels=4, kernel_size=[3, 3])""",
        """%0 = qnn.dequantize(%x, 1f, 0); %1 = qnn.dequantize(%c0, %c1, %z1, axis=0);
        nn.conv2d(%0, %1, padding=[0, 0, 0, 0], groups=4, channels=4, kernel_size=[3, 3])""",
    ),
    "DoubleSum": (
        X,
        "%0 = exp(%x); add(%0, %0)",
        "%0 = exp(%x); multiply(%0, 2f)",
        "%0 = exp(%x); %1 = exp(%x); add(%0, %1)",  # equal, but two nodes
    ),
    "FenceProducts": (
        f"{X}, %s: float32",
        "multiply(%x, %s)",
        f"%0 = {FENCED.format('%x')}; %1 = {FENCED.format('%s')}; %2 = multiply(%0, %1);"
        + FENCED.format("%2"),
        "multiply(%x, 2f)",
    ),
    "RemoveFences": (
        X,
        FENCED.format("%x"),
        "%x",
        "annotation.stop_fusion(%x)",
    ),
    "LayInARow": (
        "%x: Tensor[(1, 4, 9, 1), float32], %c0: Tensor[(2, 4, 3, 1), float32]",
        "nn.conv2d(%x, %c0, padding=[2, 0], strides=[3, 1], channels=2, kernel_size=[3, 1])",
        """%0 = reshape(%x, newshape=[1, 4, 1, 9]); %1 = reshape(%c0, newshape=[2, 4, 1, 3]);
        %2 = nn.conv2d(%0, %1, strides=[1, 3], padding=[0, 2, 0, 2], channels=2,
                       kernel_size=[1, 3]);
        reshape(%2, newshape=[1, 2, 4, 1])""",
        "nn.conv2d(%x, %c0, padding=[2, 1], strides=[3, 1], channels=2, kernel_size=[3, 1])",
    ),
    "ReshapeChannels": (
        "%x: Tensor[(2, 1, 5, 1), float32]",
        "squeeze(%x, axis=[-3])",
        "reshape(%x, newshape=[2, 5, 1])",
        "squeeze(%x, axis=[3])",
    ),
}


class Fences(relay.ExprMutator):
    def visit_call(self, call):
        call = super().visit_call(call)
        is_one = call.op.name == "annotation.checkpoint"
        return relay.annotation.compiler_begin(call.args[0], "collage.fence") if is_one else call


def module(params, body):
    body = re.sub(r"(qnn\.dequantize\([^)]*)", r'\1, out_dtype="float32"', body)
    mod = parse(f"def @main({params}) {{ {body} }}")
    constants = {}
    for param in mod["main"].params:
        if re.fullmatch(r"[cz]\d", param.name_hint):
            make = np.ones if param.name_hint[0] == "c" else np.zeros
            kind = param.checked_type
            constants[param.name_hint] = tvm.nd.array(make([*map(int, kind.shape)], kind.dtype))
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], constants)
    mod["main"] = Fences().visit(mod["main"])
    return relay.transform.InferType()(mod)


def test_each_rule_has_a_case_and_a_name_of_its_own():
    assert sorted(CASES) == sorted(rule.name for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_what_it_rewrites_and_what_it_leaves(rule):
    params, before, after, other = CASES[rule.name]
    mod, wanted = module(params, before), module(params, after)
    assert rewrite_in_place(mod, [rule])
    tvm.ir.assert_structural_equal(mod["main"].body, wanted["main"].body, map_free_vars=True)
    assert mod["main"].checked_type == wanted["main"].checked_type
    mod = module(params, other)
    before = mod["main"]
    rewrite_in_place(mod, [rule])
    tvm.ir.assert_structural_equal(mod["main"], before)


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_it_can_be_disabled_and_is_applied_at_its_step(rule):
    params, before, after, _ = CASES[rule.name]
    mod = module(params, before)
    with tvm.transform.PassContext(disabled_pass=[rule.name]):
        assert not apply(mod, rule.when)
    assert not apply(mod, "before InferType")
    assert apply(mod, rule.when)
    names = [
        [call.op.name for call in operator_calls(each)] for each in (mod, module(params, after))
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("attribute", ["Compiler", "Primitive", "SkipOptimization"])
def test_functions_that_passes_leave_alone_are_left(attribute):
    mod = module(X, "add(%x, %x)")
    mod["main"] = mod["main"].with_attr(attribute, "dnnl" if attribute == "Compiler" else 1)
    assert not apply(mod, "before SimplifyExpr")
