# SPDX-License-Identifier: Apache-2.0
"""Steps of oneDNN regions that can run by several kernels: which there are, and running each."""

import dataclasses
import json

import numpy as np
import pytest
import tvm
from kernel_choices import chosen, deployed_by_placement, plan_with, trial_timing
from onednn_nets import (
    constant,
    function_of,
    hand_placed,
    needs_avx512,
    plan_of,
    random_inputs,
    reference,
)
from tvm import relay
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.backends.interface import TARGET_OPTIONS
from tvm.relay.collage.measure.profiler.kernel_trials import steps_of_part, time_kernels

nn = relay.nn


def var(*shape, name="x"):
    return relay.var(name, shape=shape)


def dense(units=48, seed=1, data=None):
    data = var(24, 32) if data is None else data
    return nn.dense(data, constant(seed, units, 32))


def conv(channels=32, size=14, **attrs):
    weight = constant(1, channels, 32, 3, 3)
    attrs = dict(channels=channels, kernel_size=(3, 3), padding=1, **attrs)
    return nn.conv2d(var(1, 32, size, size), weight, **attrs)


BODIES = {
    "dense": dense,
    "dense, bias, gelu": lambda: _gelu(nn.bias_add(dense(), constant(2, 48))),
    "dense, bias, sum": lambda: nn.bias_add(dense(), constant(2, 48)) + var(24, 48, name="y"),
    "dense of three axes": lambda: relay.reshape(
        nn.dense(relay.reshape(var(2, 12, 32), (24, 32)), constant(1, 48, 32)), (2, 12, 48)
    ),
    "dense of variable weights": lambda: nn.dense(var(24, 32), var(48, 32, name="w")),
    "batch_matmul": lambda: nn.batch_matmul(var(3, 24, 32), constant(1, 3, 48, 32)),
    "conv": conv,
    "conv, relu": lambda: nn.relu(conv()),
    "conv, sigmoid": lambda: relay.sigmoid(conv()),
    "conv of a volume": lambda: nn.conv3d(
        var(1, 32, 4, 14, 14), constant(1, 32, 32, 3, 3, 3), kernel_size=(3, 3, 3), padding=1
    ),
}
# Where oneDNN has a single one on some CPUs, so that there is nothing to choose.
_ONE_KERNEL = {"batch_matmul": needs_avx512}


def _gelu(x):
    scaled = relay.erf(x * relay.const(np.float32(0.5**0.5)))
    return x * (scaled + relay.const(1.0)) * relay.const(0.5)


def steps_of(body):
    return steps_of_part(hand_placed(function_of(body))["dnnl_part"])


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=_ONE_KERNEL.get(each, ())) for each in BODIES]
)
def test_each_kernel_of_a_step_computes_the_same(name):
    body = BODIES[name]()
    function = function_of(body)
    wanted = reference(function, random_inputs(function))
    [step] = steps_of(body)
    forms = {kernel.split()[0] for kernel in step.kernels}
    assert forms in ({"inner_product", "matmul"}, {"matmul"}, {"conv", "winograd"})
    assert not any("ref" in kernel for kernel in step.kernels)
    for kernel in step.kernels:
        choice = chosen(step, kernel)
        plan = plan_with(body, [choice], wanted)
        [line] = [each for each in plan.splitlines() if "measured: " in each]
        form, implementation = kernel.split()
        assert implementation in line.split("; measured: ")[0]
        assert line.endswith(f"; measured: {choice.times()}") and choice.times()
        if form in ("matmul", "winograd") and "dense" in name:
            assert " as matmul by " in line


def test_the_first_kernel_is_the_one_that_runs_without_a_choice():
    for body in (dense(), conv(), conv(channels=64, size=56)):
        [step] = steps_of(body)
        plan = plan_with(body, [])
        assert f"by {step.kernels[0].split()[1]}" in plan.replace("winograd:", "")
        assert "measured" not in plan


def test_each_tile_of_a_window_is_a_kernel():
    [step] = steps_of(BODIES["conv of a volume"]())
    tiles = [kernel.split(":")[1] for kernel in step.kernels if kernel.startswith("winograd")]
    assert sorted(tiles) == ["1x4x4", "2x4x4"]


def test_equal_steps_are_one_whatever_their_weights():
    texts = {steps_of(dense(seed=seed))[0].text for seed in (1, 2)}
    assert len(texts) == 1
    both = dense() + dense(seed=2, data=var(24, 32, name="y"))
    assert len(steps_of(both)) == 2, "one of them has the sum"
    twice = relay.Tuple([dense(), dense(seed=2, data=var(24, 32, name="y"))])
    assert len(steps_of(twice)) == 1


def test_work_is_that_of_all_equal_steps():
    (one,) = steps_of(dense())
    assert one.work == 24 * 48 * 32
    (both,) = steps_of(relay.Tuple([dense(), dense(seed=2, data=var(24, 32, name="y"))]))
    assert both.work == 2 * one.work
    (window,) = steps_of(conv())
    assert window.work == 32 * 14 * 14 * 32 * 3 * 3


def test_only_the_step_that_was_measured_runs_by_its_kernel():
    body = nn.dense(nn.relu(dense(units=32)), constant(3, 16, 32))
    first = next(step for step in steps_of(body) if "relu" in step.label)
    kernel = next(name for name in first.kernels if name.startswith("matmul"))
    assert plan_with(body, [chosen(first, kernel)]).count(" as matmul by ") == 1


@pytest.mark.parametrize("winograd", ["always", "never"])
def test_a_target_that_decides_leaves_no_choice(winograd):
    mod = hand_placed(function_of(conv()))
    part = mod["dnnl_part"].with_attr(TARGET_OPTIONS, json.dumps({"winograd": winograd}))
    assert steps_of_part(part) == [] and steps_of(conv()) != []


def test_what_the_library_does_not_have_is_left_to_onednn():
    [step] = steps_of(dense())
    choice = dataclasses.replace(chosen(step, step.kernels[0]), kernel="matmul from:elsewhere")
    assert " as matmul by " in plan_with(dense(), [choice])


def test_a_form_that_is_none_is_refused():
    [step] = steps_of(dense())
    description = json.loads(step.text)
    description["nodes"][0]["strings"] = {"kernel": "spell of:words"}
    arrays = [tvm.nd.array(np.zeros((48, 32), "float32"))]
    create = tvm.get_global_func("collage.onednn.create")
    with pytest.raises(ValueError, match=r"kernel: unknown form 'spell'"):
        create("part", json.dumps(description), arrays)


def test_a_worker_times_all_kernels_of_a_step():
    [step] = steps_of(nn.relu(dense()))
    found = time_kernels("dnnl", step.text, list(step.kernels), trial_timing(1 << 20, 0.01))
    assert found["failed"] == {} and set(found["samples"]) == set(step.kernels)
    assert all(min(samples) > 0 for samples in found["samples"].values())
    with pytest.raises(KeyError):
        get_backend("dnnl").kernel_runs("{}", step.kernels[0], 0)


def test_a_kernel_finds_none_of_what_the_one_before_it_wrote():
    """They share their outputs, and what one leaves out must not be right by another's numbers."""
    [step] = steps_of(nn.relu(dense()))
    for kernel in step.kernels:
        runs = get_backend("dnnl").kernel_runs(step.text, kernel, 0)
        result = runs.arrays[-1]
        assert (result.numpy().view("uint8") == 0x55).all()
        runs.open()()
        assert (result.numpy() < 1e6).all()


def test_what_was_chosen_is_deployed_and_replayed_without_measuring(tmp_path):
    """Parts of a plan, its placement's file and a library's file all run the kernel chosen."""

    def choose_matmul(steps):
        [step] = steps
        return chosen(step, next(name for name in step.kernels if name.startswith("matmul")))

    library = deployed_by_placement(lambda: nn.relu(dense()), choose_matmul, tmp_path)
    assert " as matmul by " in plan_of(library) and "measured: " in plan_of(library)
