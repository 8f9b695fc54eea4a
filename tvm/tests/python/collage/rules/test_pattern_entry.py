# SPDX-License-Identifier: Apache-2.0
"""Pattern tables as rules: entries, predicates, how a backend's patterns join, what is refused."""

import logging

import pytest
import tvm
from relay_text import HOST, assert_equal, composite_text, make_backend, parse, part_text, partition
from tvm.relay.collage import (
    Backend,
    MockCostEstimator,
    UnknownBackendError,
    register_backend,
    rules,
)
from tvm.relay.dataflow_pattern import FunctionPattern, IfPattern, is_let, is_op, wildcard
from tvm.target import Target

RELU = is_op("nn.relu")(wildcard())
ADD_RELU = is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))
summary = tvm.get_global_func("collage.rules.Summary")
_count = 0


def fresh_name():
    global _count
    _count += 1
    return f"rules_test_{_count}"


def fresh_backend(rows):
    """A target of a new kind, and its name; its table has these rows."""
    name = fresh_name()
    return make_backend(name, [(f"{name}.{row[0]}", *row[1:]) for row in rows]), name


def parts(text, rows, style=None, costs=None):
    """Names of the parts that a backend with that table gets, without their common beginning."""
    backend, name = fresh_backend(rows)
    options = {"byoc_fusion_style": [f"{name}.{style}"]} if style else {}
    result = partition(parse(text), [backend], costs or {"llvm": 100, name: 1}, **options)
    prefix = f"collage_{name}_"
    names = [var.name_hint for var in result.get_global_vars()]
    return sorted(var.removeprefix(prefix) for var in names if var.startswith(prefix))


def chosen(text, backend, **options):
    """Calls of each candidate that the search chose for the cheap backend, before neighbours are
    joined into one part."""
    name = backend.kind.name
    estimator = MockCostEstimator({"llvm": 100, name: 1})
    partition(parse(text), [backend], estimator, **options)
    [report] = estimator.reports
    labels = (part.label for part in report.parts if part.backend == name)
    return sorted(label.removeprefix(f"{name}(").removesuffix(")") for label in labels)


SINGLE = "def @main(%x: $T, %y: $T) { tanh(nn.relu(add(%x, %y))) }"


@pytest.mark.parametrize(
    "answer, expected",
    [
        (True, ["nn_relu"]),
        (False, []),
        ("", ["nn_relu"]),
        ("too small for this backend", []),
        (None, []),
    ],
)
def test_a_predicate_answers_with_a_bool_or_a_reason(answer, expected):
    assert parts(SINGLE, [("relu", RELU, lambda expr: answer)]) == expected


def test_a_predicate_gets_the_matched_expression():
    seen = []

    def predicate(expr):
        seen.append(expr)
        return True

    assert parts(SINGLE, [("add_relu", ADD_RELU, predicate)]) == ["add_nn_relu"]
    [call] = seen
    assert call.op.name == "nn.relu" and call.args[0].op.name == "add"
    assert call.checked_type.concrete_shape == (2, 4)


def test_a_predicate_that_raises_refuses_and_nothing_more(capfd):
    def predicate(expr):
        raise KeyError("no such attribute")

    assert parts(SINGLE, [("relu", RELU, predicate), ("add_relu", ADD_RELU)]) == ["add_nn_relu"]


def test_entries_have_two_to_four_fields():
    relu = ("relu", RELU)
    for row in (relu, (*relu, lambda expr: True), (*relu, None), (*relu, None, lambda expr: {})):
        assert parts(SINGLE, [row]) == ["nn_relu"], len(row)
    # As the registration of a backend does (backends/test_registry.py), so does a table of TVM's.
    for row, error, words in (
        ((*relu, None, None, None), ValueError, "has 2 to 4 fields, got 5: .*use .name, pattern"),
        (
            ("relu", "nn.relu"),
            TypeError,
            "backend .*: the pattern of a pattern entry is a DFPattern",
        ),
        ((*relu, 5), TypeError, "the predicate of a pattern entry is a function"),
        ((*relu, None, {}), TypeError, "attrs getter of a pattern entry is a function, got dict"),
    ):
        with pytest.raises(error, match=words):
            parts(SINGLE, [row])


def test_a_backend_without_patterns_is_unknown():
    name = fresh_name()
    tvm.get_global_func("collage.RegisterTargetKind")(name, 1)
    with pytest.raises(UnknownBackendError) as caught:
        partition(parse(SINGLE), [Target(name)], {"llvm": 1, name: 1})
    assert str(caught.value) == (
        f"backend '{name}' has no patterns: register it with collage.register_backend(...), "
        "or a table with register_pattern_table"
    )


# How patterns of one backend join: relu, exp and relu in a row, beside tanh which is TVM's.
ROW = [("relu", RELU), ("exp", is_op("exp")(wildcard()))]
CHAIN = "def @main(%x: $T) { tanh(nn.relu(exp(nn.relu(%x)))) }"
POOL = [("pool", is_op("nn.max_pool2d")(wildcard())), ("relu", RELU)]
POOL_TEXT = """def @main(%x: Tensor[(1, 3, 8, 8), float32]) {
  nn.relu(nn.max_pool2d(nn.relu(%x), pool_size=[2, 2]))
}"""


@pytest.mark.parametrize(
    "style, chain, pool",
    [
        ("NoFusion", ["exp", "nn.relu", "nn.relu"], ["nn.max_pool2d", "nn.relu", "nn.relu"]),
        ("TVMFusion", ["nn.relu, exp, nn.relu"], ["nn.max_pool2d, nn.relu", "nn.relu"]),
        ("ArbitraryFusion", ["nn.relu, exp, nn.relu"], ["nn.relu, nn.max_pool2d, nn.relu"]),
        (None, ["nn.relu, exp, nn.relu"], ["nn.relu, nn.max_pool2d, nn.relu"]),
    ],
)
def test_fusion_styles(style, chain, pool):
    for text, rows, expected in ((CHAIN, ROW, chain), (POOL_TEXT, POOL, pool)):
        backend, name = fresh_backend(rows)
        styles = [f"{name}.{style}"] if style else []
        assert chosen(text, backend, byoc_fusion_style=styles) == expected


def test_a_style_of_another_backend_changes_nothing():
    backend, name = fresh_backend([("relu", RELU)])
    text = "def @main(%x: $T) { nn.relu(nn.relu(%x)) }"
    costs = {"llvm": 100, name: 1}
    options = {"byoc_fusion_style": ["other.NoFusion", f"{name}x.NoFusion"]}
    assert len(partition(parse(text), [backend], costs, **options).functions) == 2


def test_an_unknown_style_says_which_there_are():
    with pytest.raises(ValueError) as caught:
        parts(CHAIN, ROW, "Fancy")
    assert "a style of NoFusion, TVMFusion, ArbitraryFusion, got" in str(caught.value)
    assert ".Fancy" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("depth, expected", [(1, 3), (2, 2), (3, 1)])
def test_byoc_max_depth_limits_a_part(depth, expected):
    backend, name = fresh_backend([("relu", RELU)])
    text = "def @main(%x: $T) { nn.relu(nn.relu(nn.relu(%x))) }"
    assert len(chosen(text, backend, byoc_max_depth=depth)) == expected


@pytest.mark.parametrize(
    "pattern, text",
    [
        (
            IfPattern(wildcard(), wildcard(), wildcard()),
            "def @main(%x: $T, %c: bool) -> $T { nn.relu(if (%c) { tanh(%x) } else { exp(%x) }) }",
        ),
        (
            is_let(wildcard(), wildcard(), wildcard()),
            "def @main(%x: $T) -> $T { nn.relu((let %unread = tanh(%x); exp(%x))) }",
        ),
        (
            FunctionPattern([wildcard()], wildcard()),
            "def @main(%x: $T) -> $T { let %f = fn(%y: $T) -> $T { nn.relu(%y) }; %f(%x) }",
        ),
    ],
    ids=["if", "let", "function"],
)
def test_a_pattern_of_control_flow_or_a_function_is_refused_and_the_others_hold(pattern, text):
    assert parts(text, [("flow", pattern), ("relu", RELU)], "ArbitraryFusion") == ["nn_relu"]


def test_neighbours_of_a_backend_with_a_pattern_table_alone_are_joined_after_the_search():
    backend, name = fresh_backend([("relu", RELU)])
    text = "def @main(%x: $T) { nn.relu(nn.relu(tanh(nn.relu(%x)))) }"
    result = partition(parse(text), [backend], {"llvm": 100, name: 1}, byoc_max_depth=1)
    names = sorted(var.name_hint for var in result.get_global_vars())
    # What was joined is named after the backend alone.
    assert names == [f"collage_{name}", f"collage_{name}_nn_relu", "main"]


def test_neighbours_of_a_registered_backend_are_joined_only_when_asked():
    class Apart(Backend):
        name = "apart_test"

        def patterns(self):
            return [("apart_test.relu", RELU)]

    register_backend(Apart())
    text = "def @main(%x: $T) { nn.relu(nn.relu(%x)) }"
    costs = {"llvm": 100, Apart.name: 1}
    for options, expected in (({}, 2), ({"merge_parts": True}, 1)):
        result = partition(parse(text), [Target(Apart.name)], costs, **options)
        assert len(result.functions) - 1 == expected


def test_a_rule_of_ones_own_says_whether_neighbours_are_joined():
    class Own(Backend):
        name = "own_joining_test"
        joins = False

        def patterns(self):
            return []

        def partition_rule(self, options):
            relus = rules.Composite("own.relu", rules.DFPattern("relu", RELU))
            return rules.Primitive(rules.Joinable(relus) if self.joins else relus)

    backend = Own()
    register_backend(backend)
    text = "def @main(%x: $T) { nn.relu(nn.relu(%x)) }"
    for backend.joins, expected in ((False, 2), (True, 1)):
        result = partition(parse(text), [Target(Own.name)], {"llvm": 100, Own.name: 1})
        assert len(result.functions) - 1 == expected


def test_tvm_max_depth_limits_what_tvm_is_thought_to_fuse():
    backend, name = fresh_backend([("relu", RELU)])
    text = "def @main(%x: $T) -> $T { nn.relu(nn.relu(nn.relu(%x))) }"
    costs = {"llvm": 100, name: 99}
    options = {"byoc_fusion_style": [f"{name}.NoFusion"]}
    fused = partition(parse(text), [backend], costs, tvm_max_depth=3, **options)
    assert_equal(fused, text)
    single = MockCostEstimator(costs)
    partition(parse(text), [backend], single, tvm_max_depth=1, **options)
    assert [part.backend for part in single.reports[0].parts] == [name] * 3


def test_limits_that_cut_are_reported(caplog):
    backend, name = fresh_backend([("relu", RELU)])
    text = "def @main(%x: $T) { nn.relu(nn.relu(nn.relu(%x))) }"
    estimator = MockCostEstimator({"llvm": 100, name: 1})
    with caplog.at_level(logging.WARNING):
        partition(parse(text), [backend], estimator, byoc_max_depth=1)
    [report] = estimator.reports
    assert any("max_depth" in line for line in report.cuts)


def test_rules_have_a_summary():
    _, name = fresh_backend([("relu", RELU)])
    rule = rules.make_byoc_partition_rule(name)
    assert "Primitive(" in summary(rule) and f"{name}.relu" in summary(rule)
    entry = rules.make_labelled_dfpattern_partition_rule_wrapper(name, ("relu", ADD_RELU))
    assert summary(entry) == "Composite(relu, DFPattern(nn.relu(add(*, *))))"


def test_stocks_constructors_give_our_rules():
    stock = tvm.get_global_func("relay.collage.MakeLabelledDFPatternPartitionRule")
    entry = stock("rules_test", "relu", RELU)
    rule = tvm.get_global_func("relay.collage.MakePatternBYOCPartitionRule")("rules_test", [entry])
    assert "Primitive(" in summary(rule)


def test_a_predicate_is_asked_inside_the_pass_only_with_its_own_function():
    text = """
    def @helper(%x: $T) -> $T { tanh(nn.relu(%x)) }
    def @main(%x: $T) -> $T { exp(nn.relu(@helper(%x))) }
    """
    inputs = []

    def predicate(call):
        inputs.append(type(call.args[0]))
        return True

    assert len(parts(text, [("relu", RELU, predicate)])) == 2
    assert sorted(kind.__name__ for kind in inputs) == ["Call", "Var"]


class _TakesBareCalls(Backend):
    """Takes relu in a pattern, and sigmoid (of rank 2 alone) as a bare call."""

    name = "bare_test"

    def __init__(self):
        self.op_predicates = {"sigmoid": lambda call: len(call.checked_type.shape) == 2}

    def patterns(self):
        return [("bare_test.relu", is_op("nn.relu")(wildcard()))]


def test_calls_that_a_backend_takes_outside_patterns_are_candidates():
    register_backend(_TakesBareCalls())
    costs = {HOST: 10, "bare_test": 1}
    taken = partition(
        parse("def @main(%x: $T) -> $T { tanh(sigmoid(nn.relu(%x))) }"),
        [Target("bare_test")],
        costs,
    )
    assert_equal(
        taken,
        part_text("bare_test", "nn_relu", composite_text("bare_test.relu", "nn.relu(%q)"))
        + part_text("bare_test", "sigmoid", "sigmoid(%p)")
        + """def @main(%x: $T) -> $T {
          tanh(@collage_bare_test_sigmoid(@collage_bare_test_nn_relu(%x)))
        }""",
    )
    refused = partition(
        parse("def @main(%x: Tensor[(2, 3, 4), float32]) { sigmoid(%x) }"),
        [Target("bare_test")],
        costs,
    )
    assert [var.name_hint for var in refused.get_global_vars()] == ["main"]


class _RefusesBareCalls(Backend):
    """Gives a reason for no, or raises, when it is asked for bare calls."""

    name = "bare_reason_test"

    def __init__(self):
        self.op_predicates = {
            "sigmoid": lambda call: "not on a Monday",
            "tanh": lambda call: 1 // 0,
        }


def test_what_a_backend_says_of_bare_calls_is_the_reason_in_reports():
    register_backend(_RefusesBareCalls())
    estimator = MockCostEstimator({HOST: 10, "bare_reason_test": 1})
    mod = parse("def @main(%x: $T) -> $T { tanh(sigmoid(%x)) }")
    partition(mod, [Target("bare_reason_test")], estimator)
    [report] = estimator.reports
    told = " ".join(map(str, report.unplaced))
    assert "not on a Monday" in told and "its predicate raised ZeroDivisionError" in told
    # TVM's passes are told yes or no, nothing else.
    call = mod["main"].body
    assert call.op.get_attr("target.bare_reason_test")(call) is False
