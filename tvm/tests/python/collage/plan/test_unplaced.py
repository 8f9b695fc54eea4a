# SPDX-License-Identifier: Apache-2.0
"""Why operators stay on TVM: one test a reason, as the pass reports them with given costs."""

import pytest
from relay_text import make_backend, parse, partition
from tvm import relay
from tvm.relay.collage import CostEstimator, MockCostEstimator
from tvm.relay.collage.measure import Cost
from tvm.relay.collage.report.facts import by_region, reason_text
from tvm.relay.dataflow_pattern import is_op, wildcard

NAME = "unplaced_test"
CHEAP = {"llvm": 10, NAME: 1}
DEAR = {"llvm": 1, NAME: 10}


def refuse_small(expr):
    return "it has fewer than 9 elements"


def pattern(op, *rest):
    return (f"{NAME}.{op}", is_op(op)(wildcard()), *rest)


@pytest.fixture(scope="module")
def backend():
    table = [
        pattern("nn.relu"),
        pattern("exp", refuse_small),
        pattern("tanh", lambda expr: False),
        pattern("abs", lambda expr: 1 // 0),
        (f"{NAME}.sigmoid_relu", is_op("nn.relu")(is_op("sigmoid")(wildcard()))),
    ]
    return make_backend(NAME, table)


def reasons(text, targets, costs, **options):
    """The rows of main's report for the module of that text."""
    estimator = MockCostEstimator(costs) if isinstance(costs, dict) else costs
    partition(parse(text) if isinstance(text, str) else text, targets, estimator, **options)
    [report] = [row for row in estimator.reports if row.function == "main"]
    return report.unplaced


def test_what_is_on_the_backend_needs_no_reason(backend):
    assert not reasons("def @main(%x: $T) { nn.relu(%x) }", [backend], CHEAP)


def test_without_external_backends_there_is_nothing_to_explain():
    assert not reasons("def @main(%x: $T) { nn.relu(%x) }", [], {"llvm": 1})


def test_slower_says_by_how_much(backend):
    text = "def @main(%x: $T) { nn.relu(sort(nn.relu(%x))) }"
    slower, opaque = reasons(text, [backend], DEAR)
    assert (slower.op, slower.backend, slower.why, slower.operators) == (
        "nn.relu",
        NAME,
        "slower",
        2,
    )
    assert slower.seconds == 2.0  # in all; of each of two regions:
    assert (slower.backend_seconds, slower.instead_seconds, slower.regions) == (10.0, 1.0, 2)
    assert reason_text(slower) == (
        "slower: 10 s there, 1 s here, 10.00 x as long, each of 2 regions"
    )
    assert (opaque.op, opaque.why) == ("sort", "opaque")


def test_regions_of_other_costs_have_rows_of_their_own_and_nothing_is_summed(backend):
    """sigmoid and relu of one candidate, and a relu alone: the one region holds no other's time."""
    text = "def @main(%x: $T) { nn.relu(sort(nn.relu(sigmoid(%x)))) }"
    rows = reasons(text, [backend], {"llvm": 1, NAME: 10})
    slower = sorted(
        (r.op, r.operators, r.backend_seconds, r.regions) for r in rows if r.why == "slower"
    )
    assert slower == [("nn.relu", 1, 10.0, 1), ("nn.relu", 1, 19.0, 1), ("sigmoid", 1, 19.0, 1)]
    table = by_region(rows)
    assert sorted(row.ops for row in table) == ["nn.relu", "nn.relu, sigmoid", "sort"]


def test_a_candidate_across_a_larger_part_of_tvm_is_part_of_no_better_plan(backend):
    """TVM runs both calls as one kernel, so the one cannot be compared with it alone."""
    costs = {"llvm": 10, NAME: 18}
    text = "def @main(%x: $T) { nn.relu(sqrt(%x)) }"
    relu, sqrt = sorted(reasons(text, [backend], costs), key=lambda row: row.op)
    assert (relu.why, relu.seconds, relu.backend_seconds) == ("no_better_plan", 19.0, 0.0)
    assert (sqrt.why, sqrt.message) == ("no_pattern", "the backend has no pattern for it here")


def test_a_predicates_words_are_kept(backend):
    rows = reasons("def @main(%x: $T) { abs(tanh(exp(%x))) }", [backend], CHEAP)
    assert {row.op: (row.why, row.message, row.rule) for row in rows} == {
        "exp": ("refused", "it has fewer than 9 elements", f"{NAME}.exp"),
        "tanh": ("refused", "its predicate refused", f"{NAME}.tanh"),
        "abs": (
            "refused",
            "unsupported: its predicate raised ZeroDivisionError("
            "'integer division or modulo by zero')",
            f"{NAME}.abs",
        ),
    }


def test_a_pattern_that_matches_around_a_loop_is_refused_for_it():
    """relu(add(x, tanh(x))) without the tanh would leave and come back."""
    name = "unplaced_cycle"
    chain = is_op("add")(is_op("nn.relu")(wildcard()), wildcard())
    target = make_backend(name, [(f"{name}.chain", chain)])
    text = "def @main(%x: $T) { %0 = nn.relu(%x); add(%0, sort(%0)) }"
    rows = reasons(text, [target], {"llvm": 10, name: 1})
    assert {row.op for row in rows if row.why == "refused"} == {"add", "nn.relu"}
    assert all(row.message for row in rows)


class Failing(CostEstimator):
    """Measures TVM; the backend's candidates end as said."""

    has_transitions = False

    def __init__(self, status, message):
        super().__init__()
        self.answer = Cost.failed(status, message)

    def estimate_batch(self, mods, targets, labels):
        return [self.answer if t.kind.name == NAME else Cost.given(1.0) for t in targets]


@pytest.mark.parametrize("status", ["compile_failed", "timeout", "unsupported"])
def test_a_failed_measurement_is_the_reason(backend, status):
    text = "def @main(%x: $T) { nn.relu(%x) }"
    [row] = reasons(text, [backend], Failing(status, "what went wrong"))
    assert (row.why, row.message, row.op) == (status, "what went wrong", "nn.relu")


class OneEach(CostEstimator):
    """Each candidate takes a second, whatever it holds; labels collects those asked for."""

    has_transitions = False

    def __init__(self):
        super().__init__()
        self.asked = []

    def estimate_batch(self, mods, targets, labels):
        self.asked += labels
        return [Cost.given(1.0)] * len(mods)


NOT_ASKED = "def @main(%x: $T) { nn.relu(sqrt(sort(sqrt(%x)))) }"


def test_an_operator_that_cannot_win_is_not_measured_and_says_so(backend):
    """sqrt alone takes as long as sqrt and relu together, so that relu alone saves nothing."""
    estimator = OneEach()
    [row] = [row for row in reasons(NOT_ASKED, [backend], estimator) if row.op == "nn.relu"]
    assert f"{NAME}(nn.relu)" not in estimator.asked
    assert (row.why, row.message) == (
        "not_measured",
        "even if it took no time, no plan with it would be faster",
    )


def test_what_a_limit_of_time_cut_names_the_option(backend):
    text = "def @main(%x: $T) { nn.relu(sigmoid(%x)) }"
    rows = reasons(text, [backend], OneEach(), time_limit=1e-6)
    [row] = [row for row in rows if row.op == "sigmoid"]
    assert (row.why, row.message) == (
        "not_measured",
        "the search's time was over before (options effort, time_limit)",
    )


def test_each_backend_has_its_own_reason(backend):
    other = make_backend("unplaced_other", [("unplaced_other.exp", is_op("exp")(wildcard()))])
    costs = {**DEAR, "unplaced_other": 1}
    rows = reasons("def @main(%x: $T) { nn.relu(%x) }", [backend, other], costs)
    assert sorted((row.backend, row.why) for row in rows) == [
        ("unplaced_other", "no_pattern"),
        (NAME, "slower"),
    ]


def test_dynamic_shapes_are_told(backend):
    text = "def @main(%x: Tensor[(?, 4), float32]) { sqrt(%x) }"
    [row] = reasons(text, [backend], CHEAP)
    assert (row.why, row.message) == (
        "no_pattern",
        "the backend has no pattern for it here; its shape is dynamic",
    )


def test_a_call_of_a_kernel_is_explained_and_one_of_a_function_is_free(backend):
    text = """
    def @f(%x: $T) -> $T { nn.relu(%x) }
    def @main(%x: $T) -> $T {
      %0 = fn (%z: $T, Primitive=1) -> $T { nn.relu(%z) };
      @f(%0(%x))
    }
    """
    [row] = reasons(text, [backend], CHEAP)
    assert (row.op, row.why, row.operators) == ("call of a function", "partitioned", 1)


def test_functions_that_are_left_alone_say_why(backend):
    text = f"""
    def @theirs(%p: $T, Primitive=1, Compiler="{NAME}", global_symbol="theirs") -> $T {{
      nn.relu(%p)
    }}
    def @kernel(%p: $T, Primitive=1) -> $T {{ exp(%p) }}
    def @main(%x: $T) -> $T {{ @kernel(@theirs(%x)) }}
    """
    estimator = MockCostEstimator(CHEAP)
    partition(parse(text), [backend], estimator)
    skipped = {row.function: row.skipped for row in estimator.reports}
    assert skipped == {
        "main": "",
        "theirs": f"partitioned already: Compiler {NAME}",
        "kernel": "partitioned already: a Primitive function",
    }


def test_each_refusals_words_are_a_row_the_dearest_first():
    name, many = "unplaced_many", 130
    count = iter(range(10**6))
    table = [(f"{name}.relu", is_op("nn.relu")(wildcard()), lambda expr: f"no {next(count)}")]
    target = make_backend(name, table)
    body = x = relay.var("x", shape=(2, 4))
    for _ in range(many):
        body = relay.nn.relu(relay.sort(body))
    mod = relay.transform.InferType()(parse("def @main(%x: $T) { %x }"))
    mod["main"] = relay.Function([x], body)
    estimator = MockCostEstimator({"llvm": 1, name: 1})
    partition(mod, [target], estimator)
    [report] = estimator.reports
    rows = report.unplaced
    assert len(rows) == many + 1 and sum(row.operators for row in rows) == 2 * many
    assert [row.seconds for row in rows] == sorted((row.seconds for row in rows), reverse=True)
