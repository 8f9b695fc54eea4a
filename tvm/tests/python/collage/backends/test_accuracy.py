# SPDX-License-Identifier: Apache-2.0
"""Backends that trade accuracy take part only within a budget; fakes that add an error."""

import logging

import numpy as np
import pytest
import tvm
from first_answers import answer_first
from identity_backends import BAD_TRADER, RIGHT, TRADER
from relay_text import is_external
from sessions import shared_session
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import CollageOptions, MockCostEstimator, OptionError, optimizer
from tvm.relay.collage.backends import accuracy, get_backend, greedy_partition
from tvm.relay.collage.backends.accuracy import keeping, limits, traders_in
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.measure.outputs.tolerance import RELATIVE, tolerance_of
from tvm.relay.collage.plans import whole_plans
from tvm.relay.collage.plans.graph_search import EndToEnd, GuardUnavailable, guard
from tvm.relay.collage.relay_util.node_spans import node_of, stamp_nodes
from tvm.relay.collage.relay_util.walk import operator_calls
from tvm.target import Target


@pytest.fixture(scope="module", autouse=True)
def session():
    """One set of workers, whose costs all tests share."""
    targets = [Target(name) for name in (RIGHT, TRADER, BAD_TRADER)]
    with shared_session(options(), targets) as session:
        yield session


# Of TRADER's output: 0.01 of a largest value of about 4.
ENOUGH, TOO_SMALL = 0.01, 0.001


def identity(shape=(64, 512)):
    x = relay.var("x", shape=shape)
    return tvm.IRModule.from_expr(relay.Function([x], relay.tan(relay.atan(x))))


def options(**values):
    fast = {"measure_seconds": 0.01, "workers": 1, "guard_rounds": 6, "guard_seconds": 1.0}
    return CollageOptions(progress="quiet", **{**fast, **values})


def optimize(*external, mod=None, **values):
    return collage.optimize(mod or identity(), None, ["llvm", *external], options(**values))


def compilers(mod):
    return {str(f.attrs["Compiler"]) for f in mod.functions.values() if is_external(f)}


def failures(result):
    rows = [row for function in result.to_json()["functions"] for row in function["failures"]]
    return {row["backend"]: row for row in rows}


def test_without_a_budget_naming_such_a_backend_is_an_error_that_says_what_to_set():
    with pytest.raises(OptionError) as caught:
        optimize(RIGHT, TRADER)
    assert str(caught.value) == (
        "backend 'identity_trader' trades accuracy (it computes in bfloat16): set option "
        "relay.collage.accuracy_budget to the largest output error max|a-b|/max|b| that you "
        "accept, e.g. 0.01, or leave 'identity_trader' out of the target list"
    )


def test_the_pass_by_itself_refuses_it_too():
    config = tvm.target.make_compilation_config(
        tvm.transform.PassContext.current(), [Target("llvm"), Target(TRADER)]
    )
    run = relay.transform.CollagePartition(config, MockCostEstimator({"llvm": 9, TRADER: 1}))
    mod = relay.transform.InferType()(identity())
    with pytest.raises(OptionError, match="accuracy_budget"):
        run(mod)
    with tvm.transform.PassContext(config=CollageOptions(accuracy_budget=ENOUGH).to_config()):
        assert compilers(run(mod)) == {TRADER}


def test_without_the_guard_nobody_would_compare_the_outputs():
    with pytest.raises(OptionError, match="leave option relay.collage.guard on"):
        optimize(TRADER, accuracy_budget=ENOUGH, guard=False)


def test_within_the_budget_it_ships_and_the_error_is_in_the_report():
    result = optimize(TRADER, accuracy_budget=ENOUGH)
    assert compilers(result.mod) == {TRADER}
    error = result.guard.of(result.plan).output_error
    assert 1e-3 < error < ENOUGH, "an error that float32 would not be allowed"
    rows = {row["name"]: row for row in result.to_json()["plans"]}
    assert rows[TRADER]["output_error"] == pytest.approx(error)


def calls_of(mod):
    return [node_of(call) for call in operator_calls(mod["main"])]


def test_nodes_that_are_kept_are_for_exact_backends_alone():
    given, targets = options(accuracy_budget=ENOUGH), ["llvm", RIGHT, TRADER]
    free = collage.optimize(identity(), None, targets, given)
    kept = collage.optimize(identity(), None, targets, given, kept=calls_of)
    assert TRADER in {row.name for row in free.guard.comparisons if row.cost.is_usable}
    assert compilers(kept.mod) <= {RIGHT}
    graph = kept.partitioned[0]
    assert {part.backend for part in graph.parts} <= {RIGHT, "llvm"}


def test_keeping_ends_with_its_block():
    mod = stamp_nodes(relay.transform.InferType()(identity()))

    def takers():
        return {each.spec.name for each in collage.candidates(mod, ["llvm", TRADER])}

    with tvm.transform.PassContext(config=CollageOptions(accuracy_budget=ENOUGH).to_config()):
        with keeping(calls_of(mod)):
            assert TRADER not in takers()
        assert TRADER in takers()


def test_over_the_budget_the_plan_is_refused_by_its_name_and_the_exact_optimum_ships():
    result = optimize(RIGHT, TRADER, accuracy_budget=TOO_SMALL)
    assert compilers(result.mod) <= {RIGHT}
    cost = result.guard.of(TRADER).cost
    assert cost.status == "wrong_result"
    assert "(limit 0.001); the limit is option relay.collage.accuracy_budget" in cost.message
    assert "identity_trader computes in bfloat16" in cost.message
    assert failures(result) == {}, "the part by itself is within what bfloat16 may be off"


def test_a_part_that_its_type_does_not_excuse_is_wrong_by_itself():
    result = optimize(BAD_TRADER, accuracy_budget=0.1)
    row = failures(result)[BAD_TRADER]
    assert row["status"] == "wrong_result" and "off by 1" in row["message"]
    assert compilers(result.mod) == set()


@pytest.fixture
def mock_costs(monkeypatch):
    costs = {"llvm": 10, RIGHT: 5, TRADER: 1}
    monkeypatch.setattr(optimizer, "CostEstimator", lambda *_: MockCostEstimator(costs))


def test_plans_have_the_optimum_without_them_beside_the_optimum(mock_costs, monkeypatch):
    seen = {}

    def fake(plans, _, how, **more):
        seen.update(plans=plans, accuracy_budget=how.accuracy_budget)
        raise GuardUnavailable("no inputs")

    monkeypatch.setattr(whole_plans, "guard", fake)
    answer_first(monkeypatch)
    result = optimize(RIGHT, TRADER, accuracy_budget=ENOUGH)
    assert compilers(seen["plans"]["collage"]) == {TRADER}
    assert compilers(seen["plans"]["collage-exact"]) == {RIGHT}
    assert seen["accuracy_budget"] == ENOUGH
    assert result.plan == "tvm", "what nobody compared does not ship"
    optimize(RIGHT, accuracy_budget=ENOUGH)
    assert "collage-exact" not in seen["plans"]


def plans_of(*names):
    prepared = relay.transform.InferType()(identity())
    made = {name: greedy_partition(prepared, name) for name in names}
    return {"tvm": prepared, **made}


def test_limits_are_the_budget_for_plans_with_their_parts_alone():
    plans = plans_of(RIGHT, TRADER)
    assert traders_in(plans[TRADER]) == {TRADER: "bfloat16"} and not traders_in(plans[RIGHT])
    by_plan, remarks = limits(plans, 1e-6, 1e-4)
    assert by_plan == {"tvm": 1e-4, RIGHT: 1e-4, TRADER: 1e-6}
    assert set(remarks) == {TRADER}


class FakeLibrary:
    def export_library(self, path):
        open(path, "w").close()


def test_such_a_plan_is_nobodys_reference_and_fails_where_there_is_none():
    asked = {}

    def comparer(contestants, right, options):
        asked.update(references=right.references, rtol=right.rtol)
        dead = Cost.failed("crashed", "signal 11")
        samples = (1e-3,) * 6
        return [
            Comparison(TRADER, Cost.measured(samples), samples=samples),
            Comparison("tvm", dead),
            Comparison(RIGHT, dead),
        ]

    with pytest.raises(
        GuardUnavailable, match="no plan gave outputs to compare its own with"
    ) as caught:
        how = EndToEnd(lambda _: FakeLibrary(), accuracy_budget=ENOUGH, comparer=comparer)
        guard(plans_of(RIGHT, TRADER), "tvm", how)
    assert "accuracy_budget" in str(caught.value)
    assert asked["references"] == ["tvm", RIGHT]
    assert asked["rtol"] == {"tvm": 1e-4, RIGHT: 1e-4, TRADER: ENOUGH}


def test_the_tolerance_of_a_part_is_that_of_the_coarser_type():
    mod = relay.transform.InferType()(identity())
    assert tolerance_of(mod, "bfloat16").relative == RELATIVE["bfloat16"][0]
    assert tolerance_of(mod, "float64").relative == RELATIVE["float32"][0]
    assert tolerance_of(mod) == tolerance_of(mod, "")


def test_available_targets_leaves_them_out_unless_there_is_a_budget(caplog):
    with caplog.at_level(logging.INFO, "tvm.relay.collage"):
        names = {target.kind.name for target in collage.available_targets()}
    assert RIGHT in names and TRADER not in names
    assert "identity_trader is left out: it computes in bfloat16" in caplog.text
    assert TRADER in {t.kind.name for t in collage.available_targets(accuracy_budget=ENOUGH)}


def test_errors_of_made_up_inputs_are_told(caplog, monkeypatch):
    def told(has_samples, *names):
        caplog.clear()
        monkeypatch.setattr(accuracy, "traders_in", lambda mod: dict.fromkeys(names, "bfloat16"))
        accuracy.warn_of_made_up_inputs(None, has_samples)
        return caplog.text

    assert "errors of identity_trader are measured on random inputs" in told(False, TRADER)
    assert told(True, TRADER) == told(False) == ""


def test_openvino_in_bfloat16_is_less_exact_and_within_a_budget():
    reason = get_backend("openvino_bf16").available()
    if reason:
        pytest.skip(reason)
    draw = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 64, 28, 28))
    weights = [relay.const(draw.normal(0, 0.04, (64, 64, 3, 3)).astype("float32")) for _ in "ab"]
    body = x
    for weight in weights:
        body = relay.nn.relu(relay.nn.conv2d(body, weight, padding=1, channels=64, kernel_size=3))
    mod = tvm.IRModule.from_expr(relay.Function([x], body))
    result = optimize("openvino_bf16", mod=mod, accuracy_budget=0.02)
    alone = result.guard.of("openvino_bf16")
    assert alone.cost.is_usable and 1e-4 < alone.output_error < 0.02
