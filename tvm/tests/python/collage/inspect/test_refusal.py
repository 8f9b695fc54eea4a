# SPDX-License-Identifier: Apache-2.0
"""collage.refusals: matches that became no candidate, and who said no."""

import numpy as np
import pytest
import tvm
from relay_text import make_backend, parse
from tvm.relay import collage
from tvm.relay.collage import rules
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.target import Target

NAME = "refusals_test"
RELU = is_op("nn.relu")(wildcard())


def small(expr):
    return "it has fewer than 9 elements"


@pytest.fixture(scope="module")
def targets():
    table = [
        (f"{NAME}.relu", RELU),
        (f"{NAME}.exp", is_op("exp")(wildcard()), small),
        (f"{NAME}.exp_relu", is_op("nn.relu")(is_op("exp")(wildcard())), lambda expr: False),
        (f"{NAME}.abs", is_op("abs")(wildcard()), lambda expr: 1 // 0),
    ]
    return ["llvm", make_backend(NAME, table)]


def test_each_refusal_names_pattern_operators_and_reason(targets):
    mod = parse("def @main(%x: $T) { nn.relu(exp(abs(%x))) }")
    rows = {row.rule: row for row in collage.refusals(mod, targets)}
    assert {rule: (row.ops, row.reason) for rule, row in rows.items()} == {
        f"{NAME}.exp": (("exp",), "it has fewer than 9 elements"),
        f"{NAME}.exp_relu": (("exp", "nn.relu"), "its predicate refused"),
        f"{NAME}.abs": (
            ("abs",),
            "unsupported: its predicate raised ZeroDivisionError("
            "'integer division or modulo by zero')",
        ),
    }
    graph = collage.dataflow_graph(mod["main"])
    row = rows[f"{NAME}.exp"]
    assert row.backend == NAME and [graph[k].name for k in row.nodes] == ["exp"]
    assert row.Summary() == f"{NAME}.exp does not take exp: it has fewer than 9 elements"


def test_what_is_taken_or_never_matched_is_no_refusal(targets):
    mod = parse("def @main(%x: $T) { tanh(nn.relu(%x)) }")
    assert collage.refusals(mod, targets) == collage.refusals(mod["main"], targets) == []


def test_what_is_no_function_is_an_error(targets):
    with pytest.raises(collage.ModuleError, match="expected a relay.Function, got str"):
        collage.refusals("mod", targets)


def reason_of(rule):
    """Why that rule of a backend did not take the one relu; "" where it did."""
    kind = f"{NAME}_rule"
    tvm.get_global_func("collage.RegisterTargetKind")(kind, 1)
    rules.set_partition_rule(kind, rules.Primitive(rule))
    try:
        rows = collage.refusals(parse("def @main(%x: $T) { nn.relu(%x) }"), ["llvm", Target(kind)])
    finally:
        rules.set_partition_rule(kind, None)
    assert len(rows) <= 1
    return "".join(row.reason for row in rows)


def prototypes_entry(predicate):
    """As TVM's own prototype makes it, with the predicate as it is."""
    name = "relay.collage.MakeLabelledDFPatternPartitionRuleWithPredicate"
    return tvm.get_global_func(name)(NAME, f"{NAME}.relu", RELU, predicate)


def entry(*functions):
    row = (f"{NAME}.relu", RELU, *functions)
    return rules.make_labelled_dfpattern_partition_rule_wrapper(NAME, row)


ASKS = {
    "DFPattern": lambda f: rules.DFPattern("relu", RELU, f),
    "OpPredicate": lambda f: rules.OpPredicate("mine", f),
    "pattern table": entry,
}
ASKED = pytest.mark.parametrize("make", ASKS.values(), ids=ASKS)


@ASKED
@pytest.mark.parametrize("answer", [None, 1.5, b"no", (True,), [True], np.ones(2), object()])
def test_a_wrong_answer_of_a_predicate_is_the_reason(make, answer):
    reason = reason_of(make(lambda expr: answer))
    kind = type(answer).__name__
    assert reason.startswith(f"unsupported: its predicate gave {kind}: a predicate gives a bool")


@ASKED
def test_a_text_that_no_file_can_hold_is_a_reason_too(make):
    assert "its predicate raised UnicodeEncodeError" in reason_of(make(lambda expr: "\ud800"))


TRUE = [np.bool_(True), np.int64(3), 10**30, tvm.tir.IntImm("int32", 4) == 4]
FALSE = [np.bool_(False), np.int8(0), 0, tvm.tir.IntImm("int32", 4) == 5]


@ASKED
def test_numpys_and_tvms_truths_are_answers(make):
    assert [reason_of(make(lambda expr, it=it: it)) for it in TRUE] == [""] * len(TRUE)
    refused = ["its predicate refused"] * len(FALSE)
    assert [reason_of(make(lambda expr, it=it: it)) for it in FALSE] == refused


@ASKED
def test_a_predicate_may_compare_with_numpy(make):
    def is_large(expr):
        return np.prod([int(size) for size in expr.checked_type.shape]) > 2

    assert reason_of(make(is_large)) == ""


GETS = {
    "Composite": lambda f: rules.Composite("k.relu", rules.DFPattern("relu", RELU), f),
    "pattern table": lambda f: entry(None, f),
}


@pytest.mark.parametrize("make", GETS.values(), ids=GETS)
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (np.ones(2), "raised TypeError"),
        (object(), "raised TypeError"),
        ({"a": object()}, "raised TypeError"),
        ({"a": [object()]}, "raised TypeError"),
        ({"a": "\ud800"}, "raised UnicodeEncodeError"),
        (({"a": 1},), "gave no dict"),
        (None, "gave no dict"),
        ({1: 2}, "gave a name that is no str"),
        (tvm.runtime.convert({1: 2}), "gave a name that is no str"),
    ],
)
def test_a_wrong_answer_of_an_attrs_getter_is_the_reason(make, answer, reason):
    told = reason_of(make(lambda expr: answer))
    assert told.startswith(f"unsupported: its attrs getter {reason}")


@pytest.mark.parametrize("make", GETS.values(), ids=GETS)
def test_a_text_of_an_attrs_getter_is_the_reason(make):
    assert reason_of(make(lambda expr: "not today")) == "not today"
    assert reason_of(make(lambda expr: tvm.runtime.String("nor now"))) == "nor now"


def test_what_a_predicate_of_tvms_prototype_raises_is_the_reason():
    raised = reason_of(prototypes_entry(lambda expr: 1 // 0))
    assert raised.startswith("unsupported: its predicate raised ZeroDivisionError(")
    assert reason_of(prototypes_entry(lambda expr: "not now")) == "not now"
    assert reason_of(prototypes_entry(lambda expr: True)) == ""
    assert reason_of(prototypes_entry(None)) == ""


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_in_a_predicate_of_tvms_prototype_ends_the_pass(stop):
    def predicate(expr):
        raise stop("now")

    with pytest.raises(stop, match="now"):
        reason_of(prototypes_entry(predicate))
