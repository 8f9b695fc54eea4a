# SPDX-License-Identifier: Apache-2.0
"""Models in bytes as parts of onnxruntime and OpenVINO: what is written of them, and its results
beside those of a float run in numpy."""

import functools

import numpy as np
import onnx
import pytest
import tvm
from onnx_cases import f, i, run_part, typed
from onnx_one_node import by_onnxruntime
from tvm import relay
from tvm.relay.collage.backends import UnsupportedOpError, get_backend
from tvm.relay.collage.backends.onnx_model import export_function, why_not_exported

pytest.importorskip("onnxruntime")
qnn = relay.qnn.op
nn = relay.nn
TIES = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 1e9, -1e9], "float32")


@pytest.fixture(params=["onnxruntime", "openvino"])
def backend(request):
    if reason := get_backend(request.param).available():
        pytest.skip(reason)
    return request.param


def number(value, dtype="float32"):
    return relay.const(np.array(value, dtype))


def quantised(x, scale=0.1, zero=3, dtype="uint8", axis=-1):
    return qnn.quantize(x, number(scale), number(zero, "int32"), axis, dtype)


def dequantised(x, scale=0.1, zero=3, axis=-1):
    return qnn.dequantize(x, number(scale), number(zero, "int32"), axis)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_floats_become_bytes_as_onnx_has_it(backend, dtype):
    """Halves go to the even number, and what is beyond a byte to its end."""
    function = typed([f(8)], lambda x: quantised(x, 1.0, 2, dtype))
    limits = np.iinfo(dtype)
    wanted = np.clip(np.rint(TIES.astype("float64")) + 2, limits.min, limits.max)
    np.testing.assert_array_equal(run_part(backend, function, [TIES])[0], wanted.astype(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_bytes_become_floats_by_channel(backend, dtype):
    zeros = [0, 0] if dtype == "int32" else [1, 5]
    function = typed([(dtype, (3, 2))], lambda x: dequantised(x, [0.5, 0.25], zeros, 1))
    data = np.arange(6).reshape(3, 2).astype(dtype)
    wanted = (data.astype("float32") - zeros) * np.array([0.5, 0.25], "float32")
    np.testing.assert_array_equal(run_part(backend, function, [data])[0], wanted)


def layer(kind):
    """A layer of bytes between floats, as exporters of quantised nets write it: its input's type,
    and its function."""
    draw = np.random.default_rng(0)

    def weights(*shape, axis):
        scales = np.linspace(0.01, 0.02, shape[axis])
        values = draw.integers(-60, 60, shape).astype("int8")
        return dequantised(number(values, "int8"), scales, [0] * len(scales), axis)

    def bias(count):
        values = draw.integers(-900, 900, count).astype("int32")
        return dequantised(number(values, "int32"), np.linspace(1e-3, 2e-3, count), [0] * count, 0)

    if kind == "Conv":
        return f(1, 3, 8, 8), lambda x: nn.bias_add(
            nn.conv2d(x, weights(4, 3, 3, 3, axis=0), padding=(1, 1)), bias(4)
        )
    if kind == "Conv of NHWC":
        return f(1, 8, 8, 3), lambda x: nn.bias_add(
            nn.conv2d(
                *(x, weights(3, 3, 3, 4, axis=3)), padding=(1, 1), data_layout="NHWC",
                kernel_layout="HWIO", channels=4, kernel_size=(3, 3),
            ),
            bias(4), axis=3,
        )  # fmt: skip
    if kind == "Gemm":
        return f(5, 7), lambda x: nn.dense(x, weights(4, 7, axis=0)) + bias(4)
    weight = lambda: relay.transpose(weights(7, 4, axis=1), (1, 0))  # noqa: E731
    return f(5, 7), lambda x: nn.dense(x, weight())  # as TVM imports MatMul


LAYERS = {"Conv": "Conv", "Conv of NHWC": "Conv", "Gemm": "Gemm", "MatMul": "Gemm"}


def quantised_layer(kind):
    source, product = layer(kind)
    return typed([source], lambda x: quantised(product(dequantised(quantised(x))), 0.2, 100))


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_keeps_its_weights_and_bias_in_bytes(kind):
    """Nothing but DequantizeLinear stands between them and the layer, which has its bias (in the
    layout of ONNX)."""
    model = export_function(quantised_layer(kind))
    onnx.checker.check_model(model, full_check=True)
    made_by = {output: node for node in model.graph.node for output in node.output}
    (product,) = (node for node in model.graph.node if node.op_type == LAYERS[kind])
    has_bias = kind in ("Conv", "Gemm")
    assert len(product.input) == (3 if has_bias else 2)
    stored = {each.name: each.data_type for each in model.graph.initializer}
    for name, held in zip(product.input[1:], (onnx.TensorProto.INT8, onnx.TensorProto.INT32)):
        assert made_by[name].op_type == "DequantizeLinear"
        assert stored[made_by[name].input[0]] == held
    assert not any(node.op_type == "MatMul" for node in model.graph.node)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_of_bytes_is_right_to_a_step(backend, kind):
    function = quantised_layer(kind)
    shape = [int(extent) for extent in function.params[0].checked_type.shape]
    data = np.random.default_rng(1).standard_normal(shape).astype("float32")
    got = run_part(backend, function, [data])[0].astype(int)
    (wanted,) = by_onnxruntime(export_function(function), [data], is_optimized=False)
    assert np.abs(got - wanted.astype(int)).max() <= 1
    assert len(np.unique(got)) > 8, "not all of it is beyond a byte"


MOVES = {
    "reshape": lambda x: relay.reshape(x, (4, 3)),
    "transpose": relay.transpose,
    "concatenate": lambda x: relay.concatenate((x, x), 0),
    "split": lambda x: relay.split(x, 2, 1)[1],
    "strided_slice": lambda x: relay.strided_slice(x, [1, 0], [3, 4], [1, 2]),
    "take": lambda x: relay.take(x, relay.const(np.array([2, 0])), axis=0),
    "broadcast_to": lambda x: relay.broadcast_to(x, (2, 3, 4)),
    "tile": lambda x: relay.tile(x, (2, 1)),
    "stack": lambda x: relay.stack((x, x), 0),
    "cast to floats": lambda x: relay.cast(x, "float32"),
    "cast to integers": lambda x: relay.cast(x, "int32"),
}


def all_moves(x):
    return relay.Tuple([move(x) for move in MOVES.values()])


@functools.cache
def moves_by_tvm():
    plain = tvm.IRModule.from_expr(typed([("int32", (3, 4))], all_moves))
    return relay.create_executor("graph", plain, tvm.cpu(), "llvm").evaluate()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bytes_are_moved(backend, dtype):
    data = np.random.default_rng(0).integers(0, 255, (3, 4)).astype(dtype)
    wanted = [each.numpy() for each in moves_by_tvm()(data.astype("int32"))]
    found = run_part(backend, typed([(dtype, (3, 4))], all_moves), [data])
    for name, ours, theirs in zip(MOVES, found, wanted, strict=True):
        np.testing.assert_array_equal(ours.astype("int32"), theirs.astype("int32"), err_msg=name)


REFUSED = {
    "scale": ([f(2), ("float32", ())], lambda x, s: qnn.quantize(x, s, number(0, "int32"))),
    "out_dtype": ([f(2)], lambda x: quantised(x, dtype="int32")),
    "zero point": ([f(2)], lambda x: quantised(x, zero=300)),
    "zero point=other than 0": ([i("int32", 9, 2)], lambda x: dequantised(x, zero=7)),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_onnx_has_not_is_refused(text):
    function = typed(*REFUSED[text])
    with pytest.raises(UnsupportedOpError, match=text):
        export_function(function, "mylib")
    assert text in why_not_exported(function.body, "mylib")
