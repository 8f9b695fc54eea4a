# SPDX-License-Identifier: Apache-2.0
"""Each call knows its node, and keeps it where plans are made."""

import profile_nets
import pytest
import tvm
from onednn_nets import typed, var
from tvm import relay
from tvm.relay.collage.plans.placement.replay import describe_functions
from tvm.relay.collage.relay_util.node_spans import node_of, stamp_nodes
from tvm.relay.collage.relay_util.walk import operator_calls

Span, SourceName = tvm.ir.base.Span, tvm.ir.base.SourceName


def nodes_in(where):
    return {node_of(call): call.op.name for call in operator_calls(where)}


@pytest.mark.parametrize("net", profile_nets.NETS)
def test_nodes_are_those_of_the_pass(net):
    mod = profile_nets.NETS[net]()
    stamped = stamp_nodes(mod)
    assert tvm.ir.structural_equal(mod, stamped)
    assert stamped["main"].checked_type == mod["main"].checked_type
    [function] = describe_functions(stamped)
    calls = {k: node for k, node in enumerate(function.nodes) if "(" in node.text}
    assert nodes_in(stamped["main"]) == {k: n.text.partition("(")[0] for k, n in calls.items()}
    assert not any(node is not None for node in nodes_in(mod["main"]))


@pytest.mark.parametrize("net", profile_nets.NETS)
def test_plans_keep_nodes(net):
    stamped = stamp_nodes(profile_nets.NETS[net]())
    plan = profile_nets.plan_of(profile_nets.NETS[net](), "dnnl")
    assert nodes_in(plan) == nodes_in(stamped)


def test_of_several_nodes_the_last_counts():
    first, last = (Span(SourceName("net"), 0, line, 0, -23) for line in (3, 5))
    other = Span(SourceName("model"), 7, 7, 0, 0)
    x = var("x", 2)

    def node(span):
        return node_of(relay.expr.CallWithFields(relay.exp(x), None, None, None, None, None, span))

    assert node(first) == 3
    assert node(other) is None and node_of(relay.exp(x)) is None
    assert node(tvm.ir.base.SequentialSpan([first, last])) == 5
    assert node(tvm.ir.base.SequentialSpan([first, other])) == 3


def test_a_function_that_is_a_backends_already_is_left_alone():
    mod = typed(relay.exp(var("x", 2)))
    mod["main"] = mod["main"].with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    assert stamp_nodes(mod) is mod


def test_a_stamped_module_is_printed_and_calls_keep_their_names():
    """TVM's printer dies of spans of several."""
    span = Span(SourceName("layer"), 4, 4, 7, 7)
    x = var("x", 2)
    named = relay.expr.CallWithFields(relay.exp(x), None, None, None, None, None, span)
    stamped = stamp_nodes(typed(relay.tanh(named)))
    assert "span=layer:4:7" in str(stamped)
    first, second = operator_calls(stamped["main"])
    assert (first.span.source_name.name, first.span.line, first.span.column) == ("layer", 4, 7)
    assert second.span.source_name.name == ""
    assert None not in (node_of(first), node_of(second))
