# SPDX-License-Identifier: Apache-2.0
"""Which kernel of a step is chosen by given times, and how choices travel with parts."""

import dataclasses

import pytest
import tvm
from onednn_nets import constant, function_of, hand_placed
from tvm import relay
from tvm.relay.collage.candidate.candidate import candidate_module
from tvm.relay.collage.costs.cost import Cost
from tvm.relay.collage.costs.kernel import (
    KernelStep,
    KernelTrial,
    choose,
    for_candidates,
    kernels_in,
    of_others,
    with_kernels,
)

SIZES = frozenset({2 * 16, 32 * 16, 2 * 32})
STEP = KernelStep("dnnl", "a step", "dense", ("usual", "other", "third"), SIZES)


def timed(seconds, spread=0.01):
    return Cost("measured", seconds, seconds * (1 - spread), seconds * (1 + spread), 12)


def chosen(**costs):
    given = {"usual": timed(1.0), "other": timed(1.0), "third": timed(2.0)}
    return choose(STEP, given | costs)


FAILED = Cost.failed("unsupported", "no such kernel")


@pytest.mark.parametrize(
    "costs, kernel",
    [
        ({}, "usual"),
        ({"other": timed(0.8)}, "other"),
        ({"other": timed(0.8), "third": timed(0.5)}, "third"),
        ({"other": timed(0.98, 0.001)}, "usual"),  # less than is worth it
        ({"other": timed(0.8, 0.3)}, "usual"),  # it may be chance
        ({"other": timed(0.8, 0.3), "third": timed(0.85)}, "third"),
        ({"other": FAILED}, "usual"),
        ({"usual": FAILED}, "other"),
        ({"usual": FAILED, "other": FAILED}, "third"),
        ({"usual": FAILED, "other": FAILED, "third": FAILED}, "usual"),
    ],
)
def test_the_choice_follows_the_times(costs, kernel):
    choice = chosen(**costs)
    assert choice.kernel == kernel
    assert choice.is_usual == (kernel == "usual")
    assert [tried.name for tried in choice.tried] == list(STEP.kernels)


def test_a_choice_says_what_all_kernels_took():
    choice = chosen(other=timed(2e-3), third=FAILED)
    assert choice.times() == "usual 1 s, other 2 ms, third unsupported"
    assert choice.Summary().startswith("dnnl: dense by other (usual 1 s, ")


def test_a_step_stands_for_those_of_other_parts_where_all_agree():
    two = [dataclasses.replace(STEP, text=text, stands_for="smaller parts") for text in ("a", "b")]

    def others(*kernels):
        costs = [{n: timed(0.5 if n == k else 1.0) for n in STEP.kernels} for k in kernels]
        steps = [*two, STEP][: len(kernels)]
        return of_others(steps, [choose(*each) for each in zip(steps, costs, strict=True)])

    [found] = others("other", "other", "third")
    assert (found.kernel, found.label, found.sizes) == ("other", "smaller parts", ())
    assert found.step not in {step.key for step in two}
    assert others("other") == [dataclasses.replace(found, tried=others("other")[0].tried)]
    assert others("other", "third") == others("usual", "usual") == others("other", "usual") == []


def test_keys_are_those_of_the_text_and_of_the_kernel():
    trials = [KernelTrial(STEP, "usual"), KernelTrial(STEP, "other")]
    assert trials[0].hash == trials[1].hash == STEP.key
    assert trials[0].options_text() != trials[1].options_text()
    assert dataclasses.replace(STEP, text="another").key != STEP.key
    assert dataclasses.replace(STEP, label="another").key == STEP.key


@pytest.fixture(scope="module")
def part():
    x = relay.var("x", shape=(2, 16))
    return hand_placed(function_of(relay.nn.dense(x, constant(1, 32, 16))))


def test_parts_say_what_was_chosen_for_steps_that_they_may_have(part):
    choice = chosen(other=timed(0.5))
    said = kernels_in(with_kernels(part, [choice])["dnnl_part"])
    assert said == {STEP.key: ("other", choice.times())}
    usual = chosen(other=timed(3.0))
    said = kernels_in(with_kernels(part, [usual])["dnnl_part"])
    assert said == {STEP.key: ("", usual.times())}
    for other in (
        dataclasses.replace(choice, backend="cblas"),
        dataclasses.replace(choice, sizes=(7, *choice.sizes)),
    ):
        assert with_kernels(part, [other]) is part
    assert kernels_in(part["dnnl_part"]) == {}


def test_a_candidate_s_key_depends_on_what_runs_and_not_on_times(part):
    def key(**costs):
        choices = for_candidates([chosen(**costs)])
        return candidate_module(with_kernels(part, choices), "dnnl", "llvm").key()

    plain = candidate_module(part, "dnnl", "llvm").key()
    assert key() == key(other=timed(3.0)) == plain
    assert key(other=timed(0.5)) == key(other=timed(0.6)) != plain


def test_a_candidate_that_a_worker_builds_has_them(part):
    choices = for_candidates([chosen(other=timed(0.5))])
    candidate = candidate_module(with_kernels(part, choices), "dnnl", "llvm")
    mod = type(candidate).from_json(candidate.to_json()).instantiate()
    [function] = [f for f in mod.functions.values() if f.attrs and "Compiler" in f.attrs]
    assert kernels_in(function) == {STEP.key: ("other", "")}
    assert isinstance(mod, tvm.IRModule)
