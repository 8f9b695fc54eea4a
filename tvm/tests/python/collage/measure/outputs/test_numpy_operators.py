# SPDX-License-Identifier: Apache-2.0
"""Operators that numpy computes beside TVM's build of the same, and those that TVM has to."""

from importlib import import_module

import numpy as np
import pytest
import tvm
from relay_text import parse
from tvm import relay
from tvm.relay.collage.relay_util.walk import operator_calls

reference = import_module("tvm.relay.collage.measure.outputs.reference")
inputs = import_module("tvm.relay.collage.candidate.inputs")
numpy_operators = import_module("tvm.relay.collage.measure.outputs.numpy_operators")

# Each is one parameter list and calls on its parameters, which are built together.
TWO = "%x: Tensor[(2, 3, 4), float32], %y: Tensor[(3, 1), float32]"
IMAGE = "%x: Tensor[(2, 6, 7, 9), float32]"
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
UNARY = ("abs", "negative", "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid")
GROUPS = {
    "elementwise": (
        TWO,
        *(f"{name}(%x, %y)" for name in BINARY),
        *(f"{name}(%x)" for name in UNARY),
        "power(%x, 2f)",
        "power(2f, %x)",
        "nn.relu(%x)",
        "nn.leaky_relu(%x, alpha=0.1f)",
        "clip(%x, a_min=-0.5f, a_max=0.25f)",
        "add(1f, %x)",
    ),
    "shapes": (
        IMAGE + ", %b: Tensor[(6), float32], %c: Tensor[(9), float32]",
        "nn.bias_add(%x, %b)",
        "nn.bias_add(%x, %c, axis=-1)",
        "reshape(%x, newshape=[0, -1, 9])",
        "squeeze(expand_dims(%x, axis=2, num_newaxis=2), axis=[2])",
        "nn.batch_flatten(copy(%x))",
        "transpose(%x, axes=None)",
        "transpose(%x, axes=[0, 2, 3, 1])",
        "concatenate((%x, negative(%x), %x), axis=-2)",
    ),
    "reductions": (
        IMAGE,
        *(f"{name}(%x)" for name in ("sum", "mean")),
        *(f"{name}(%x, axis=[1, -1])" for name in ("sum", "mean", "max", "min")),
        *(f"{name}(%x, axis=[2], keepdims=True)" for name in ("sum", "mean", "max", "min")),
        "nn.softmax(%x)",
        "nn.softmax(multiply(%x, 100f), axis=1)",
        "nn.global_avg_pool2d(%x)",
    ),
    "products": (
        "%x: Tensor[(4, 5), float32], %w: Tensor[(3, 5), float32],"
        "%a: Tensor[(2, 4, 5), float32], %b: Tensor[(2, 3, 5), float32]",
        "nn.dense(%x, %w, units=None)",
        "nn.matmul(%x, %w, units=None, transpose_b=True)",
        "nn.matmul(%w, %x, units=None, transpose_b=True)",
        "nn.batch_matmul(%a, %b, transpose_b=True)",
        "nn.batch_matmul(%a, transpose(%b, axes=[0, 2, 1]))",
        "nn.batch_matmul(transpose(%a, axes=[0, 2, 1]), %b, transpose_a=True, transpose_b=True)",
    ),
    "convolutions": (
        IMAGE + ", %w: Tensor[(8, 6, 3, 3), float32], %g: Tensor[(4, 3, 3, 2), float32],"
        "%d: Tensor[(12, 1, 3, 3), float32], %one: Tensor[(2, 6, 11), float32],"
        "%v: Tensor[(4, 6, 3), float32], %deep: Tensor[(1, 2, 5, 6, 7), float32],"
        "%u: Tensor[(3, 2, 2, 3, 3), float32]",
        "nn.conv2d(%x, %w, padding=[0, 0, 0, 0])",
        "nn.conv2d(%x, %w, padding=[1, 1])",
        "nn.conv2d(%x, %w, padding=[1, 2], strides=[2, 3])",
        "nn.conv2d(%x, %w, padding=[0, 1, 2, 3], dilation=[2, 1])",
        "nn.conv2d(%x, %g, padding=[1, 1, 1, 1], groups=2, strides=[2, 1])",
        "nn.conv2d(%x, %d, padding=[1, 1, 1, 1], groups=6)",
        "nn.conv1d(%one, %v, padding=[1, 0], strides=[2])",
        "nn.conv3d(%deep, %u, padding=[0, 1, 1, 1, 1, 0], strides=[1, 2, 1])",
    ),
}


def quantised(operand, dtype, scale="0.05f", zero="0", axis=-1):
    to = f'out_dtype="{dtype}", axis={axis}'
    back = f'{scale}, {zero}, out_dtype="float32", axis={axis}'
    return f"qnn.dequantize(qnn.quantize({operand}, {scale}, {zero}, {to}), {back})"


GROUPS["bytes"] = (
    "%x: Tensor[(2, 3, 4), float32], %s: Tensor[(3), float32], %z: Tensor[(3), int32]",
    quantised("%x", "uint8", zero="3"),
    quantised("%x", "int8", "0.001f", "-7"),
    quantised("%x", "int16", "0.0001f"),
    quantised("%x", "int32"),
    quantised("%x", "int8", "add(abs(%s), 0.1f)", "%z", axis=1),
    quantised("%x", "uint8", "add(abs(%s), 0.1f)", "%z", axis=-2),
)


def by_tvm(mod, values):
    """Without LLVM's optimisations, which take most of the time."""
    executor = relay.create_executor("graph", mod, tvm.cpu(), "llvm -opt-level=0")
    outputs = executor.evaluate()(*values)
    return [each.numpy() for each in (outputs if isinstance(outputs, list) else [outputs])]


def values_of(mod):
    return list(inputs.random_inputs(inputs.describe_inputs(mod), 0).values())


@pytest.mark.parametrize("group", GROUPS)
def test_each_is_what_tvm_computes(group):
    parameters, *calls = GROUPS[group]
    mod = parse(f"def @main({parameters}) {{ ({', '.join(calls)},) }}")
    values = values_of(mod)
    expected = by_tvm(mod, values)
    outputs = reference.evaluate(mod, values, "")  # a builder that there is not
    assert len(outputs) == len(calls)
    for call, got, truth in zip(calls, outputs, expected, strict=True):
        assert (got.shape, got.dtype) == (truth.shape, truth.dtype), call
        np.testing.assert_allclose(got, truth, rtol=1e-4, atol=1e-5, err_msg=call)


def test_all_are_tested():
    names = set()
    for parameters, *calls in GROUPS.values():
        mod = parse(f"def @main({parameters}) {{ ({', '.join(calls)},) }}")
        names |= {call.op.name for call in operator_calls(mod["main"].body)}
    of_64_bits = {"erf"}  # measure/outputs/test_reference.py
    assert sorted(numpy_operators.OPERATORS.keys() - names - of_64_bits) == []


def test_what_is_no_number_is_compared_as_by_tvm():
    calls = ["nn.relu(%x)", "clip(%x, a_min=-1f, a_max=6f)"]
    calls += [f"{name}({pair})" for name in ("maximum", "minimum") for pair in ("%x, %y", "%y, %x")]
    mod = parse(f"def @main(%x: $T, %y: $T) {{ ({', '.join(calls)}) }}")
    x, y = np.full((2, 4), np.nan, "float32"), np.zeros((2, 4), "float32")
    x[0] = 7.0
    found = reference.evaluate(mod, [x, y], "")
    for call, got, expected in zip(calls, found, by_tvm(mod, [x, y]), strict=True):
        np.testing.assert_array_equal(got, expected, err_msg=call)


def test_halves_become_even_and_ends_are_kept():
    mod = parse(
        "def @main(%x: Tensor[(8), float32], %s: float32, %z: int32) "
        '{ qnn.quantize(%x, %s, %z, out_dtype="int8") }'
    )
    x = np.array([0.5, 1.5, 2.5, -0.5, 3e9, -3e9, 1e30, np.inf], "float32")
    found = reference.evaluate(mod, [x, np.float32(1).reshape(()), np.int32(1).reshape(())], "")
    np.testing.assert_array_equal(found[0], [1, 3, 3, 1, 127, -128, 127, 127])


@pytest.mark.parametrize(
    "text",
    [
        "def @main(%x: Tensor[(4), float16]) { add(%x, %x) }",
        "def @main(%x: Tensor[(4), int32]) { add(%x, %x) }",
        "def @main(%x: Tensor[(2, 8), int8], %w: Tensor[(3, 8), int8]) "
        '{ nn.dense(%x, %w, units=None, out_dtype="int32") }',
        "def @main(%x: $T) { erf(%x) }",
        "def @main(%x: Tensor[(4), int8], %s: float32, %z: int32) "
        '{ qnn.dequantize(%x, %s, %z, out_dtype="float16") }',
        "def @main(%x: $T) { sum(%x, axis=[0], exclude=True) }",
        "def @main(%x: $T) { max(%x, axis=[]) }",
        "def @main(%x: Tensor[(2, 0), float32]) { nn.softmax(%x) }",
        "def @main(%x: $T) { split(%x, indices_or_sections=[1], axis=1) }",
        'def @main(%x: Tensor[(1, 7, 7, 3), float32]) { nn.global_avg_pool2d(%x, layout="NHWC") }',
        "def @main(%x: Tensor[(1, 7, 7, 3), float32], %w: Tensor[(3, 3, 3, 4), float32]) { "
        'nn.conv2d(%x, %w, padding=[0, 0, 0, 0], data_layout="NHWC", kernel_layout="HWIO") }',
        "def @main(%x: Tensor[(1, 3, 7, 7), float32], %w: Tensor[(4, 3, 3, 3), float32]) { "
        'nn.conv2d(%x, %w, padding=[0, 0, 0, 0], out_layout="NHWC") }',
        "def @main(%x: Tensor[(1, 3, 7, 7), float32], %w: Tensor[(4, 3, 3, 3), float32]) { "
        "nn.conv2d(%x, %w, padding=[1]) }",
    ],
)
def test_the_rest_is_left_to_tvm(text):
    mod = parse(text)
    [call] = operator_calls(mod["main"].body)
    assert numpy_operators.compute(call, values_of(mod)) is None


def test_an_open_dimension_is_left_to_tvm():
    [call] = operator_calls(
        parse("def @main(%x: Tensor[(?, 4), float32]) { exp(%x) }")["main"].body
    )
    assert numpy_operators.compute(call, [np.zeros((2, 4), "float32")]) is None
