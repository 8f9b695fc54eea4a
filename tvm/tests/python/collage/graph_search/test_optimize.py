# SPDX-License-Identifier: Apache-2.0
"""A search of whole plans from options to the guard: a small net, dnnl and TVM, four trials."""

import types

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import CollageOptions, whole_plans
from tvm.relay.collage.costs.kernel import KernelChoice
from tvm.relay.collage.job import Job, Phases
from tvm.relay.collage.plans import Plans
from tvm.relay.collage.progress import steps_untold
from tvm.relay.collage.targets import parse_targets
from tvm.relay.collage.tuning import TuningRecords
from tvm.relay.collage.whole_plans import end_to_end, known_plans


def net():
    x = relay.var("x", shape=(1, 4, 8, 8))
    values = np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype("float32")
    conv = lambda data: relay.nn.conv2d(data, relay.const(values), padding=(1, 1))  # noqa: E731
    y = relay.nn.relu(conv(relay.cos(relay.nn.relu(conv(x)))))
    return tvm.IRModule.from_expr(relay.Function([x], y))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return str(tmp_path_factory.mktemp("store") / "costs.sqlite")


def search(store, mod=None):
    options = CollageOptions(
        graph_search="evolutionary",
        graph_search_trials=4,
        graph_search_population=2,
        guard_rounds=6,
        guard_seconds=0.1,
        measure_seconds=0.01,
        measure_kernels=False,
        store=store,
        progress="quiet",
    )
    return collage.optimize(mod or net(), None, ["llvm", "dnnl"], options)


def replay(placement):
    return collage.optimize(net(), None, ["llvm", "dnnl"], placement=placement)


@pytest.fixture(scope="module")
def result(store):
    return search(store)


def test_plans_are_tried_and_the_best_join_the_guard(result):
    found = result.to_json()["graph_search"]
    assert found["strategy"] == "evolutionary" and found["genes"] >= 2
    assert len(found["trials"]) == 4
    assert {row["status"] for row in found["trials"]} == {"measured"}
    assert found["trials"][0]["seconds"] == found["op_level_seconds"] > 0
    assert not any(row["is_stored"] for row in found["trials"])
    # What is tvm's or dnnl's plan as well, or the op-level one, is in the guard by that name.
    names = {row["name"] for row in result.to_json()["plans"]}
    assert names >= {"tvm", "dnnl", "collage"}
    searched = {"collage-merged", "graph-1", "graph-2", "graph-3"}
    assert names <= {"tvm", "dnnl", "collage"} | searched
    guarded = [replay(result.placements.placement(name)).mod for name in names]
    names_of = {trial.key: trial.name for trial in result.search.trials}
    for key in list(result.search.best)[:3]:
        tried = replay(result.placements.placement(names_of[key])).mod
        assert any(tvm.ir.structural_equal(tried, each) for each in guarded)
    assert "graph search" in result.seconds


def test_what_was_tried_is_told(result, capsys):
    result.show(details=True)
    assert "Whole plans searched: evolutionary" in capsys.readouterr().out


def test_a_second_search_takes_all_from_the_store(result, store, monkeypatch):
    is_open = {}

    def opened(name, *_, **how):
        is_open[name] = how.get("is_open", False)
        return steps_untold()

    monkeypatch.setattr(whole_plans, "steps", opened)
    again = search(store)
    assert is_open == {"graph search": True, "guard": True}, "nobody knows when either ends"
    trials = again.search.trials
    assert [trial.is_stored for trial in trials] == [True] * 4
    assert [t.cost.seconds for t in trials] == [t.cost.seconds for t in result.search.trials]
    placement = again.placement  # of whatever ships
    assert placement.plan == again.plan
    assert tvm.ir.structural_equal(replay(placement).mod, again.mod)


KNOWN = {"reference": "plan a", "samples": {"x": np.ones(4, "float32")}, "accuracy_budget": 0.0}


@pytest.mark.parametrize(
    "change",
    [
        {"reference": "plan b"},
        {"samples": {}},
        {"samples": {"x": np.zeros(4, "float32")}},
        {"accuracy_budget": 0.1},
        {"kernels": "inner product"},
    ],
)
def test_what_a_plan_took_otherwise_is_not_taken(tmp_path, change):
    def known(reference, samples, accuracy_budget, kernels="matmul"):
        targets = parse_targets(["llvm", "dnnl"])
        plans = Plans(tvm.relay.transform.InferType()(net()), targets)
        plans.kernels = (KernelChoice("dnnl", "step", "same label", (), kernels, ()),)
        options = CollageOptions(
            store=str(tmp_path / "costs.sqlite"), accuracy_budget=accuracy_budget
        )
        return known_plans(plans, targets, options, {}, None, TuningRecords(), samples, reference)

    with known(**KNOWN) as plans:
        plans.keep("plan", "1 dnnl", collage.measure.Cost.given(2.0))
    with known(**KNOWN) as plans:
        assert plans.look_up("plan").seconds == 2.0
    with known(**{**KNOWN, **change}) as plans:
        assert plans.look_up("plan") is None


def chain(length):
    x = relay.var("x", shape=(4,))
    body = x
    for _ in range(length):
        body = relay.nn.relu(body)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))


@pytest.mark.parametrize(
    "lengths, executor, options, is_shared",
    [
        ([1, 2, 3], "graph", {}, False),
        ([1, 2, 3, 3], "graph", {}, False),
        ([1, 2, 3, 4], "graph", {}, True),
        ([1, 2, 3, 4], "graph", {"guard_library_mb": 1}, False),
        ([1, 2, 3, 4], "vm", {}, False),
        ([1, 2], "graph", {"graph_search": "evolutionary"}, True),
        ([1, 2], "graph", {"graph_search": "evolutionary", "guard_library_mb": 1}, True),
    ],
)
def test_many_different_plans_share_their_kernels(lengths, executor, options, is_shared):
    """And what ships is built by TVM alone."""
    plans = Plans(chain(1), parse_targets(["llvm", "dnnl"]))
    plans.modules = {str(number): chain(length) for number, length in enumerate(lengths)}
    none = TuningRecords()
    chosen = CollageOptions(**options)
    job = Job(chain(1), plans._targets, chosen, {}, {}, executor, none, plans, Phases())
    found = types.SimpleNamespace(records=none, replans={"main": None})
    how = end_to_end(job, found, types.SimpleNamespace(compare=None, is_here=True))
    assert (how.ship is not None) == is_shared
    assert (how.build.keywords["compiled"] is not None) == is_shared
    assert how.ship is None or not how.ship.keywords


def test_a_module_with_control_flow_is_searched_in_the_virtual_machine(tmp_path):
    body = net()["main"]
    flag = relay.var("flag", shape=(), dtype="bool")
    [x] = body.params
    branches = relay.If(flag, body.body, relay.exp(relay.cos(x)))
    mod = tvm.IRModule.from_expr(relay.Function([flag, x], branches))
    found = search(str(tmp_path / "costs.sqlite"), mod)
    trials = found.search.trials
    assert len(trials) >= 2 and {trial.cost.status for trial in trials} == {"measured"}
    assert any("dnnl" in trial.label for trial in trials)
    assert found.guard is not None and found.plan in {row.name for row in found.guard.comparisons}
