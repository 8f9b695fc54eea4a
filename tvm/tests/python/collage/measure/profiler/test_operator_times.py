# SPDX-License-Identifier: Apache-2.0
"""Operators' times of whole plans, from libraries as they are measured; no time is asserted."""

import functools
import json

import profile_nets
import pytest
import tvm
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.compile import build_library, host_target
from tvm.relay.collage.compile.compiled_parts import CompiledParts
from tvm.relay.collage.costs.shares import KernelTime
from tvm.relay.collage.measure.profiler.operator_times import (
    OperatorTimes,
    kernel_times,
    profile_operators,
)


def profiled(arguments):
    """The times as they come out of a worker, through JSON."""
    arguments = json.loads(json.dumps(arguments))
    return OperatorTimes.from_reply(json.loads(json.dumps(profile_operators(**arguments))))


@pytest.mark.parametrize("net", profile_nets.NETS)
@pytest.mark.parametrize("backend", ["", "dnnl", "onnxruntime", "openvino"])
def test_each_operator_has_its_time(net, backend, tmp_path):
    if backend and (reason := get_backend(backend).available()):
        pytest.skip(reason)
    arguments = profile_nets.built(profile_nets.NETS[net](), tmp_path / "net.so", backend)
    times = profiled(arguments)
    assert (times.reason, times.closed) == ("", {})
    calls = {call["node"] for call in arguments["plan"]["calls"]}
    in_kernels = {n for each in arguments["plan"]["kernels"] for n in each["nodes"]} - {None}
    assert set(times.seconds) == in_kernels <= calls
    if backend:
        assert in_kernels == calls
    # A net of microseconds may take no longer than steps that run nothing, beside other work.
    assert min(times.seconds.values()) >= 0 and times.whole >= 0


@pytest.mark.parametrize("backend", ["", "dnnl"])
def test_small_plans_of_tvm_alone_are_timed_on_one_thread_too(backend, tmp_path):
    net = next(iter(profile_nets.NETS.values()))
    arguments = profile_nets.built(net(), tmp_path / "net.so", backend)
    before = tvm.runtime.num_threads()
    times = profiled({**arguments, "is_small": True})
    assert times.reason == ""
    assert (times.on_one_thread is None) == bool(backend)
    assert times.on_one_thread is None or times.on_one_thread > 0
    assert tvm.runtime.num_threads() == before
    assert profiled(arguments).on_one_thread is None


def test_a_library_of_another_name_is_profiled(tmp_path):
    named = functools.partial(build_library, target=host_target(), mod_name="mine")
    net = next(iter(profile_nets.NETS.values()))
    arguments = profile_nets.built(net(), tmp_path / "net.so", build=named)
    assert "module_name" in profiled(arguments).reason
    arguments["build"]["mod_name"] = "mine"
    assert profiled(arguments).reason == ""


@pytest.mark.parametrize("net", profile_nets.NETS)
def test_libraries_of_kept_parts_are_profiled_as_well(net, tmp_path):
    """Of several parts beside TVM's kernels, each time as if it were built by itself."""
    compiled = CompiledParts(host_target())
    mod = profile_nets.NETS[net]()
    for file in ("one.so", "two.so"):
        arguments = profile_nets.built(
            mod, tmp_path / file, "dnnl", most_calls=1, build=compiled.build
        )
        times = profiled(arguments)
        assert (times.reason, times.closed) == ("", {})
        assert set(times.seconds) == {call["node"] for call in arguments["plan"]["calls"]}
    assert compiled.counts["part"].reused


@pytest.mark.parametrize(
    "steps, nodes, times",
    [
        ([("call_1", 2), ("call_0", 1)], [7, 9], [((9,), 2), ((7,), 1)]),
        # What names none belongs to the next, and behind the last one to nobody.
        ([("reorder", 1), ("call_0", 2), ("", 4)], [7], [((7,), 3)]),
        # As whole words, in whatever a library makes of a name.
        ([("value_3.call_1_nchwc", 1)], [7, 9], [((9,), 1)]),
        ([("fused value_0.call_0/bias value_2.call_1", 1)], [7, 9], [((7, 9), 1)]),
        ([("recall_1", 1), ("call_10", 1)], [7, 9], []),
        # A call that was made without a node is none.
        ([("call_1", 1), ("call_0", 2)], [7, None], [((7,), 3)]),
        ([], [7], []),
    ],
)
def test_names_of_steps(steps, nodes, times):
    assert kernel_times(steps, nodes) == [KernelTime(*each) for each in times]


def test_what_does_not_fit_is_a_reason(tmp_path):
    arguments = profile_nets.built(profile_nets.conv_net(), tmp_path / "net.so", "dnnl")
    plan = arguments["plan"]
    for wrong in (
        {"plan": {**plan, "kernels": plan["kernels"] * 2}},
        {"plan": {**plan, "kernels": [{**plan["kernels"][0], "symbol": "", "backend": "tvm"}]}},
        {"plan": {**plan, "calls": []}},
        {"library": str(tmp_path / "nowhere.so")},
        {"build": {"inputs": [], "device": "nothing"}},
    ):
        times = profiled({**arguments, **wrong})
        assert times.reason and not times.seconds


def test_a_part_that_does_not_tell_is_shared_by_work(tmp_path):
    """Whoever it is of: here a backend that is not there."""
    arguments = profile_nets.built(profile_nets.conv_net(), tmp_path / "net.so", "dnnl")
    kernel = arguments["plan"]["kernels"][0]
    hidden = {**kernel, "nodes": [None, *kernel["nodes"][1:]]}
    arguments["plan"]["kernels"] = [{**hidden, "backend": "nobody"}]
    times = profiled(arguments)
    assert "nobody" in times.closed[kernel["symbol"]]
    assert set(times.seconds) == set(hidden["nodes"]) - {None}
