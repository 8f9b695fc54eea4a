# SPDX-License-Identifier: Apache-2.0
"""Kernels of steps are measured once, and where they may decide something alone."""

import contextlib
from types import SimpleNamespace

import pytest
from tvm.relay.collage.costs.cost import PartCost
from tvm.relay.collage.costs.kernel import KernelChoice, TriedKernel
from tvm.relay.collage.estimators.profiles import Profiles
from tvm.relay.collage.options import CollageOptions
from tvm.relay.collage.plans import part_kernels
from tvm.relay.collage.plans.part_kernels import PartKernels
from tvm.relay.collage.plans.request import Phases

TRIED = tuple(TriedKernel(name, PartCost("measured", 1.0, "")) for name in ("usual", "other"))
OTHER, USUAL = (
    KernelChoice("dnnl", 16 * digit, "a step", (1,), kernel, TRIED)
    for digit, kernel in (("a", "other"), ("b", "usual"))
)


@pytest.fixture
def asked(monkeypatch):
    """The parts whose kernels were measured, by call."""
    calls = []

    def choose(session, parts, on_step, **limits):
        calls.append(parts)
        return (OTHER, USUAL)

    monkeypatch.setattr(part_kernels, "choose_kernels", choose)
    return calls


def kernels_of(*names, run_seconds=None):
    plans = SimpleNamespace(parts_with_kernels=lambda: ["all parts"], kernels=())
    request = SimpleNamespace(
        clock=Phases(),
        limit=None,
        options=CollageOptions(progress="quiet"),
        plans=plans,
        targets=SimpleNamespace(
            external=[SimpleNamespace(kind=SimpleNamespace(name=name)) for name in names]
        ),
    )
    estimator = SimpleNamespace(hidden=contextlib.nullcontext, require=lambda modules: None)
    made = PartKernels(request, SimpleNamespace(estimator=estimator), run_seconds)
    made.plans = plans
    return made


def profiles(**seconds):
    return Profiles({name: {1: each} for name, each in seconds.items()}, {}, rival_seconds=1.0)


def test_they_are_measured_when_a_candidate_that_has_such_steps_is_first_asked_for(asked):
    kernels = kernels_of("dnnl", "cblas")
    assert kernels.of_candidates("cblas") == () and asked == []
    for _ in range(2):
        [choice] = kernels.of_candidates("dnnl")
        assert (choice.kernel, choice.tried) == ("other", ()), "what changes nothing is left out"
    assert asked == [["all parts"]]
    kernels.settle(profiles(dnnl=9.0))
    assert kernels.chosen() == (OTHER, USUAL) and len(asked) == 1
    assert kernels.plans.kernels == (OTHER, USUAL), "plans that are added have them from then on"


@pytest.mark.parametrize(
    "given, is_measured",
    [
        (profiles(dnnl=1.0), True),
        (profiles(dnnl=1.4, openvino=1.0), True),
        (profiles(dnnl=1.5, openvino=1.0), False),
        (profiles(openvino=1.0), True),
        (None, True),
    ],
)
def test_where_nobody_asked_they_are_measured_for_a_backend_that_may_win(asked, given, is_measured):
    """One without a profile may."""
    kernels = kernels_of("dnnl", "openvino")
    kernels.settle(given)
    assert (kernels.plans.kernels, len(asked)) == (
        (OTHER, USUAL) if is_measured else (),
        is_measured,
    )


def test_without_a_backend_that_has_such_steps_nothing_is_measured(asked):
    kernels_of("openvino").settle(profiles(openvino=1.0))
    assert asked == []


@pytest.mark.parametrize(
    "run_seconds, seconds", [(0.0, 6.0), (2e-3, 6.2), (0.125, 18.5), (None, float("inf"))]
)
def test_foreseen_searches_have_a_limit_of_their_own(monkeypatch, run_seconds, seconds):
    given = []
    monkeypatch.setattr(
        part_kernels, "choose_kernels", lambda *_, seconds, **__: given.append(seconds) or ()
    )
    kernels_of("dnnl", run_seconds=run_seconds).chosen()
    assert given == [seconds]
