# SPDX-License-Identifier: Apache-2.0
"""Relay -> ONNX, op by op: onnxruntime's results against TVM's, and what is refused."""

import numpy as np
import onnx
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.collage.backends import UnsupportedOpError
from tvm.relay.collage.backends.onnx_model import EXPORTED_OPS, export_function, why_not_exported

ort = pytest.importorskip("onnxruntime")


def f(*shape):
    return ("float32", shape)


def i(dtype, bound, *shape):
    """Indices below a bound."""
    return (f"{dtype}<{bound}", shape)


def positive(*shape):
    return ("positive", shape)


def boolean(*shape):
    return ("bool", shape)


nn = relay.nn

# Name -> (types of the inputs, function of their variables).
CASES = {
    "conv1d": ([f(1, 4, 20), f(6, 4, 3)], lambda x, w: nn.conv1d(x, w, strides=2, padding=(1, 2))),
    "conv2d": (
        [f(2, 4, 9, 9), f(6, 2, 3, 3)],
        lambda x, w: nn.conv2d(
            x, w, strides=(2, 1), padding=(0, 1, 2, 1), dilation=(1, 2), groups=2
        ),
    ),
    "conv2d one pad": ([f(1, 4, 9, 9), f(6, 4, 3, 3)], lambda x, w: nn.conv2d(x, w, padding=1)),
    "conv2d NHWC": (
        [f(1, 9, 9, 4), f(3, 3, 4, 6)],
        lambda x, w: nn.conv2d(
            *(x, w), padding=(1, 1), data_layout="NHWC", kernel_layout="HWIO", channels=6,
            kernel_size=(3, 3),
        ),
    ),
    "conv3d": ([f(1, 3, 5, 6, 7), f(4, 3, 2, 3, 3)], lambda x, w: nn.conv3d(x, w, padding=1)),
    "conv2d_transpose": (
        [f(1, 4, 5, 5), f(4, 3, 4, 4)],
        lambda x, w: nn.conv2d_transpose(
            *(x, w), strides=(2, 2), padding=(1, 1), output_padding=(1, 1), channels=3,
            kernel_size=(4, 4),
        ),
    ),
    "conv1d_transpose": (
        [f(1, 4, 5), f(4, 3, 4)],
        lambda x, w: nn.conv1d_transpose(x, w, strides=(2,), padding=(1,), channels=3, kernel_size=(4,)),
    ),
    "max_pool2d": (
        [f(1, 3, 9, 9)],
        lambda x: nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1), ceil_mode=True),
    ),
    "max_pool2d NHWC": ([f(1, 9, 9, 3)], lambda x: nn.max_pool2d(x, (2, 2), layout="NHWC")),
    "avg_pool2d": (
        [f(1, 3, 9, 9)],
        lambda x: nn.avg_pool2d(x, (3, 3), (2, 2), padding=(1, 1), count_include_pad=True),
    ),
    "avg_pool2d valid": (
        [f(1, 3, 9, 9)], lambda x: nn.avg_pool2d(x, (3, 3), (2, 2), padding=(1, 0, 1, 1)),
    ),
    "max_pool1d": ([f(1, 3, 9)], lambda x: nn.max_pool1d(x, (3,), (2,))),
    "avg_pool3d": ([f(1, 3, 6, 6, 6)], lambda x: nn.avg_pool3d(x, (2, 2, 2), (2, 2, 2))),
    "global_avg_pool2d": ([f(2, 3, 5, 6)], nn.global_avg_pool2d),
    "global_max_pool2d": ([f(2, 3, 5, 6)], nn.global_max_pool2d),
    "adaptive_avg_pool2d": ([f(2, 3, 6, 8)], lambda x: nn.adaptive_avg_pool2d(x, (2, 4))),
    "adaptive_max_pool2d": ([f(2, 3, 6, 8)], lambda x: nn.adaptive_max_pool2d(x, (1, 1))),
    "adaptive_avg_pool3d": ([f(2, 3, 4, 4, 4)], lambda x: nn.adaptive_avg_pool3d(x, (1, 1, 1))),
    "dense": ([f(5, 7), f(3, 7)], nn.dense),
    "matmul": ([f(7, 5), f(3, 7)], lambda a, b: nn.matmul(a, b, None, "", True, True)),
    "batch_matmul": ([f(4, 5, 7), f(4, 3, 7)], nn.batch_matmul),
    "batch_matmul broadcast": (
        [f(4, 5, 7), f(1, 7, 3)], lambda a, b: nn.batch_matmul(a, b, "", False, False),
    ),
    "bias_add": ([f(2, 3, 4, 4), f(3)], nn.bias_add),
    "bias_add last": ([f(2, 3), f(3)], lambda x, b: nn.bias_add(x, b, axis=-1)),
    "prelu": ([f(2, 3, 4, 4), f(3)], nn.prelu),
    "leaky_relu": ([f(2, 3)], lambda x: nn.leaky_relu(x, 0.2)),
    "clip": ([f(2, 3)], lambda x: relay.clip(x, -0.5, 0.5)),
    "softmax": ([f(2, 3, 4)], lambda x: nn.softmax(x, axis=1)),
    "log_softmax": ([f(2, 4)], nn.log_softmax),
    **{
        name: ([f(2, 3)], getattr(relay, name))
        for name in ("abs", "ceil", "cos", "erf", "exp", "floor", "negative", "sigmoid", "sin",
                     "tanh", "copy")
    },
    "relu": ([f(2, 3)], nn.relu),
    **{name: ([positive(2, 3)], getattr(relay, name)) for name in ("log", "sqrt", "rsqrt")},
    "times rsqrt": ([f(2, 3), positive(2, 3)], lambda x, y: relay.rsqrt(y) * x),
    **{
        name: ([f(2, 1, 3), f(4, 3)], getattr(relay, name))
        for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "equal",
                     "not_equal", "less", "less_equal", "greater", "greater_equal")
    },
    "power": ([positive(2, 3), f(2, 3)], relay.power),
    "add int": ([i("int64", 9, 3), i("int64", 9, 3)], relay.add),
    "divide int": (
        [i("int32", 9, 3)], lambda x: relay.divide(x - relay.const(5), relay.const(2)),
    ),
    **{
        name: ([boolean(4, 3), boolean(3)], getattr(relay, name))
        for name in ("logical_and", "logical_or", "logical_xor")
    },
    "logical_not": ([boolean(4, 3)], relay.logical_not),
    "where": ([boolean(4, 3), f(4, 3), f(3)], relay.where),
    "cast": ([f(4)], lambda x: relay.cast(x * relay.const(3.0), "int32")),
    "cast back": ([boolean(4)], lambda x: relay.cast(x, "float32")),
    **{
        f"{name} {axis} {keep}": (
            [f(2, 3, 4)], lambda x, n=name, a=axis, k=keep: getattr(relay, n)(x, a, k),
        )
        for name in ("mean", "sum", "max", "min", "prod")
        for axis, keep in ((None, False), (-1, True), ((0, 2), False))
    },
    "sum exclude": ([f(2, 3, 4)], lambda x: relay.sum(x, axis=1, exclude=True)),
    "variance": ([f(2, 3, 4)], lambda x: relay.variance(x, -1, True)),
    "variance flat": ([f(2, 3, 4)], lambda x: relay.variance(x, (1, 2))),
    "argmax": ([f(2, 3, 4)], lambda x: relay.argmax(x, axis=1, keepdims=True)),
    "argmin flat": ([f(2, 3, 4)], relay.argmin),
    "reshape": ([f(2, 3, 4)], lambda x: relay.reshape(x, (-1, 6))),
    "batch_flatten": ([f(2, 3, 4)], nn.batch_flatten),
    "squeeze": ([f(2, 1, 4)], lambda x: relay.squeeze(x, [1])),
    "expand_dims": ([f(2, 4)], lambda x: relay.expand_dims(x, 1, 2)),
    "transpose": ([f(2, 3, 4)], lambda x: relay.transpose(x, (2, 0, -2))),
    "transpose all": ([f(2, 3, 4)], relay.transpose),
    "concatenate": ([f(2, 3), f(2, 5)], lambda a, b: relay.concatenate((a, b, a), -1)),
    "stack": ([f(2, 3), f(2, 3)], lambda a, b: relay.stack((a, b), 1)),
    "split": ([f(2, 6)], lambda x: relay.concatenate(relay.split(x, 3, 1).astuple(), 0)),
    "split at": (
        [f(2, 6)],
        lambda x: relay.add(relay.split(x, [2, 3], 1)[2], relay.split(x, [2, 3], 1)[1]),
    ),
    "pad": ([f(2, 3)], lambda x: nn.pad(x, ((1, 0), (2, 3)), 0.5)),
    "pad edge": ([f(2, 3)], lambda x: nn.pad(x, ((0, 0), (2, 1)), 0, "edge")),
    "pad reflect": ([f(2, 5)], lambda x: nn.pad(x, ((0, 0), (2, 1)), 0, "reflect")),
    "strided_slice": (
        [f(5, 6, 7)], lambda x: relay.strided_slice(x, [1, -5], [4, 100], [2, 2]),
    ),
    "strided_slice back": ([f(5, 6)], lambda x: relay.strided_slice(x, [4, 0], [-9, 6], [-1, 1])),
    "strided_slice axes": (
        [f(5, 6, 7)], lambda x: relay.strided_slice(x, [1], [3], [1], axes=[2]),
    ),
    "strided_slice size": (
        [f(5, 6)], lambda x: relay.strided_slice(x, [1, 2], [-1, 3], slice_mode="size"),
    ),
    "take": ([f(9, 4), i("int64", 9, 2, 3)], lambda x, j: relay.take(x, j, axis=0)),
    "take beyond": (
        [f(9, 4)], lambda x: relay.take(x, relay.const(np.array([-3, 20, 1], "int32")), axis=1),
    ),
    "take flat": ([f(9, 4), i("int32", 36, 5)], lambda x, j: relay.take(x, j, mode="fast")),
    "gather": ([f(4, 5), i("int64", 5, 4, 2)], lambda x, j: relay.gather(x, 1, j)),
    "broadcast_to": ([f(3, 1)], lambda x: relay.broadcast_to(x, (2, 3, 4))),
    "tile": ([f(3, 2)], lambda x: relay.tile(x, (2, 1, 2))),
    "full": ([f(2, 3)], lambda x: x + relay.full(relay.const(2.0), (2, 3))),
    "zeros and ones": (
        [f(2, 3)], lambda x: x + relay.ones((2, 3), "float32") * relay.zeros((3,), "float32"),
    ),
    "upsampling": ([f(1, 2, 3, 4)], lambda x: nn.upsampling(x, 2, 2)),
    "upsampling bilinear": (
        [f(1, 2, 3, 4)],
        lambda x: nn.upsampling(x, 2, 2, method="bilinear", align_corners=True),
    ),
    **{
        f"resize2d {method} {mode}": (
            [f(1, 2, 4, 6)],
            lambda x, method=method, mode=mode: relay.image.resize2d(
                x, (8, 9), method=method, coordinate_transformation_mode=mode,
                rounding_method="floor" if method == "nearest_neighbor" else "",
            ),
        )
        for method in ("nearest_neighbor", "linear")
        for mode in ("half_pixel", "align_corners", "asymmetric")
    },
    "depth_to_space": ([f(1, 8, 2, 3)], lambda x: nn.depth_to_space(x, 2)),
    "depth_to_space CRD": ([f(1, 8, 2, 3)], lambda x: nn.depth_to_space(x, 2, mode="CRD")),
    "space_to_depth": ([f(1, 2, 4, 6)], lambda x: nn.space_to_depth(x, 2)),
}  # fmt: skip

# Name -> (types, function, what the refusal names).
REFUSED = {
    "unknown op": ([f(2, 3)], relay.round, "round: the op is not in its table"),
    "dtype": ([("float16", (2, 3))], relay.exp, "dtype=float16"),
    "blocked": (
        [f(1, 1, 4, 4, 8), f(1, 1, 1, 1, 8, 8)],
        lambda x, w: nn.conv2d(
            *(x, w), data_layout="NCHW8c", kernel_layout="OIHW8i8o", channels=8,
            kernel_size=(1, 1),
        ),
        "data_layout=NCHW8c",
    ),
    "avg_pool ceil": (
        [f(1, 1, 5, 5)], lambda x: nn.avg_pool2d(x, 2, 2, ceil_mode=True), "ceil_mode=1",
    ),
    "uneven": (
        [f(1, 1, 5, 5)], lambda x: nn.adaptive_avg_pool2d(x, (2, 2)), "output_size=[2, 2]",
    ),
    "take mode": (
        [f(4), i("int32", 4, 2)], lambda x, j: relay.take(x, j, mode="wrap"), "mode=wrap",
    ),
    "cubic": (
        [f(1, 1, 4, 4)], lambda x: relay.image.resize2d(x, (8, 8), method="cubic"), "method=cubic",
    ),
    "empty": ([f(0, 3)], relay.exp, "is empty"),
    "logical of ints": (
        [i("int32", 3, 2)], lambda x: relay.power(x, x), "dtype=int32",
    ),
}  # fmt: skip


def variables(types):
    return [
        relay.var(f"x{n}", shape=shape, dtype=_dtype(kind)) for n, (kind, shape) in enumerate(types)
    ]


def _dtype(kind):
    return "float32" if kind == "positive" else kind.split("<")[0]


def arrays(types, seed=0):
    draw = np.random.default_rng(seed)
    made = []
    for kind, shape in types:
        if "<" in kind:
            dtype, bound = kind.split("<")
            made.append(draw.integers(0, int(bound), shape).astype(dtype))
        elif kind == "bool":
            made.append(draw.integers(0, 2, shape).astype(bool))
        else:
            values = draw.standard_normal(shape).astype("float32")
            made.append(np.abs(values) + 0.1 if kind == "positive" else values)
    return made


def typed(types, build) -> relay.Function:
    params = variables(types)
    mod = tvm.IRModule.from_expr(relay.Function(params, build(*params)))
    return relay.transform.InferType()(mod)["main"]


@pytest.fixture(scope="module")
def expected():
    """TVM's results of all cases, from one build of one function."""
    params, bodies, inputs = [], [], {}
    for n, (types, build) in enumerate(CASES.values()):
        own = [
            relay.var(f"c{n}_{k}", shape=shape, dtype=_dtype(kind))
            for k, (kind, shape) in enumerate(types)
        ]
        params += own
        bodies.append(build(*own))
        inputs.update({f"c{n}_{k}": array for k, array in enumerate(arrays(types))})
    mod = tvm.IRModule.from_expr(relay.Function(params, relay.Tuple(bodies)))
    # LLVM rejects debug information of some shared sub-expressions.
    config = {"tir.disable_cse_tir": True}
    with tvm.transform.PassContext(opt_level=0, config=config):
        module = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    module.run(**inputs)
    return {name: module.get_output(n).numpy() for n, name in enumerate(CASES)}


def run(model, inputs):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {f"input_{n}": array for n, array in enumerate(inputs)})


@pytest.mark.parametrize("name", CASES)
def test_an_op_in_onnxruntime_gives_what_it_gives_in_tvm(name, expected):
    types, build = CASES[name]
    model = export_function(typed(types, build))
    onnx.checker.check_model(model, full_check=True)
    (result,) = run(model, arrays(types))
    assert result.dtype == expected[name].dtype and result.shape == expected[name].shape
    np.testing.assert_allclose(result, expected[name], rtol=1e-4, atol=1e-5)


def test_every_op_of_the_table_has_a_case():
    seen = set()
    for types, build in CASES.values():
        relay.analysis.post_order_visit(
            build(*variables(types)),
            lambda e: seen.add(e.name) if isinstance(e, tvm.ir.Op) else None,
        )
    alike = {"conv1d", "conv3d", "pool1d", "pool3d"}  # one function for 1, 2 and 3 axes
    missing = {op for op in EXPORTED_OPS - seen if not any(part in op for part in alike)}
    assert missing == set()


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_exported_is_named(name):
    types, build, text = REFUSED[name]
    function = typed(types, build)
    with pytest.raises(UnsupportedOpError, match="mylib cannot run") as error:
        export_function(function, "mylib")
    assert text in str(error.value)
    assert text in why_not_exported(function.body, "mylib")


def test_a_dynamic_shape_is_refused():
    x = relay.var("x", shape=(relay.Any(), 3))
    function = relay.transform.InferType()(tvm.IRModule.from_expr(relay.exp(x)))["main"]
    with pytest.raises(UnsupportedOpError, match="dynamic"):
        export_function(function)


def test_composites_tuples_and_constants():
    """A composite is seen through, equal nodes are one, results of a tuple keep their order."""
    x = relay.var("x", shape=(2, 3))
    inner = relay.var("inner", shape=(2, 3))
    composite = relay.Function([inner], nn.relu(inner + relay.const(1.0)))
    composite = composite.with_attr("Composite", "any.add_relu")
    pair = relay.Tuple([relay.Call(composite, [x]), relay.exp(x), relay.exp(x)])
    body = relay.Tuple([relay.TupleGetItem(pair, 1), relay.TupleGetItem(pair, 0), pair.fields[2]])
    function = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))[
        "main"
    ]
    model = export_function(function)
    assert sorted(node.op_type for node in model.graph.node) == [
        "Add", "Exp", "Identity", "Identity", "Identity", "Relu",
    ]  # fmt: skip
    (data,) = arrays([f(2, 3)])
    first, second, third = run(model, [data])
    np.testing.assert_allclose(first, np.exp(data), rtol=1e-5)
    np.testing.assert_allclose(second, np.maximum(data + 1, 0), rtol=1e-6)
    np.testing.assert_array_equal(first, third)


def test_a_deep_function_needs_no_recursion():
    x = relay.var("x", shape=(2,))
    body = x
    for _ in range(3000):
        body = relay.exp(relay.negative(body))
    function = relay.Function([x], body)
    assert len(export_function(_infer_deep(function)).graph.node) == 6001


def _infer_deep(function):
    return relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]


def test_weights_are_in_the_model():
    weight = np.arange(12, dtype="float32").reshape(3, 4)
    function = typed([f(2, 4)], lambda x: nn.dense(x, relay.const(weight)))
    model = export_function(function)
    (kept,) = model.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(kept), weight.T)
    assert [value.name for value in model.graph.input] == ["input_0"]
