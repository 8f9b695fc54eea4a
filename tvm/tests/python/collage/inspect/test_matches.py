# SPDX-License-Identifier: Apache-2.0
"""find_matches: what a backend's author sees of a pattern."""

import pytest
from relay_text import parse
from tvm import relay
from tvm.relay import collage
from tvm.relay.dataflow_pattern import dominates, is_op, is_var, wildcard

MAIN = parse(
    "def @main(%x: $T, %y: $T) { %0 = add(%x, %y); %1 = nn.relu(%0); %2 = nn.relu(%1); tanh(%2) }"
)["main"]


def test_every_match_with_its_bindings_in_pattern_order():
    left, right = is_var("x"), wildcard()
    add = is_op("add")(left, right)
    pattern = add.optional(is_op("nn.relu"))
    matches = collage.find_matches(pattern, MAIN)
    assert [match.graph.node(match.root).op for match in matches] == ["add", "nn.relu"]
    plain, with_relu = matches
    assert plain.inside == {plain.root}
    assert with_relu.inside == {plain.root, with_relu.root}
    assert with_relu.expr().op.name == "nn.relu"
    assert with_relu.expr(left).same_as(MAIN.params[0])
    assert with_relu.expr(right).same_as(MAIN.params[1])
    assert with_relu.expr(add).same_as(plain.expr())
    assert plain.expr(pattern.right) is None, "the relu took no part"
    parts = list(with_relu.bindings)
    assert parts.index(left) < parts.index(right) < parts.index(add) < parts.index(pattern)
    assert str(with_relu) == f"match at {with_relu.graph.node(with_relu.root).Summary()} of " + (
        with_relu.inside.Summary()
    )


def test_overlapping_matches_are_all_found():
    relus = is_op("nn.relu")(is_op("nn.relu")(wildcard())) | is_op("nn.relu")(wildcard())
    first, both, second = collage.find_matches(relus, MAIN)
    assert both.inside == first.inside | second.inside
    assert first.root < both.root == second.root


def test_other_orders_and_alternatives_are_matches_of_their_own_tvms_first():
    main = parse(
        "def @main(%x: $T, %y: $T) { %0 = tanh(%x); %1 = tanh(%y); %2 = add(%0, %1); nn.relu(%2) }"
    )["main"]
    tanh = is_op("tanh")(wildcard())
    pattern = is_op("nn.relu")(is_op("add")(tanh, wildcard()))
    first, second = collage.find_matches(pattern, main)
    assert first.root == second.root
    assert [match.expr(tanh).args[0].name_hint for match in (first, second)] == ["x", "y"]
    assert first.inside - second.inside == set(first.bindings[tanh])
    assert second.inside - first.inside == set(second.bindings[tanh])
    either = is_op("nn.relu")(wildcard() | is_op("add")(wildcard(), wildcard()))
    assert [len(match.inside) for match in collage.find_matches(either, main)] == [1, 2, 2]
    # Without another operand that fits there is one match, as for calls that do not commute.
    [_] = collage.find_matches(is_op("add")(tanh, is_op("tanh")(is_var("y"))), main)


def test_a_path_of_a_dominator_stands_for_several_nodes():
    path = is_op("nn.relu")(wildcard())
    pattern = dominates(is_op("add")(wildcard(), wildcard()), path, is_op("tanh")(wildcard()))
    [match] = collage.find_matches(pattern, MAIN)
    assert [match.graph.node(node).op for node in match.bindings[path]] == ["nn.relu", "nn.relu"]
    assert len(match.inside) == 4


def test_a_graph_that_is_there_already_is_used():
    graph = collage.dataflow_graph(MAIN)
    [match] = collage.find_matches(is_op("tanh")(wildcard()), graph)
    assert match.graph.same_as(graph)


def test_what_is_no_pattern_or_no_function_is_named():
    with pytest.raises(TypeError, match="a DFPattern is wanted, got str"):
        collage.find_matches("add", MAIN)
    with pytest.raises(collage.ModuleError, match="got str"):
        collage.find_matches(wildcard(), "main")
    assert collage.find_matches(is_op("exp")(wildcard()), relay.Function([], relay.const(1))) == []
