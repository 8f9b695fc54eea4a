# SPDX-License-Identifier: Apache-2.0
"""Patterns and pattern rules added to a backend that is known already."""

import logging

import pytest
import tvm
from relay_text import HOST, parse, partition, undo_partition
from tvm.relay.collage import (
    Backend,
    UnknownBackendError,
    add_pattern_rule,
    add_patterns,
    backends,
    candidates,
    register_backend,
    rules,
)
from tvm.relay.collage.backends.registry import REGISTERED
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.contrib.register import get_pattern_table
from tvm.target import Target

NAME = "extended_test"
RELU = is_op("nn.relu")(wildcard())
TANH = is_op("tanh")(wildcard())
CHAIN = "def @main(%x: $T) -> $T { exp(tanh(nn.relu(%x))) }"
DIAMOND = """def @main(%x: $T) -> $T {
  %0 = nn.relu(%x); %1 = tanh(%0); %2 = exp(%0); add(%1, %2) }"""


class Extended(Backend):
    name = NAME
    local_predicates = True

    def patterns(self):
        return [(f"{NAME}.relu", RELU)]


@pytest.fixture
def backend():
    yield register_backend(Extended())
    REGISTERED.pop(NAME)


def found(text):
    """The ops of the backend's candidates, those of equal nodes once."""
    return sorted(
        {
            "+".join(candidate.sub_graph.graph[k].op for k in sorted(candidate.sub_graph.inside))
            for candidate in candidates(parse(text), [Target(HOST), Target(NAME)])
            if candidate.backend == NAME
        }
    )


def test_added_patterns_are_the_backends_own(backend):
    assert add_patterns(NAME, [(f"{NAME}.tanh", TANH)]) is backend
    assert found(CHAIN) == ["nn.relu", "tanh"]
    assert [row[0] for row in get_pattern_table(NAME)] == [f"{NAME}.relu", f"{NAME}.tanh"]
    greedy = backends.greedy_partition(parse(CHAIN), NAME)
    assert f'Composite="{NAME}.tanh"' in str(greedy)


def test_added_predicates_are_asked_for_each_match(backend):
    asked = []

    def predicate(expr):
        asked.append(expr)
        return len(asked) == 1 or "only the first"

    add_patterns(NAME, [(f"{NAME}.tanh", TANH, predicate)])
    text = "def @main(%x: $T) -> $T { tanh(exp(tanh(exp(%x)))) }"
    assert found(text) == ["tanh"] and len(asked) == 2
    assert Extended.local_predicates and not backend.local_predicates


def test_a_backend_that_comes_with_collage_takes_patterns_too():
    dnnl = backends.get_backend("dnnl")
    was = dnnl.local_predicates
    try:
        add_patterns("dnnl", [("dnnl.my_cosh", is_op("cosh")(wildcard()))])
        assert dnnl.all_patterns()[-1][0] == "dnnl.my_cosh"
        assert dnnl.local_predicates == was  # there is no predicate that could look elsewhere
    finally:
        dnnl.added_patterns = ()
        backends.register_backend(dnnl)
    assert all(row[0] != "dnnl.my_cosh" for row in get_pattern_table("dnnl"))


def test_a_new_registration_starts_without_what_was_added(backend):
    add_patterns(NAME, [(f"{NAME}.tanh", TANH)])
    add_pattern_rule(NAME, lambda call: True)
    register_backend(Extended())
    assert found(CHAIN) == ["nn.relu"]


@pytest.mark.parametrize(
    "entries, error, message",
    [
        ([("tanh", TANH)], ValueError, f"composite name 'tanh' must begin with '{NAME}.'"),
        ([(f"{NAME}.tanh", "tanh")], TypeError, "the pattern of a pattern entry is a DFPattern"),
        ((f"{NAME}.tanh", TANH), TypeError, "a pattern entry is a tuple, got str"),
        (TANH, TypeError, "add_patterns takes a list of entries, got CallPattern"),
        ({"tanh": TANH}, TypeError, "add_patterns takes a list of entries, got dict"),
    ],
)
def test_bad_entries_add_nothing(backend, entries, error, message):
    with pytest.raises(error, match=message) as caught:
        add_patterns(NAME, entries)
    assert f"backend {NAME}: " in str(caught.value)
    assert len(backend.all_patterns()) == 1


def test_unknown_backends_are_named():
    with pytest.raises(UnknownBackendError, match="unknown backend 'nobody'; known: .*dnnl"):
        add_patterns("nobody", [])
    with pytest.raises(UnknownBackendError, match="unknown backend 'nobody'; known: .*dnnl"):
        add_pattern_rule("nobody", lambda call: True)


ELEMENTWISE = {"nn.relu", "tanh", "exp", "add"}


def is_elementwise(call):
    return call.op.name in ELEMENTWISE


def test_without_a_fusion_rule_each_operator_stands_alone(backend):
    add_pattern_rule(NAME, lambda call: call.op.name == "exp")
    assert found(CHAIN) == ["exp", "nn.relu"]


def test_the_backend_alone_takes_what_rules_describe(backend):
    add_pattern_rule(NAME, lambda call: call.op.name == "exp", name="alone")
    greedy = backends.greedy_partition(parse(CHAIN), NAME)
    assert f'Composite="{NAME}.alone"' in str(greedy)


def test_a_fusion_rule_joins_neighbours(backend):
    add_pattern_rule(
        NAME,
        is_elementwise,
        lambda upstream, downstream: (upstream.op.name, downstream.op.name) != ("nn.relu", "tanh"),
        name="elementwise",
    )
    assert found(CHAIN) == ["exp", "nn.relu", "tanh", "tanh+exp"]
    result = partition(parse(CHAIN), [Target(NAME)], {HOST: 100, NAME: 1})
    assert f'Composite="{NAME}.elementwise"' in str(result)
    tvm.ir.assert_structural_equal(undo_partition(result), parse(CHAIN), map_free_vars=True)


def test_sets_have_one_exit_and_no_value_that_is_used_outside_too(backend):
    add_pattern_rule(NAME, is_elementwise, lambda upstream, downstream: True)
    assert found(DIAMOND) == [
        "add", "exp", "exp+add", "nn.relu", "nn.relu+tanh+exp+add", "tanh", "tanh+add",
        "tanh+exp+add",
    ]  # fmt: skip


def test_verify_has_the_last_word(backend):
    def verify(sub_graph):
        return len(sub_graph) == 2 or "two, no more and no fewer"

    add_pattern_rule(NAME, is_elementwise, lambda upstream, downstream: True, verify)
    assert found(CHAIN) == ["nn.relu", "nn.relu+tanh", "tanh+exp"]


def test_what_the_functions_raise_means_no(backend, caplog):
    def fusion_rule(upstream, downstream):
        raise KeyError(upstream.op.name)

    def op_rule(call):
        if call.op.name == "exp":
            raise ValueError("no exp, please")
        return True

    add_pattern_rule(NAME, op_rule, fusion_rule)
    with caplog.at_level(logging.INFO, "tvm.relay.collage"):
        assert found(CHAIN) == ["nn.relu", "tanh"]
    assert "no exp, please" in caplog.text and "KeyError" in caplog.text


def test_limits_cut_and_say_so(backend, caplog):
    add_pattern_rule(NAME, is_elementwise, lambda upstream, downstream: True)
    with tvm.transform.PassContext(config={"relay.collage.byoc_max_depth": 2}):
        assert "nn.relu+tanh+exp" not in found(CHAIN) and "tanh+exp" in found(CHAIN)
    with tvm.transform.PassContext(config={"relay.collage.max_candidates_per_node": 2}):
        assert "nn.relu+tanh+exp" not in found(CHAIN)
    assert "more than 2 sets end at" in caplog.text


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ((None,), TypeError, "op_rule is a function of a call, got NoneType"),
        ((is_elementwise, "fuse"), TypeError, "fusion_rule is a function, got str"),
        ((is_elementwise, None, True), TypeError, "verify is a function, got bool"),
    ],
)
def test_bad_rules_are_named(backend, arguments, error, message):
    with pytest.raises(error, match=f"backend {NAME}: rule PatternRule: {message}"):
        add_pattern_rule(NAME, *arguments)
    with pytest.raises(ValueError, match=f"backend {NAME}: the name of a pattern rule is a text"):
        add_pattern_rule(NAME, is_elementwise, name="")
    assert not backend.added_rules


def test_a_pattern_rule_is_a_rule_like_any_other():
    rule = rules.Primitive(rules.PatternRule("mine", is_elementwise))
    assert "Custom(mine" in rule.summary()
