# SPDX-License-Identifier: Apache-2.0
"""Measured == deployed: the kernels of a network are those that its parts were measured with, but
for what is listed here and in docs/measuring.md."""

import dataclasses
import functools

import numpy as np
import own_code_backends
import pytest
import tvm
from kernel_nets import CPU, NETS
from tree import ROOT
from tvm.relay import collage
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.measure.profiler.compiled_kernels import CompiledKernel, kernels_of
from tvm.relay.collage.plans.placement import measured_deployed
from tvm.relay.collage.plans.placement.measured_deployed import CAUSES, UNEXPLAINED, match_kernels

DOCS = ROOT / "docs" / "measuring.md"
# Equal calls and, by cause, how many kernels of the network stand for how many of the parts alone.
EXPECTED = {
    "convolutions": (9, {"border": [(0, 1), (0, 1)]}),
    "attention": (5, {"fusion": [(6, 6)]}),
    "bottlenecks": (11, {"border": [(0, 1)], "fusion": [(1, 2)]}),
    "followers": (3, {"layout": [(1, 1)], "border": [(0, 1), (1, 0)]}),
}
placed = functools.cache(lambda name: NETS[name]())


def compare(name, **options):
    mod, placement = placed(name)
    with tvm.transform.PassContext(opt_level=3):
        return collage.compare_kernels(mod, placement, host=CPU, **options)


@pytest.mark.parametrize(
    "name, own_weights",
    [*((name, False) for name in NETS), ("attention", True), ("followers", True)],
)
def test_kernels_differ_as_listed_only(name, own_weights):
    found = compare(name, own_weights=own_weights)
    assert any(kernel.backend == "collage.onednn" for kernel, _ in found.same)
    assert not found.unexplained()
    pairs = {cause: [] for cause in found.counts()}
    for item in found.differences:
        assert all(kernel.backend == "tvm" for kernel in (*item.network, *item.alone))
        pairs[item.cause].append((len(item.network), len(item.alone)))
    pairs = {cause: sorted(counts) for cause, counts in pairs.items()}
    assert (len(found.same), pairs) == EXPECTED[name]


def test_the_page_has_each_cause():
    text = DOCS.read_text()
    for cause in CAUSES:
        assert f"| {cause} |" in text


@pytest.mark.parametrize("backend", ["in_c_test", "in_python_test"])
def test_weights_of_own_code_are_seen(backend):
    """TVM's const loader has them, where other backends' parts hold their own."""
    found = []
    for value in (1, 2):
        mod = own_code_backends.net(np.full((3, 4), value, "float32"))
        library = build_library(collage.backends.greedy_partition(mod, backend), CPU)
        found += [each for each in kernels_of(library) if each.backend != "tvm"]
    one, other = found
    assert one.weights == other.weights == ("float32[3,4]",)
    assert one.code == other.code and one.values != other.values


def test_another_build_of_the_parts_is_found_out(monkeypatch):
    """The comparison can fail: parts built at another level have other kernels."""
    monkeypatch.setattr(measured_deployed, "build_options", lambda: {"opt_level": 0})
    assert compare("followers").unexplained()


def test_a_placement_of_another_module_is_refused():
    with pytest.raises(
        collage.PlacementError, match=r"is float32\[16, 32\], and the placement is for"
    ):
        collage.compare_kernels(placed("attention")[0], placed("followers")[1], host=CPU)


def kernel(ops, *types, **changes):
    """A kernel of TVM's with these types, the result last; its code follows from both."""
    types = (*types[:-1], "->", types[-1])
    fields = {"backend": "tvm", "code": f"{ops}{types}", "weights": (), "values": ""}
    return CompiledKernel(0, "k", ops=tuple(ops.split()), types=types, **{**fields, **changes})


A, B, BLOCKED = "float32[1,8,4]", "float32[2,8]", "float32[1,1,4,8]"


@pytest.mark.parametrize(
    "network, alone, causes",
    [
        ([kernel("exp", A, A)], [kernel("exp", A, A)], {}),
        ([kernel("exp", BLOCKED, BLOCKED)], [kernel("exp", A, A)], {"layout": 1}),
        ([kernel("exp", B, B)], [kernel("exp", A, A)], {UNEXPLAINED: 1}),
        ([], [kernel("layout_transform", A, BLOCKED)], {"border": 1}),
        ([kernel("exp layout_transform", A, BLOCKED)], [kernel("exp", A, A)], None),
        ([kernel("exp", A, B, A)], [kernel("exp", A, A)], {"tuple": 1}),
        ([kernel("reshape", A, A, B)], [], {"tuple": 1}),
        ([kernel("reshape", A, B)], [], {UNEXPLAINED: 1}),
        ([kernel("exp tanh", A, A)], [kernel("exp", A, A), kernel("tanh", A, A)], {"fusion": 1}),
        (
            [kernel("multiply rsqrt", A, A, A)],
            [kernel("sqrt", A, A), kernel("divide", A, A, A)],
            {"fusion": 1},
        ),
        ([kernel("exp", A, A)], [], {UNEXPLAINED: 1}),
        ([kernel("exp", A, A)], [kernel("exp", A, A, code="x")], {UNEXPLAINED: 1}),
        ([kernel("exp", A, A)], [kernel("exp", A, A, weights=(B,))], {UNEXPLAINED: 1}),
        ([kernel("", A, A, backend="x")], [kernel("", A, A, backend="y")], {UNEXPLAINED: 1}),
    ],
)
def test_causes(network, alone, causes):
    found = match_kernels(network, alone)
    assert found.counts() == ({"fused transform": 1} if causes is None else causes)
    assert len(found.same) + sum(len(d.network) for d in found.differences) == len(network)
    assert len(found.same) + sum(len(d.alone) for d in found.differences) == len(alone)


def test_values_are_compared_when_asked_for():
    one = kernel("exp", A, A, weights=(B,), values="1")
    other = dataclasses.replace(one, values="2")
    assert not match_kernels([one], [other]).differences
    assert match_kernels([one], [other], compare_values=True).counts() == {UNEXPLAINED: 1}


def test_calls_of_one_kernel_are_counted():
    one = kernel("exp", A, A)
    found = match_kernels([one, one], [one, one, one])
    assert (len(found.same), found.counts()) == (2, {UNEXPLAINED: 1})


def test_summaries():
    found = match_kernels([kernel("exp", BLOCKED, BLOCKED)], [kernel("exp", A, A)])
    assert found.Summary() == "0 kernels as measured, 1 layout"
    assert "layout: in the network tvm" in found.differences[0].Summary()
