# SPDX-License-Identifier: Apache-2.0
"""Rules written in Python: what they see, what they may give, what becomes of their mistakes."""

import logging

import numpy as np
import pytest
from relay_text import HOST, assert_equal, assert_same_outputs, parse, part_text, partition, rule_of
from tvm.relay.collage import dataflow_graph, rules
from tvm.relay.collage.views import DataflowGraph
from tvm.target import Target

K = "custom_test"
TEXT = "def @main(%x: $T) -> $T { exp(tanh(nn.relu(%x))) }"


def taken(find, text=TEXT, wrap=rules.Primitive):
    with rule_of(K, wrap(rules.Custom("mine", find))):
        return partition(parse(text), [Target(K)], {HOST: 100, K: 1})


def index_of(graph, op):
    return next(node.index for node in graph if node.op == op)


def test_it_sees_the_graph_and_may_give_sets_of_nodes():
    seen = []

    def find(graph):
        seen.append(graph)
        return [{index_of(graph, "nn.relu"), index_of(graph, "tanh")}]

    result = taken(find)
    assert_equal(
        result,
        part_text(K, "nn_relu_tanh", "tanh(nn.relu(%p))")
        + f"def @main(%x: $T) -> $T {{ exp(@collage_{K}_nn_relu_tanh(%x)) }}",
    )
    [graph] = seen
    assert isinstance(graph, DataflowGraph) and len(graph.placeable) == 3


def test_it_may_give_sub_graphs_with_composites():
    def find(graph):
        relu, tanh = index_of(graph, "nn.relu"), index_of(graph, "tanh")
        yield graph.sub_graph([relu, tanh], composites={"k.relu": [relu]})

    assert_equal(
        taken(find),
        part_text(
            *(K, "nn_relu_tanh"),
            '%0 = fn (%q: $T, Composite="k.relu") -> $T { nn.relu(%q) }; tanh(%0(%p))',
        )
        + f"def @main(%x: $T) -> $T {{ exp(@collage_{K}_nn_relu_tanh(%x)) }}",
    )


def test_it_is_a_rule_like_any_other():
    def wrap(rule):
        return rules.Primitive(rules.Combine(rule, [rules.JoinAnything()]))

    result = taken(lambda graph: [[i] for i in graph.placeable], wrap=wrap)
    assert f"collage_{K}_nn_relu_tanh_exp" in [v.name_hint for v in result.get_global_vars()]


def test_what_it_raises_is_a_refusal_that_names_rule_and_backend(caplog):
    def find(graph):
        yield [index_of(graph, "tanh")]
        raise KeyError("no such node")

    with caplog.at_level(logging.WARNING):
        assert_equal(taken(find), TEXT)
    [message] = [record.getMessage() for record in caplog.records if "mine" in record.getMessage()]
    assert message == (
        f"rule mine of backend {K} gives no candidates: it raised KeyError('no such node')"
    )


def test_what_can_be_no_part_is_refused():
    # exp is not between relu and itself: the set is not convex.
    def find(graph):
        return [{index_of(graph, "nn.relu"), index_of(graph, "exp")}]

    assert_equal(taken(find), TEXT)


def test_composites_that_cannot_run_one_after_the_other_are_refused():
    text = """def @main(%x: $T) -> $T {
      %0 = nn.relu(%x); %1 = tanh(%x); %2 = exp(%0); %3 = abs(%1); add(add(%2, %1), %3)
    }"""

    def composites(graph, *parts):
        labelled = [(f"k.{k}", [index_of(graph, op) for op in ops]) for k, ops in enumerate(parts)]
        return [graph.sub_graph(graph.placeable, composites=labelled)]

    result = taken(lambda graph: composites(graph, ["nn.relu", "exp"], ["tanh", "abs"]), text)
    assert [v.name_hint for v in result.get_global_vars()] != ["main"]
    # Each of the two is convex and waits for the other.
    assert_equal(taken(lambda g: composites(g, ["nn.relu", "abs"], ["tanh", "exp"]), text), text)
    assert_equal(taken(lambda g: composites(g, ["nn.relu", "add"]), text), text)


@pytest.mark.parametrize(
    "text, ops",
    [
        ("def @main(%x: $T, %c: bool) -> $T { if (%c) { tanh(%x) } else { exp(%x) } }", 2),
        ("def @main(%x: $T) -> $T { let %y = tanh(%x); exp(%y) }", 2),
        ("def @main(%x: $T) -> $T { let %f = fn(%y: $T) -> $T { tanh(%y) }; %f(%x) }", 1),
    ],
    ids=["if", "let", "function"],
)
def test_control_flow_and_functions_are_no_parts(text, ops):
    module = parse(text)
    result = taken(lambda graph: [[index] for index in graph.placeable], text)
    assert len(result.get_global_vars()) == 1 + ops  # the calls inside are parts
    assert_same_outputs(module, result)


def test_numpys_integers_are_nodes():
    result = taken(lambda graph: [[np.int64(index_of(graph, "tanh"))]])
    assert f"collage_{K}_tanh" in [v.name_hint for v in result.get_global_vars()]


@pytest.mark.parametrize(
    "given, error, message",
    [
        (None, TypeError, "gave None: give a list of candidates, empty for none"),
        ("tanh", TypeError, "gave 'tanh': give a list of candidates, empty for none"),
        ([[2.0]], TypeError, "gave 2.0 as a node: nodes are ints"),
        ([[np.bool_(True)]], TypeError, "as a node: nodes are ints"),
        ([5], TypeError, "gave 5: a candidate is a set of ints or a SubGraph"),
        (["tanh"], TypeError, "gave 'tanh': a candidate is a set of ints or a SubGraph"),
        ([["tanh"]], TypeError, "gave 'tanh' as a node: nodes are ints"),
        ([[True]], TypeError, "gave True as a node: nodes are ints"),
        ([[99]], ValueError, "node 99 is not in the graph of"),
        ([[0]], ValueError, "cannot be placed: a sub-graph holds calls"),
        (
            [dataflow_graph(parse("def @main(%x: $T) { nn.relu(%x) }")["main"]).sub_graph([2])],
            ValueError,
            "gave a sub-graph of another graph than it was asked for",
        ),
    ],
)
def test_what_it_gives_wrongly_is_an_error_that_names_rule_and_backend(given, error, message):
    with pytest.raises(error) as caught:
        taken(lambda graph: given)
    assert f"rule mine of backend {K}" in str(caught.value) and message in str(caught.value)
