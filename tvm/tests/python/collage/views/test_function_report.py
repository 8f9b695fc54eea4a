# SPDX-License-Identifier: Apache-2.0
"""What the pass sends of a function's graph: nodes, every cost that was asked for, refusals."""

import pytest
import tvm
from relay_text import make_backend, parse, partition
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import MockCostEstimator
from tvm.relay.collage.views.function_report import FunctionGraph
from tvm.relay.dataflow_pattern import is_op, wildcard

NAME = "function_report_test"
TEXT = "def @main(%x: $T) { clip(nn.relu(exp(%x)), a_min=0f, a_max=6f) }"


@pytest.fixture(scope="module")
def target():
    table = [
        (f"{NAME}.relu", is_op("nn.relu")(wildcard())),
        (f"{NAME}.exp", is_op("exp")(wildcard()), lambda expr: "its axis is 3, not 1"),
    ]
    return make_backend(NAME, table)


def graph_of(mod, target, costs=None):
    estimator = MockCostEstimator(costs or {"llvm": 1, NAME: 10})
    partition(mod, [target], estimator)
    return next(row.graph for row in estimator.reports if row.function == "main")


def test_nodes_are_those_that_placements_count(target):
    mod = parse(TEXT)
    graph = graph_of(mod, target)
    seen = collage.dataflow_graph(mod["main"])
    assert [node.op for node in graph.nodes] == ["", "exp", "nn.relu", "clip"]
    assert all(seen[node.index].op == node.op for node in graph.nodes if node.op)
    x, exp, relu, clip = graph.nodes
    assert (x.kind, x.name, x.type, x.inputs, x.is_kernel) == (
        "var",
        "x",
        "float32[2, 4]",
        (),
        False,
    )
    assert (exp.inputs, relu.inputs, clip.inputs) == ((x.index,), (exp.index,), (relu.index,))
    assert clip.attrs == {"a_max": 6.0, "a_min": 0.0} and clip.is_result and not relu.is_result


def test_every_cost_that_was_asked_for_and_every_refusal_is_there(target):
    graph = graph_of(parse(TEXT), target)
    _, exp, relu, clip = (node.index for node in graph.nodes)
    assert [backend.name for backend in graph.backends] == ["llvm", NAME, "host"]
    ours = [row for row in graph.costed if row.backend == NAME]
    assert [(row.nodes, row.cost.status, row.cost.seconds) for row in ours] == [
        ((relu,), "measured", 10.0)
    ]
    tvms = {row.nodes for row in graph.costed if row.backend == "llvm"}
    assert {(exp,), (relu,), (clip,), (exp, relu, clip)} <= tvms
    [refusal] = graph.refusals
    assert (refusal.backend, refusal.rule, refusal.nodes) == (NAME, f"{NAME}.exp", (exp,))
    assert refusal.reason == "its axis is 3, not 1"


def test_an_attribute_that_json_has_no_number_for_is_a_text(target):
    x = relay.var("x", shape=(2, 4))
    clip = relay.clip(x, -float("inf"), float("inf"))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.relu(clip)))
    attrs = graph_of(mod, target).nodes[1].attrs
    assert attrs == {"a_max": "inf", "a_min": "-inf"}


def test_a_node_is_called_what_the_models_file_calls_it(target):
    span = relay.Span(relay.SourceName("conv1/Relu"), 0, 0, 0, 0)
    x = relay.var("x", shape=(2, 4))
    call = relay.Call(relay.op.get("nn.relu"), [x], None, [], span)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], call)))
    assert [node.name for node in graph_of(mod, target).nodes] == ["x", "conv1/Relu"]


def test_a_node_is_slower_elsewhere_by_the_costs_of_a_candidate(target):
    graph = graph_of(parse(TEXT), target)
    relu = next(node.index for node in graph.nodes if node.op == "nn.relu")
    [reason] = [r for r in graph.reasons if r.backend == NAME and relu in r.nodes]
    assert graph.costed[reason.candidate].nodes == (relu,)
    assert (reason.why, reason.instead_seconds) == ("no_better_plan", None)


def test_a_function_that_was_left_alone_has_no_graph(target):
    mod = parse("def @main(%x: $T) { nn.relu(%x) }\ndef @other(%x: $T, Primitive=1) { exp(%x) }")
    estimator = MockCostEstimator({"llvm": 1, NAME: 10})
    partition(mod, [target], estimator)
    [other] = [row for row in estimator.reports if row.function == "other"]
    assert other.skipped and other.graph == FunctionGraph()
