# SPDX-License-Identifier: Apache-2.0
"""Layouts of a region's convolutions: each computes the same, is kept and replayed."""

import json
import math

import numpy as np
import pytest
import tvm
from kernel_choices import chosen, deployed_by_placement, plan_with, trial_timing
from onednn_nets import constant, function_of, hand_placed, plan_of, random_inputs, reference
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.costs.kernel import choices_of, for_candidates, of_others, part_with_kernels
from tvm.relay.collage.estimators.kernel_choice import choose_kernels
from tvm.relay.collage.estimators.session import open_session
from tvm.relay.collage.exec.pool import Job
from tvm.relay.collage.measure.measured import MeasuredCostEstimator
from tvm.relay.collage.measure.profiler.kernel_trials import steps_of_part, time_kernels

nn = relay.nn
LAYOUTS = ("any", "blocked", "channels last")
CONVS = {3: nn.conv1d, 4: nn.conv2d, 5: nn.conv3d}


def conv(data, channels, window=1, groups=1, strides=1, seed=1):
    shape = [int(extent) for extent in relay.transform.InferTypeLocal(data).shape]
    spatial = len(shape) - 2
    weight = constant(seed, channels, shape[1] // groups, *[window] * spatial)
    scaled = relay.const(weight.data.numpy() / math.sqrt(math.prod(weight.data.shape[1:])))
    attrs = dict(kernel_size=(window,) * spatial, padding=(window // 2,) * (2 * spatial))
    more = dict(channels=channels, groups=groups, strides=(strides,) * spatial)
    return CONVS[len(shape)](data, scaled, **attrs, **more)


def block(groups=2, spatial=2, channels=32, width=32):
    """A grouped window between two of one point, with a sum, as in ResNeXt."""
    data = relay.var("x", shape=(1, channels, *[10] * spatial))
    body = nn.relu(conv(data, width))
    body = nn.relu(conv(body, width, window=3, groups=groups, seed=2))
    return nn.relu(conv(body, channels, seed=3) + data)


def gated():
    """A mean of the image, and its function as a factor of the image, as in RegNetY."""
    image = nn.relu(conv(relay.var("x", shape=(1, 3, 16, 16)), 24, window=3, strides=2))
    gate = nn.global_avg_pool2d(image)
    gate = relay.sigmoid(conv(nn.relu(conv(gate, 6, seed=2)), 24, seed=3))
    return conv(image * gate, 20, seed=4)


def joined():
    """Pools and a concatenation of parts of unlike channels, some fewer than a block."""
    image = relay.var("x", shape=(2, 16, 12, 12))
    parts = [
        conv(image, 12),
        conv(image, 5, window=3, seed=2),
        nn.max_pool2d(image, (3, 3), padding=1),
    ]
    both = nn.relu(relay.concatenate(parts, axis=1))
    return nn.avg_pool2d(relay.sigmoid(conv(both, 33, seed=3)), (2, 2), strides=(2, 2))


BODIES = {
    "groups of 16": block,
    "groups of 4": lambda: block(groups=8),
    "depthwise": lambda: block(groups=48, width=48),
    "lines": lambda: block(spatial=1),
    "volumes": lambda: block(groups=1, spatial=3),
    "gated": gated,
    "joined": joined,
}


def part_of(body):
    return hand_placed(function_of(body))["dnnl_part"]


def layout_step(body):
    [step] = [step for step in steps_of_part(part_of(body)) if step.kernels == LAYOUTS]
    return step


def wanted_of(body):
    function = function_of(body)
    return reference(function, random_inputs(function))


@pytest.mark.parametrize("name", BODIES)
def test_each_layout_computes_the_same(name):
    body = BODIES[name]()
    step, wanted, plans = layout_step(body), wanted_of(body), {}
    for layout in LAYOUTS:
        choice = chosen(step, layout)
        plans[layout] = plan_with(body, [choice], wanted)
        assert plans[layout].count(f"{step.label}: {choice.times()}") == 1
        convs = [line for line in plans[layout].splitlines() if line.startswith("conv ")]
        assert convs and not any("(reference code)" in line for line in convs)
    assert " in blocks of " in plans["blocked"] and " in blocks" not in plans["any"]
    assert " with channels last" in plans["channels last"]


def test_a_layout_for_all_spares_the_reorders_between():
    """In blocks none is left but those of the inputs and outputs, which are plain."""
    plan = plan_with(block(), [chosen(layout_step(block()), "blocked")])
    steps = [line.split()[0] for line in plan.splitlines() if " by " in line]
    first, last = steps.index("conv"), len(steps) - steps[::-1].index("conv")
    assert steps[first:last] == ["conv"] * 3


def test_one_convolution_has_nobody_to_agree_with():
    alone = part_of(nn.relu(conv(relay.var("x", shape=(1, 16, 8, 8)), 32)))
    assert all(step.kernels != LAYOUTS for step in steps_of_part(alone))


def test_a_choice_is_of_the_whole_part_alone():
    """A part of fewer convolutions is another one, and has no word of it in its function."""
    choice = chosen(layout_step(block()), "blocked")
    assert choices_of(part_of(block()), [choice]) == [choice]
    assert for_candidates([choice])[0].kernel == "blocked"
    other = block(channels=64)
    assert layout_step(other).key != choice.step
    assert " in blocks" not in plan_with(other, [choice])


def test_smaller_parts_take_over_the_layouts_that_were_chosen():
    """A part of a mix runs as the same steps do in the backend's own plan, a lone convolution
    as oneDNN prefers: nobody else is there to agree with."""
    steps = steps_of_part(part_of(block()))
    choices = [
        chosen(step, "blocked" if step.kernels == LAYOUTS else step.kernels[0]) for step in steps
    ]
    [others] = of_others(steps, choices)
    assert (others.kernel, others.sizes, others.backend) == ("blocked", (), "dnnl")
    alone = nn.relu(conv(relay.var("x", shape=(1, 32, 10, 10)), 32))
    smaller = nn.relu(conv(alone, 32, window=3, groups=2, seed=2))
    for body, is_blocked in ((smaller, True), (alone, False)):
        plan = plan_with(body, for_candidates([*choices, others]), wanted_of(body))
        assert (" in blocks of " in plan) == is_blocked


def test_a_part_that_was_timed_keeps_its_own_layouts():
    step = layout_step(block())
    [others] = of_others([step], [chosen(step, "blocked")])
    plan = plan_with(block(), [chosen(step, "channels last"), others])
    assert " with channels last" in plan and " in blocks" not in plan


def test_layouts_are_timed_by_the_kernels_that_were_chosen_for_the_steps():
    """So a trial of layouts runs what is deployed, and is another one with other kernels."""
    part = part_of(block(groups=1))
    steps = steps_of_part(part)
    [window] = [step for step in steps if any("winograd" in name for name in step.kernels)]
    [winograd] = [name for name in window.kernels if name.startswith("winograd")]
    own = chosen(window, winograd if window.kernels[0] != winograd else window.kernels[1])
    said = steps_of_part(part_with_kernels(part, [own]))
    assert [step.key for step in steps if not step.is_last] == [
        step.key for step in said if not step.is_last
    ]
    [before], [after] = ([step for step in each if step.is_last] for each in (steps, said))
    assert before.key != after.key and before.label == after.label
    assert own.kernel in after.text and "kernel" not in before.text.replace("kernel_layout", "")
    plan = plan_with(block(groups=1), [own, chosen(after, "blocked")])
    assert (" by winograd:" in plan) == own.kernel.startswith("winograd") and " in blocks" in plan
    found = time_kernels("dnnl", after.text, list(after.kernels), trial_timing(1 << 20, 0.01))
    assert found["failed"] == {} and set(found["samples"]) == set(LAYOUTS)


def test_a_layout_that_is_none_is_refused():
    description = json.loads(layout_step(block()).text)
    description["nodes"][0]["strings"]["layout"] = "sideways"
    shapes = [description["shapes"][tensor] for tensor in description["constants"]]
    arrays = [tvm.nd.array(np.zeros(shape, "float32")) for shape in shapes]
    create = tvm.get_global_func("collage.onednn.create")
    with pytest.raises(ValueError, match=r"layout: .*sideways"):
        create("part", json.dumps(description), arrays)


def test_a_worker_times_each_layout():
    step = layout_step(gated())
    found = time_kernels("dnnl", step.text, list(step.kernels), trial_timing(1 << 20, 0.01))
    assert found["failed"] == {} and set(found["samples"]) == set(LAYOUTS)


def test_what_was_chosen_is_deployed_and_replayed_without_measuring(tmp_path):
    def choose_blocked(steps):
        [step] = [step for step in steps if step.kernels == LAYOUTS]
        return chosen(step, "blocked")

    library = deployed_by_placement(gated, choose_blocked, tmp_path)
    assert " in blocks of " in plan_of(library)
    assert "layouts of 4 convolutions: any " in plan_of(library)


def test_layouts_are_measured_once_and_then_known(tmp_path, monkeypatch):
    """The second build of a model finds its part's layouts in the store."""
    part = part_of(gated())
    options = collage.CollageOptions(store=str(tmp_path / "store"), progress="quiet")
    jobs: list[Job] = []
    measure = MeasuredCostEstimator.run_measuring

    def counted(self, job):
        jobs.append(job)
        return measure(self, job)

    monkeypatch.setattr(MeasuredCostEstimator, "run_measuring", counted)
    choices = []
    for _ in range(2):
        with tvm.transform.PassContext(opt_level=3), open_session(options.session) as session:
            found = choose_kernels(session, [part])
            choices.append([c for c in found if c.label == "layouts of 4 convolutions"])
    [[first], [second]] = choices
    assert [tried.name for tried in first.tried] == list(LAYOUTS)
    assert first == second and len(jobs) == 1
