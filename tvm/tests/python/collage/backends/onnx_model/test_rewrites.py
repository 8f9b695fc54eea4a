# SPDX-License-Identifier: Apache-2.0
"""Relay's own spelling is written as exporters do where that is equal, and nowhere else."""

import numpy as np
import onnx
import pytest
from onnx_cases import arrays, f, i, nn, typed
from onnx_one_node import by_onnxruntime
from tvm import relay
from tvm.relay.collage.backends.onnx_model import export, export_function
from tvm.relay.collage.backends.onnx_model.rewrites import PREFERABLE

pytest.importorskip("onnxruntime")


def const(*shape, seed=1):
    draw = np.random.default_rng(seed)
    return relay.const(draw.standard_normal(shape).astype("float32"))


def conv(x, channels=4):
    return nn.conv2d(x, const(channels, 3, 1, 1))


def norm(x, axis, rooted=relay.divide):
    centred = x - relay.mean(x, axis, keepdims=True)
    variance = relay.mean(relay.power(centred, relay.const(2.0)), axis, keepdims=True)
    return rooted(centred, relay.sqrt(variance + relay.const(1e-5)))


def times_inverse(x, y):
    return x * (relay.const(1.0) / y)


def twice_gelu(x, root=2**0.5, one=1.0):
    return x * (relay.erf(x / relay.const(root)) + relay.const(one))


def ramp(x, slope=1 / 6, shift=0.5, low=0.0, high=1.0):
    return relay.clip(x * relay.const(slope) + relay.const(shift), low, high)


def counted_from_the_end(indices, extent):
    moved = indices + relay.const(extent, "int64")
    return relay.where(relay.less(indices, relay.const(0, "int64")), moved, indices)


def rows(x, shape, *middle):
    """A product of two axes by constants, as TVM's importer makes one of more."""
    value = nn.dense(relay.reshape(x, (-1, 6)), const(5, 6))
    for factor in middle:
        value = value * factor
    return relay.reshape(value, shape)


def stacks(a, b, shape):
    product = nn.batch_matmul(relay.reshape(a, (-1, 3, 5)), relay.reshape(b, (-1, 4, 5)))
    return relay.reshape(product, shape)


# Name -> (types of the inputs, function of them, operators that are written).
REWRITTEN = {
    "bias of a convolution": ([f(1, 3, 5, 5)], lambda x: nn.bias_add(conv(x), const(4)), "Conv"),
    "bias as it is broadcast": (
        [f(1, 3, 5, 5)], lambda x: const(4, 1, 1) + conv(x) + relay.const(2.0), "Conv",
    ),
    "bias of a transposed convolution": (
        [f(1, 3, 5, 5)],
        lambda x: nn.bias_add(
            nn.conv2d_transpose(x, const(3, 4, 2, 2), channels=4, kernel_size=(2, 2)), const(4)
        ),
        "ConvTranspose",
    ),
    "dense": ([f(2, 6)], lambda x: nn.dense(x, const(5, 6)) + const(5), "Gemm"),
    "dense without bias": ([f(2, 6)], lambda x: nn.dense(x, const(5, 6)), "Gemm"),
    "dense scaled": (
        [f(2, 6)], lambda x: nn.dense(x, const(5, 6)) * const(5) + const(1, 5), "Gemm",
    ),
    "rows": ([f(2, 3, 6)], lambda x: rows(x, (2, 3, 5)) + const(5), "MatMul Add"),
    "rows to another shape": ([f(2, 3, 6)], lambda x: rows(x, (6, 1, 5)), "MatMul Reshape"),
    "rows scaled": ([f(2, 3, 6)], lambda x: rows(x, (2, 3, 5), const(5)), "MatMul"),
    "stacks": (
        [f(2, 2, 3, 5), f(2, 2, 4, 5)], lambda a, b: stacks(a, b, (2, 2, 3, 4)),
        "Transpose MatMul",
    ),
    "stacks with a constant": (
        [f(2, 2, 3, 5)], lambda a: stacks(a, const(4, 4, 5), (2, 2, 3, 4)), "MatMul",
    ),
    "transposes": (
        [f(2, 3, 4)],
        lambda x: relay.exp(relay.transpose(relay.transpose(x, (0, 2, 1)), (2, 1, 0))),
        "Transpose Exp",
    ),
    "transposes to nothing": (
        [f(2, 3, 4)],
        lambda x: relay.exp(relay.transpose(relay.transpose(x, (0, 2, 1)), (0, -1, 1))), "Exp",
    ),
    "reshapes": (
        [f(2, 3, 4)], lambda x: relay.exp(relay.reshape(relay.squeeze(
            relay.expand_dims(x, 1), [1]), (6, 4))),
        "Reshape Exp",
    ),
    "places between reshapes": (
        [f(2, 3, 4)],
        lambda x: relay.reshape(const(4) - relay.reshape(x, (6, 4)), (2, 3, 4)), "Sub",
    ),
    "layer norm": (
        [f(2, 3, 8)], lambda x: norm(x, -1) * const(8) + const(8), "LayerNormalization",
    ),
    "layer norm by a product": (
        [f(2, 3, 8)], lambda x: const(8) + norm(x, [-1], times_inverse) * const(1, 1, 8),
        "LayerNormalization",
    ),
    "layer norm by rsqrt": (
        [f(2, 8)], lambda x: norm(x, 1, lambda a, root: a * relay.rsqrt(root * root)),
        "ReduceMean Sub Pow ReduceMean Add Sqrt Mul Sqrt Div",
    ),
    "layer norm without numbers": ([f(2, 8)], lambda x: norm(x, 1), "LayerNormalization"),
    "layer norm of two axes": (
        [f(4, 2, 3)], lambda x: norm(x, (-1, 1)) * const(2, 3), "LayerNormalization",
    ),
    "instance norm": (
        [f(2, 3, 4, 4)], lambda x: norm(x, (2, 3)) * const(3, 1, 1) + const(1, 3, 1, 1),
        "InstanceNormalization",
    ),
    "instance norm of few places": (
        [f(2, 5, 2, 2)], lambda x: norm(x, (2, 3)) * const(5, 1, 1), "InstanceNormalization",
    ),
    "layer norm of few rows": (
        [f(2, 3, 8)], lambda x: norm(x, 2) * const(8), "LayerNormalization",
    ),
    "norm of vectors": (
        [f(2, 3, 8)], lambda x: relay.sqrt(relay.sum(x * x, -1, keepdims=True)), "ReduceL2",
    ),
    "gelu before a convolution": (
        [f(1, 3, 5, 5)], lambda x: conv(twice_gelu(x)), "Div Erf Add Mul Mul Conv",
    ),
    "gelu before a dense layer": (
        [f(2, 6)], lambda x: nn.dense(twice_gelu(x), const(5, 6)) + const(5),
        "Div Erf Add Mul Mul Gemm",
    ),
    "hard swish": ([f(2, 30)], lambda x: ramp(x * relay.const(5.0)) * (x * relay.const(5.0)),
                   "Mul HardSwish"),
    "hard sigmoid": ([f(2, 30)], lambda x: ramp(x, 0.7, 0.1), "HardSigmoid"),
    "batch norm": (
        [f(1, 3, 4, 4)], lambda x: x * const(3, 1, 1) + const(1, 3, 1, 1), "BatchNormalization",
    ),
    "shift of channels": ([f(1, 3, 4, 4)], lambda x: nn.bias_add(x, const(3)),
                          "BatchNormalization"),
    "indices from the end": (
        [f(9, 4), i("int64", 30, 5)],
        lambda x, j: relay.take(
            x, counted_from_the_end(j - relay.const(15, "int64"), 9), axis=0, mode="clip"
        ),
        "Sub Max Min Gather",
    ),
    "pool of all": ([f(1, 3, 4, 5)], lambda x: nn.adaptive_avg_pool2d(x, (1, 1)),
                    "GlobalAveragePool"),
}  # fmt: skip

# The same, where the rule in question does not apply.
LEFT = {
    "a sum with a map": (
        [f(1, 3, 5, 5)], lambda x: conv(x) + const(1, 4, 5, 5), "Conv Add",
    ),
    "a sum along a row": ([f(1, 3, 5, 4)], lambda x: conv(x) + const(4), "Conv Add"),
    "a sum that makes more channels": (
        [f(1, 3, 5, 5)], lambda x: conv(x, 1) + const(4, 1, 1), "Conv Add",
    ),
    "a bias from outside": (
        [f(1, 3, 5, 5), f(4)], lambda x, b: nn.bias_add(conv(x), b), "Conv Reshape Add",
    ),
    "a convolution with two users": (
        [f(1, 3, 5, 5)], lambda x: (lambda y: nn.bias_add(y, const(4)) * nn.relu(y))(conv(x)),
        "Conv BatchNormalization Relu Mul",
    ),
    "weights from outside": (
        [f(2, 6), f(5, 6)], lambda x, w: nn.dense(x, w) + const(5), "Transpose MatMul Add",
    ),
    "rows of another length": (
        [f(2, 3, 4)], lambda x: relay.reshape(rows(x, (2, 2, 5)), (4, 5)), "Reshape Gemm",
    ),
    "stacks in another order": (
        [f(2, 3, 2, 5), f(2, 2, 4, 5)],
        lambda a, b: relay.reshape(nn.batch_matmul(
            relay.reshape(relay.transpose(a, (0, 2, 1, 3)), (4, 3, 5)),
            relay.reshape(b, (4, 4, 5))), (4, 12)),
        "Transpose Reshape Reshape Transpose MatMul Reshape",
    ),
    "a factor between reshapes that moves the last axis": (
        [f(2, 3, 4)], lambda x: relay.reshape(relay.reshape(x, (4, 6)) * const(6), (2, 3, 4)),
        "Reshape Mul Reshape",
    ),
    "a factor of all that a product takes": (
        [f(2, 3, 4), f(6, 4)],
        lambda x, y: nn.dense(relay.reshape(x, (6, 4)) * relay.const(0.5), y),
        "Reshape Mul Transpose MatMul",
    ),
    "a mean of other axes": (
        [f(2, 3, 8)],
        lambda x: (x - relay.mean(x, 1, True)) / relay.sqrt(
            relay.mean((x - relay.mean(x, 1, True)) * (x - relay.mean(x, 1, True)), 2, True)
            + relay.const(1e-5)),
        "ReduceMean Sub Mul ReduceMean Add Sqrt Div",
    ),
    "a norm of the first axis": (
        [f(3, 8)], lambda x: norm(x, 0), "ReduceMean Sub Pow ReduceMean Add Sqrt Div",
    ),
    "a norm with a factor of rows": (
        [f(2, 3, 8)], lambda x: norm(x, (1, 2)) * const(2, 1, 1), "LayerNormalization Mul",
    ),
    "a square of another power": (
        [f(2, 8)], lambda x: relay.sqrt(relay.sum(relay.power(
            relay.abs(x), relay.const(3.0)), -1)), "Abs Pow ReduceSum Sqrt",
    ),
    "another root": (
        [f(1, 3, 5, 5)], lambda x: conv(twice_gelu(x, 2.0)), "Div Erf Add Mul Conv",
    ),
    "another summand": (
        [f(1, 3, 5, 5)], lambda x: conv(twice_gelu(x, one=2.0)), "Div Erf Add Mul Conv",
    ),
    "twice a gelu as such": ([f(1, 3, 5, 5)], twice_gelu, "Div Erf Add Mul"),
    "another slope": (
        [f(2, 30)], lambda x: relay.clip(x * relay.const(0.2) + relay.const(0.5), 0, 1) * x,
        "HardSigmoid Mul",
    ),
    "a ramp to two": (
        [f(2, 30)], lambda x: ramp(x, high=2.0) * x, "Mul Add Clip Mul",
    ),
    "a ramp of something else": (
        [f(2, 30), f(2, 30)], lambda x, y: ramp(x) * y, "HardSigmoid Mul",
    ),
    "indices of another length": (
        [f(9, 4), i("int64", 9, 5)],
        lambda x, j: relay.take(x, counted_from_the_end(j, 8), axis=0, mode="clip"),
        "Less Add Where Max Min Gather",
    ),
    "indices of another rank": (
        [f(9, 4), i("int64", 5)],
        lambda x, j: relay.take(x, relay.where(
            relay.less(j, relay.const([[0]], "int64")), j + relay.const(9, "int64"), j),
            axis=0, mode="clip"),
        "Less Add Where Max Min Gather",
    ),
    "integers for each channel": (
        [i("int32", 1, 3, 4, 4)],
        lambda x: x * relay.const([[[3]], [[2]], [[5]]], "int32")
        + relay.const([[[1]], [[2]], [[3]]], "int32"),
        "Mul Add",
    ),
    "a pool to two": (
        [f(1, 3, 4, 6)], lambda x: nn.adaptive_avg_pool2d(x, (2, 1)), "AveragePool",
    ),
}  # fmt: skip


def operators(model):
    return " ".join(node.op_type for node in model.graph.node if node.op_type != "Identity")


def with_odd_numbers(inputs):
    """The same with a NaN, infinities and zeros of both signs among them."""
    odd = []
    for array in inputs:
        array = array.copy()
        if array.dtype.kind == "f":
            values = [np.nan, np.inf, -np.inf, 0.0, -0.0]
            array.reshape(-1)[: len(values)] = values[: array.size]
        odd.append(array)
    return odd


@pytest.mark.parametrize("name", [*REWRITTEN, *LEFT])
def test_rewritten_where_it_is_equal_and_only_there(name, monkeypatch):
    types, build, wanted = {**REWRITTEN, **LEFT}[name]
    function = typed(types, build)
    written = export_function(function, preferred=PREFERABLE)
    onnx.checker.check_model(written, full_check=True)
    assert operators(written) == wanted
    monkeypatch.setattr(export, "stages", lambda preferred: [])
    plain = export_function(function)
    for inputs in (arrays(types), with_odd_numbers(arrays(types))):
        (expected,), (result,) = (
            by_onnxruntime(each, inputs, is_optimized=False) for each in (plain, written)
        )
        assert result.shape == expected.shape and result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_only_what_a_library_prefers():
    types, build, _ = REWRITTEN["batch norm"]
    assert operators(export_function(typed(types, build))) == "Mul Add"


def test_a_convolution_that_is_a_result_too_keeps_its_own_bias():
    function = typed(
        [f(1, 3, 5, 5)],
        lambda x: (lambda y: relay.Tuple([nn.bias_add(y, const(4)), y]))(conv(x)),
    )
    model = export_function(function)
    assert operators(model) == "Conv Add"
    assert len(model.graph.output) == 2
