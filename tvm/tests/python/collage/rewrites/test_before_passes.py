# SPDX-License-Identifier: Apache-2.0
"""What is rewritten before passes of TVM: scales are folded into weights only where they are known,
sums of one value keep the size of a net, convolutions along one axis get the blocked kernel, and a
squeeze of the channels builds."""

import numpy as np
import pytest
import tvm
from onednn_nets import assert_close, constant, function_of, random_inputs, reference, run
from relay_text import module_of, parse, plain_host
from tvm import autotvm, relay
from tvm.relay import collage
from tvm.relay.collage.compile import build_library, fast_passes, prepare
from tvm.relay.collage.compile.library import stock_build
from tvm.relay.collage.relay_util.walk import nodes_of, operator_calls
from tvm.relay.collage.rewrites import apply

nn = relay.nn


def x(name="x"):
    return relay.var(name, shape=(1, 8))


def image():
    return relay.var("image", shape=(1, 4, 6, 6))


def conv(data):
    return nn.conv2d(data, constant(1, 4, 4, 3, 3), channels=4, kernel_size=(3, 3), padding=1)


def gate():
    return nn.dense(x(), constant(1, 8, 8)) * nn.dense(x("y"), constant(2, 8, 8))


def gated(data):
    """Squeeze and excite: a factor for each channel, known at run time only."""
    return data * relay.sigmoid(relay.mean(data, axis=[2, 3], keepdims=True))


def swish(data):
    return data * relay.sigmoid(data)


HARMFUL = {
    "product of layers": gate,
    "factor from outside": lambda: nn.dense(x(), constant(1, 8, 8)) * x("scale"),
    "of a convolution": lambda: conv(image()) * relay.var("scale", shape=(4, 1, 1)),
    "in front of a convolution": lambda: conv(gated(image())),
    "swish of a vector": lambda: nn.dense(swish(x()), constant(1, 8, 8)),
    "behind an activation": lambda: conv(nn.relu(gated(image()))),
}


def test_a_users_own_annotations_stay():
    mod = module_of(relay.annotation.compiler_begin(x() * x("y"), "theirs"))
    fenced = mod.clone()
    assert apply(fenced, "before FoldScales") and apply(fenced, "after FoldScales")
    assert tvm.ir.structural_equal(fenced, mod)


@pytest.mark.parametrize("opt_level", [0, 2])
def test_where_scales_are_not_folded_nothing_is_fenced_in(opt_level):
    """TVM runs the sequence FoldScaleAxis, and none of its passes."""
    made = prepare(module_of(gate()), None, "llvm", opt_level=opt_level)
    assert "compiler_begin" not in made.astext(show_meta_data=False)


def weights_of(mod):
    layers = ("nn.dense", "nn.conv2d")
    return [call.args[1] for call in operator_calls(mod) if call.op.name in layers]


@pytest.mark.parametrize("name", HARMFUL)
def test_weights_stay_constants_and_outputs_right(name):
    function = function_of(HARMFUL[name]())
    mod = module_of(function.body)
    fenced = mod.clone()
    assert apply(fenced, "before FoldScales") and "compiler_begin" in fenced.astext()
    assert apply(fenced, "after FoldScales") and tvm.ir.structural_equal(fenced, mod)
    mod = prepare(tvm.IRModule.from_expr(function), None, "llvm")
    assert all(isinstance(weight, relay.Constant) for weight in weights_of(mod))
    inputs = random_inputs(function)
    assert_close(run(build_library(mod, "llvm"), inputs), reference(function, inputs))


def test_a_known_scale_is_folded_still():
    mod = prepare(
        tvm.IRModule.from_expr(function_of(conv(image()) * constant(2, 4, 1, 1))), None, "llvm"
    )
    assert "multiply" not in mod["main"].astext(show_meta_data=False)


def test_a_known_scale_is_folded_beside_a_gate():
    """As in pre-activation nets with squeeze-and-excite: only what is unknown stays."""
    body = conv(gated(conv(image() * constant(2, 4, 1, 1))))
    mod = prepare(tvm.IRModule.from_expr(function_of(body)), None, "llvm")
    assert mod["main"].astext(show_meta_data=False).count("multiply(") == 1
    assert all(isinstance(weight, relay.Constant) for weight in weights_of(mod))


@pytest.mark.parametrize("half", [0.5, [0.5], [[[0.5]]]])
def test_a_gelu_keeps_its_half(half):
    """Its half would be in the weights behind it, and what is left is a GELU that nobody knows."""
    data = conv(image())
    scaled = data * (relay.erf(data / relay.const(2**0.5)) + relay.const(1.0))
    function = function_of(conv(scaled * relay.const(np.float32(half))))
    mod = prepare(tvm.IRModule.from_expr(function), None, "llvm")
    before, after = weights_of(function), weights_of(mod)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old.data.numpy(), new.data.numpy())
    # A factor for each channel is no number: it is folded, as before.
    factor = function_of(conv(scaled * constant(2, 4, 1, 1)))
    mod = prepare(tvm.IRModule.from_expr(factor), None, "llvm")
    assert mod["main"].astext(show_meta_data=False).count("multiply(") == 1


def test_a_weight_that_each_step_transposes_is_one_constant():
    weight = relay.var("weight", shape=(8, 8))
    value = x()
    for _ in range(3):
        value = nn.dense(value, relay.transpose(weight))
    other = relay.transpose(relay.var("other", shape=(8, 8)))
    mod = tvm.IRModule.from_expr(function_of(nn.dense(value, other)))
    draw = np.random.default_rng(0)
    params = {name: draw.standard_normal((8, 8)).astype("float32") for name in ("weight", "other")}
    first, second, third, last = weights_of(prepare(mod, params, "llvm"))
    assert first.same_as(second) and second.same_as(third)
    assert not first.same_as(last)
    np.testing.assert_array_equal(last.data.numpy(), params["other"].T)
    np.testing.assert_array_equal(first.data.numpy(), params["weight"].T)


X = relay.var("x", shape=(4, 8))


def count(mod):
    return len(nodes_of(mod["main"].body))


def cells(number):
    """Cells like NASNet's: two poolings that are one, added, and what came before them."""
    value = X
    for _ in range(number):
        pooled = relay.tanh(value)
        value = (pooled + pooled) + relay.nn.relu(value)
    return value


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8", "bool"])
def test_a_sum_of_one_value_with_itself(dtype):
    body = relay.nn.relu(relay.var("x", shape=(3,), dtype=dtype))
    mod = module_of(body + body)
    assert apply(mod, "before SimplifyExpr")
    wanted = module_of(relay.multiply(body, relay.const(2, dtype)))
    tvm.ir.assert_structural_equal(mod["main"], wanted["main"])
    assert mod["main"].body.checked_type.dtype == dtype


@pytest.mark.parametrize(
    "dtype, sums",
    [
        ("bfloat16", [0, 2, 5, 400]),
        ("uint8", [0, 2, 4, 144]),  # modulo 256
        ("bool", [0, 1, 1, 1]),  # the sum is an "or", and the 2 is a true
    ],
)
def test_values_are_those_of_the_sum(dtype, sums):
    value = relay.cast(relay.var("x", shape=(4,)), dtype)
    mod = module_of(relay.cast(value + value, "float32"))
    assert apply(mod.clone(), "before SimplifyExpr")
    outputs = []
    for build in (as_written, build_library):
        [got] = run(build(mod, "llvm"), {"x": np.array([0, 1, 2.5, 200], "float32")})
        outputs.append(got.tolist())
    assert outputs == [sums, sums]


def as_written(mod, target):
    """The sum as it is written."""
    with tvm.transform.PassContext(opt_level=0):
        return relay.build(mod, target)


def test_sums_of_sums_are_all_found():
    twice = X + X
    mod = module_of(twice + twice)
    assert apply(mod, "before SimplifyExpr")
    two = relay.const(2, "float32")
    wanted = module_of(relay.multiply(relay.multiply(X, two), two))
    tvm.ir.assert_structural_equal(mod["main"], wanted["main"])


def test_what_is_shared_stays_shared():
    """SimplifyExpr by itself makes about 2 ** 8 copies of the first cell."""
    mod = module_of(cells(8))
    size = count(mod)
    with fast_passes():
        simplified = relay.transform.SimplifyExpr()(mod)
    assert count(simplified) <= size + 8 + 1  # a constant for each sum, and the operator multiply
    assert count(relay.transform.SimplifyExpr()(module_of(cells(8)))) > 100 + size, (
        "TVM has mended its pass: the rule DoubleSum is no longer needed"
    )


def test_the_library_computes_the_same():
    mod = module_of(cells(3))
    data = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    [got] = run(build_library(mod, "llvm"), {"x": data})
    wanted = data
    for _ in range(3):
        wanted = 2 * np.tanh(wanted) + np.maximum(wanted, 0)
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


BLOCKED = "contrib_conv2d_NCHWc"
# Data, weight and attributes of what is rewritten, and of what is not.
ALONG = {
    "conv1d": ((2, 16, 40), (32, 16, 3), {"padding": (1, 1)}),
    "one_sided": ((1, 8, 41), (24, 8, 4), {"padding": (3, 0), "strides": 2, "dilation": 2}),
    "column": ((1, 16, 40, 1), (32, 16, 5, 1), {"padding": (2, 0, 1, 0), "strides": (3, 1)}),
}
OTHERS = {
    "grouped": ((1, 16, 40), (32, 8, 3), {"groups": 2}),
    "channels_last": ((1, 40, 16), (3, 16, 32), {"data_layout": "NWC", "kernel_layout": "WIO"}),
}


def convolution(data, weight, attrs, has_constant=True):
    """The convolution between others' operators, and its input."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal(data).astype("float32")
    kernel = rng.standard_normal(weight).astype("float32")
    x, w = relay.var("x", shape=data), relay.var("w", shape=weight)
    is_last = attrs.get("data_layout") == "NWC"
    sizes = {
        "channels": weight[-1] if is_last else weight[0],
        "kernel_size": weight[:1] if is_last else weight[2:],
    }
    conv = relay.nn.conv1d if len(data) == 3 else relay.nn.conv2d
    y = conv(relay.nn.relu(x), relay.const(kernel) if has_constant else w, **sizes, **attrs)
    params = [x] if has_constant else [x, w]
    inputs = {"x": values} if has_constant else {"x": values, "w": kernel}
    return tvm.IRModule.from_expr(relay.Function(params, relay.tanh(y))), inputs


@pytest.mark.parametrize("name", [*ALONG, *OTHERS])
def test_same_values_by_the_blocked_kernel(name):
    mod, inputs = convolution(*(ALONG | OTHERS)[name])
    with tvm.transform.PassContext(opt_level=1):
        expected = stock_build()(mod, target="llvm")
    library = build_library(mod, collage.host_target())
    assert (BLOCKED in library.graph_json) == (name in ALONG)
    [got], [wanted] = run(library, inputs), run(expected, inputs)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    if name in ALONG:  # weights are laid out while it is built
        names = [str(key) for key in library.params]
        assert [len(library.params[key].shape) for key in names] == [6], names


def test_stock_and_low_levels_and_unknown_weights_stay_as_they_are():
    mod, _ = convolution(*ALONG["conv1d"])
    with tvm.transform.PassContext(opt_level=3):
        assert BLOCKED not in stock_build()(mod, target="llvm").graph_json
    assert BLOCKED not in build_library(mod, "llvm", opt_level=2).graph_json
    mod, _ = convolution(*ALONG["conv1d"], has_constant=False)
    assert BLOCKED not in build_library(mod, "llvm").graph_json


@pytest.mark.parametrize("padding", ["[2, 0]", "[2, 0, 2, 0]"])
def test_paddings_as_relays_text_has_them(padding):
    mod = parse(f"""
        def @main(%x: Tensor[(1, 16, 40, 1), float32], %w: Tensor[(8, 16, 5, 1), float32]) {{
          nn.conv2d(%x, %w, padding={padding}, channels=8, kernel_size=[5, 1])
        }}""")
    weights = {"w": tvm.nd.array(np.ones((8, 16, 5, 1), "float32"))}
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], weights)
    mod = relay.transform.InferType()(mod)
    wanted = mod["main"].checked_type
    assert apply(mod, "before AlterOpLayout")
    assert mod["main"].checked_type == wanted
    assert "padding=[0, 2, 0, 2]" in mod.astext(show_meta_data=False)


@pytest.mark.parametrize("padding", [(1, 1), (0, 0)])
def test_one_pixel_and_paddings_across_the_axis_stay(padding):
    """The convolutions of a squeeze-and-excite block have nothing to gain, and much to lose."""
    shape = (1, 16, 1, 1) if padding == (0, 0) else (1, 16, 40, 1)
    size = (8, 16, 1, 1) if padding == (0, 0) else (8, 16, 3, 1)
    mod, _ = convolution(shape, size, {"padding": padding})
    assert not apply(relay.transform.InferType()(mod), "before AlterOpLayout")


def test_where_tuning_records_are_looked_up_kernels_are_those_that_tuners_find():
    def changes():
        mod, _ = convolution(*ALONG["conv1d"])
        return apply(relay.transform.InferType()(mod), "before AlterOpLayout")

    assert changes()
    with autotvm.apply_history_best([]):
        assert not changes()
    for name in ("use_auto_scheduler", "use_meta_schedule"):
        with tvm.transform.PassContext(config={f"relay.backend.{name}": True}):
            assert not changes()
    assert changes()


@pytest.mark.parametrize(
    "shape, axis, is_reshaped",
    [
        *(((2, 1, 5, 1), axis, True) for axis in ([1], [-3], [1, 3], None)),
        ((2, 3, 5, 1), [3], False),
        ((1, 3, 5, 6), [0], False),
        ((4, 1), [1], False),
        ((relay.Any(), 1, 5, 6), [1], False),
    ],
)
def test_channels_of_one_are_reshaped_away(shape, axis, is_reshaped):
    mod = module_of(relay.squeeze(relay.var("x", shape=shape), axis))
    wanted = mod["main"].ret_type
    assert apply(mod, "before AlterOpLayout") == is_reshaped
    assert mod["main"].body.op.name == ("reshape" if is_reshaped else "squeeze")
    assert tvm.ir.structural_equal(mod["main"].ret_type, wanted)


def test_a_convolution_to_one_channel_whose_result_is_squeezed_builds(capfd):
    """As a net that gives a picture of probabilities ends, read in two layouts."""
    generator = np.random.default_rng(0)
    weight = generator.standard_normal((1, 4, 1, 1)).astype("float32")
    data = generator.standard_normal((1, 4, 6, 5)).astype("float32")
    given = relay.nn.conv2d(
        relay.var("x", shape=data.shape), relay.const(weight), channels=1, kernel_size=(1, 1)
    )
    turned = relay.transpose(relay.squeeze(given, [1]), [0, 2, 1])
    kept = relay.where(relay.const(np.arange(6) > 2), turned, relay.const(-1.0))
    library = build_library(module_of(relay.Tuple([kept, relay.argmax(turned, -1)])), plain_host())
    assert "not convertible" not in capfd.readouterr().err
    got, _ = run(library, {"x": data})
    right = np.einsum("c,nchw->nwh", weight[0, :, 0, 0], data)
    np.testing.assert_allclose(got, np.where(np.arange(6) > 2, right, -1.0), rtol=1e-5)
