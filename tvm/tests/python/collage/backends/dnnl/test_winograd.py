# SPDX-License-Identifier: Apache-2.0
"""3x3 convolutions of oneDNN regions by our Winograd kernel, against TVM's own result: what it
takes, what is fused, who chooses it, threads. Its other windows: test_winograd_forms.py."""

import ctypes
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_collage
from onednn_nets import (
    assert_close,
    assert_threads_share,
    build,
    build_with_winograd,
    check,
    check_all,
    constant,
    function_of,
    hand_placed,
    plan_of,
    random_inputs,
    reference,
    run,
)
from tree import child_environment
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.plans.competing import Plans

nn = relay.nn


@pytest.fixture(autouse=True)
def two_threads():
    """What the model of time chooses depends on their number."""
    configure = tvm.get_global_func("runtime.config_threadpool")
    configure(1, 2)
    yield
    configure(1, 0)


def var(*shape, name="x"):
    return relay.var(name, shape=shape)


def conv2d(data, out_channels, kernel=3, padding=1, layout="NCHW", seed=1, groups=1, **attrs):
    channels = int(data.type_annotation.shape[layout.index("C")]) // groups
    shape = {"O": out_channels, "I": channels, "H": kernel, "W": kernel}
    order = "OIHW" if layout == "NCHW" else "HWIO"
    return nn.conv2d(
        data,
        constant(seed, *(shape[axis] for axis in order)),
        channels=out_channels,
        kernel_size=(kernel, kernel),
        padding=padding,
        data_layout=layout,
        kernel_layout=order,
        groups=groups,
        **attrs,
    )


def check_with(winograd, bodies):
    """As onednn_nets.check_all, with the option set."""
    return check_all(bodies, options=f'{{"winograd": "{winograd}"}}')


def check_always(bodies, expected=True, kernel="avx"):
    """Check each expression with the option; whether the kernel runs it is as expected."""
    plans = check_with("always", bodies)
    assert [name for name in plans if is_winograd(plans[name], kernel) != expected] == []
    return plans


def is_winograd(plan, kernel="avx"):
    assert "conv" in plan
    return f"by winograd:{kernel}" in plan


# Images (batch, channels, height, width), output channels, padding: whole tiles and cut ones,
# channels of one vector, of several and of an odd number, more tiles than a piece has. All are
# multiples of 16, so that the widest vectors that the CPU has are used.
WIDEST = "avx512" if tvm.get_global_func("collage.onednn.runs_bfloat16")() else "avx2"
SHAPES = [
    ((1, 16, 8, 8), 16, 1),
    ((1, 32, 4, 4), 48, 0),
    ((2, 48, 13, 7), 80, (0, 1, 2, 1)),
    ((1, 64, 28, 28), 64, 1),
    ((3, 16, 31, 33), 112, (2, 0, 1, 2)),
    ((1, 256, 5, 3), 32, 1),
]


def shapes():
    return {str(row): conv2d(var(*row[0]), row[1], padding=row[2]) for row in SHAPES}


def test_shapes():
    check_always(shapes(), kernel=WIDEST)
    # Of narrower vectors.
    check_with("always", {"": conv2d(var(1, 9, 10, 24), 40, layout="NHWC")})


@pytest.mark.parametrize("winograd", ["always", "never"])
def test_channels_last_and_bias(winograd):
    body = nn.bias_add(conv2d(var(1, 12, 11, 32), 64, layout="NHWC"), constant(2, 64), axis=3)
    [plan] = check_with(winograd, {"": body}).values()
    assert is_winograd(plan) == (winograd == "always")


POST_OPS = {
    "relu": nn.relu,
    "leaky": lambda out: nn.leaky_relu(out, 0.1),
    "clip": lambda out: relay.clip(out, -0.5, 6.0),
    "linear": lambda out: out * relay.const(1.5) + relay.const(0.25),
    "sum": lambda out: out + var(1, 32, 10, 9, name="y"),
    "sum, relu": lambda out: nn.relu(out + var(1, 32, 10, 9, name="y")),
    "leaky, sum": lambda out: nn.leaky_relu(out, 0.1) + var(1, 32, 10, 9, name="y"),
}


def test_post_ops():
    out = nn.bias_add(conv2d(var(1, 16, 10, 9), 32), constant(2, 32))
    for name, plan in check_always({n: make(out) for n, make in POST_OPS.items()}).items():
        assert plan.count(" by ") == 1 + plan.count("reorder by"), f"the kernel does all of {name}"


@pytest.mark.parametrize("name", ["relu", "leaky", "clip", "linear"])
def test_infinity_and_nan_do_not_vanish(name):
    """Where the direct kernel has one of them, ours has one of them, and others near it."""
    function = function_of(POST_OPS[name](conv2d(var(1, 16, 12, 12), 16)))
    [image] = random_inputs(function).values()
    ours, direct = (build_with_winograd(side, function) for side in ("always", "never"))
    for value in (np.inf, np.nan):
        image[0, 3, 5, 5] = value
        [[got], [wanted]] = (run(library, {"x": image}) for library in (ours, direct))
        was = ~np.isfinite(wanted)
        assert np.all(~np.isfinite(got)[was])
        # oneDNN's own relu makes 0 of NaN, and clip a number of both.
        is_made_a_number = name == "clip" or (name == "relu" and np.isnan(value))
        assert was.any() != is_made_a_number


FUNCTIONS = {
    "sigmoid": relay.sigmoid,
    "swish": lambda out: out * relay.sigmoid(out),
    "relu tanh": lambda out: relay.tanh(nn.relu(out)),
}


def test_functions_that_the_kernel_lacks_follow_it():
    bodies = {name: make(conv2d(var(1, 32, 10, 9), 32)) for name, make in FUNCTIONS.items()}
    for name, plan in check_always(bodies).items():
        assert f"{name.split()[-1]} by " in plan


def test_a_sum_is_added_to_a_summand_of_the_region():
    first = nn.relu(conv2d(var(1, 32, 14, 14), 32, kernel=1, padding=0))
    second = nn.conv2d(first, constant(3, 32, 32, 3, 3), channels=32, kernel_size=(3, 3), padding=1)
    check_always({"": nn.relu(second + first)})


WITHOUT = {
    "dilation": lambda x: conv2d(x, 32, dilation=2, padding=2),
    "groups": lambda x: conv2d(x, 32, groups=2),
    "depthwise": lambda x: conv2d(x, 32, groups=32),
    "channels": lambda x: conv2d(x, 30),
    "second sum": lambda x: conv2d(x, 32) + x + nn.relu(x),
    "weights": lambda x: nn.conv2d(
        x, var(32, 32, 3, 3, name="w"), channels=32, kernel_size=(3, 3), padding=1
    ),
}


def test_what_the_kernel_lacks_runs_directly():
    x = var(1, 32, 12, 12)
    check_always({name: make(x) for name, make in WITHOUT.items()}, expected=False)


# Attributes of a conv3d of (2, 16, 5, 9, 10), the depth of its window, whether the kernel runs it.
VOLUMES = [
    (dict(padding=1), 3, True),
    (dict(padding=(2, 0, 1, 0, 1, 2)), 3, True),
    (dict(padding=1, strides=(2, 1, 1)), 3, True),
    (dict(padding=(2, 1, 1), dilation=(2, 1, 1)), 3, True),
    (dict(padding=(0, 1, 1)), 1, True),
    (dict(padding=(1, 1, 1)), 2, True),
    (dict(padding=1, strides=2), 3, False),
    (dict(padding=2, dilation=(1, 2, 2)), 3, False),
]


def volume(depth, **attrs):
    attrs = dict(channels=32, kernel_size=(depth, 3, 3), **attrs)
    return nn.conv3d(var(2, 16, 5, 9, 10), constant(1, 32, 16, depth, 3, 3), **attrs)


def test_volumes():
    layouts = dict(data_layout="NDHWC", kernel_layout="DHWIO")
    attrs = dict(channels=32, kernel_size=(3, 3, 3), padding=1, **layouts)
    last = nn.conv3d(var(1, 4, 9, 10, 16), constant(1, 3, 3, 3, 16, 32), **attrs)
    for expected, more in ((True, {"channels last": last}), (False, {})):
        rows = [(attrs, depth) for attrs, depth, is_run in VOLUMES if is_run == expected]
        bodies = {f"{depth} {attrs}": volume(depth, **attrs) for attrs, depth in rows}
        check_always(bodies | more, expected)


def test_threads_share_a_loaded_library(tmp_path):
    function = function_of(nn.relu(conv2d(var(1, 64, 28, 28), 64)))
    library = build(hand_placed(function))
    run(library, random_inputs(function))
    assert is_winograd(plan_of(library))
    library.export_library(str(tmp_path / "lib.so"))
    assert_threads_share(str(tmp_path / "lib.so"), random_inputs(function)["x"])


@pytest.fixture
def count_tasks():
    """How many tasks the pool has run so far."""
    count = ctypes.CDLL(tvm_collage.library_path("tvm_collage_pool")).CollagePoolTaskCount
    count.restype = ctypes.c_int64
    return count


def on_threads(number, work, *arguments):
    """What work returns to a caller that was given so many threads; the number is its own."""
    configure = tvm.get_global_func("runtime.config_threadpool")
    with ThreadPoolExecutor(1) as caller:
        caller.submit(configure, 1, number, [str(cpu) for cpu in range(number)]).result()
        return caller.submit(work, *arguments).result()


# 9, 49 and 225 tiles: threads share their channels, or ranges of them, or both.
@pytest.mark.parametrize("size", [12, 28, 60])
def test_a_call_has_its_own_threads_whoever_made_the_plan(size, count_tasks):
    function = function_of(nn.relu(conv2d(var(1, 32, size, size), 128)))
    inputs = random_inputs(function)
    wanted = reference(function, inputs)
    for made, used in [(1, 2), (2, 1), (1, 5), (3, 2)]:
        library = build_with_winograd("always", function)  # its first run makes the plan
        for number in (made, used, made):
            before = count_tasks()
            assert_close(on_threads(number, run, library, inputs), wanted)
            assert count_tasks() - before == number
        assert plan_of(library).count("by winograd") == 1


def test_where_it_is_expected_to_be_faster():
    assert is_winograd(check(conv2d(var(1, 64, 28, 28), 64)))
    # The weights of few outputs take longer to read than the products that they save.
    assert not is_winograd(check(conv2d(var(1, 256, 4, 4), 256)))
    # Transforms take longer than the products of few channels.
    assert not is_winograd(check(conv2d(var(1, 16, 8, 8), 16)))


@pytest.mark.parametrize("choice", ["auto", "never"])
def test_the_option_is_the_target_s(choice):
    body = conv2d(var(1, 64, 28, 28), 64)
    inputs = random_inputs(function_of(body))
    targets = parse_targets([collage.host_target(), f"dnnl -winograd={choice}"])
    with tvm.transform.PassContext(opt_level=3):
        mod = tvm.IRModule.from_expr(function_of(body))
        plans = Plans(prepare(mod, None, targets.host, opt_level=3), targets)
        plans.add_single_backends()
        library = build_library(plans.modules["dnnl"], targets.host)
    run(library, inputs)
    assert is_winograd(plan_of(library)) == (choice == "auto")


def test_a_choice_that_is_none():
    with pytest.raises(ValueError, match=r"option winograd is one of auto, always, never.*'no'"):
        get_backend("dnnl").with_options({"winograd": "no"})


def test_numbers_are_as_good_as_float32_promises():
    """The error of one layer, of the largest output, is near 1e-5; the project promises 1e-4."""
    x = var(1, 512, 16, 16)
    function = function_of(conv2d(x, 64))
    inputs = random_inputs(function)
    library = build(hand_placed(function))
    [got] = run(library, inputs)
    assert is_winograd(plan_of(library))
    weight = function.body.args[1].data.numpy().astype("float64")
    image = np.pad(inputs["x"].astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(2, 3))
    wanted = np.einsum("ncyxij,ocij->noyx", windows, weight)
    assert np.abs(got - wanted).max() < 4e-5 * np.abs(wanted).max()


def test_narrower_vectors():
    """The kernel for AVX2 runs on CPUs with AVX-512 as well, where oneDNN is kept from those."""
    program = "import test_winograd as t; t.check_always(t.shapes(), kernel='avx2')"
    env = child_environment(Path(__file__).parent, ONEDNN_MAX_CPU_ISA="AVX2")
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
