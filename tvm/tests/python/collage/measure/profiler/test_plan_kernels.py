# SPDX-License-Identifier: Apache-2.0
"""Which operators are in which kernel is recorded while a plan is built."""

import profile_nets
import pytest
from onednn_nets import constant, typed, var
from tvm import relay
from tvm.relay.collage.compile import host_target
from tvm.relay.collage.compile.library import build_library
from tvm.relay.collage.measure.profiler.plan_kernels import calls_with_work, recorded_kernels
from tvm.relay.collage.relay_util.node_spans import node_of, stamp_nodes
from tvm.relay.collage.relay_util.walk import operator_calls


def recorded(plan):
    with recorded_kernels(plan) as kernels:
        build_library(plan, host_target())
    return kernels


def test_kernels_of_tvm_name_what_they_compute():
    stamped = stamp_nodes(profile_nets.conv_net())
    names = {node_of(call): call.op.name for call in operator_calls(stamped["main"])}
    kernels = recorded(stamped)
    assert {kernel.backend for kernel in kernels} == {"tvm"}
    found = [[node for node in kernel.nodes if node is not None] for kernel in kernels]
    assert ["nn.conv2d", "nn.relu"] in [[names[node] for node in nodes] for nodes in found]
    # Only what TVM makes anew is lost: the bias as a sum of another shape.
    lost = set(names) - {node for nodes in found for node in nodes}
    assert [names[node] for node in lost] == ["nn.bias_add"]


@pytest.mark.parametrize("net", profile_nets.NETS)
def test_a_part_has_the_nodes_of_its_calls(net):
    plan = profile_nets.plan_of(profile_nets.NETS[net](), "dnnl")
    function = profile_nets.part_of(plan)
    [kernel] = [kernel for kernel in recorded(plan) if kernel.backend == "dnnl"]
    assert kernel.symbol == str(function.attrs["global_symbol"])
    assert kernel.nodes == [node_of(call) for call in operator_calls(function)]
    assert None not in kernel.nodes


def test_equal_kernels_are_told_apart():
    """TVM compiles one for both, whose own record has the first one's operators alone."""
    x = var("x", 4, 8)
    out = x
    for seed in (1, 2):
        out = relay.nn.softmax(relay.nn.dense(out, constant(seed, 8, 8)))
    kernels = recorded(stamp_nodes(typed(out)))
    nodes = [node for kernel in kernels for node in kernel.nodes if node is not None]
    assert len(nodes) == len(set(nodes)) == 4


def test_nothing_is_known_of_a_plan_with_control_flow():
    x = var("x", 2)
    chosen = relay.If(relay.const(True), relay.exp(x), relay.tanh(x))
    with recorded_kernels(stamp_nodes(typed(chosen))) as kernels:
        relay.build(typed(relay.exp(x)), "llvm")
    assert kernels and not any(node for kernel in kernels for node in kernel.nodes)


def test_work_and_operands_of_calls():
    mod = profile_nets.attention()
    calls = calls_with_work(mod)
    nodes = [node_of(call) for call in operator_calls(stamp_nodes(mod)["main"])]
    assert sorted(call.node for call in calls) == sorted(nodes)
    assert all(call.work > 0 for call in calls)
    inside = {call.node for call in calls}
    assert all(
        set(call.inputs) <= inside and max(call.inputs, default=-1) < call.node for call in calls
    )


def test_fields_of_tuples_are_read_through():
    x = var("x", 2, 8)
    halves = relay.split(relay.exp(x), 2, axis=1)
    body = relay.concatenate([relay.tanh(halves[0]), halves[1]], axis=1)
    mod = typed(body)
    names = {node_of(call): call.op.name for call in operator_calls(stamp_nodes(mod)["main"])}
    read = {
        names[call.node]: [names[node] for node in call.inputs] for call in calls_with_work(mod)
    }
    assert read == {
        "exp": [],
        "split": ["exp"],
        "tanh": ["split"],
        "concatenate": ["tanh", "split"],
    }
