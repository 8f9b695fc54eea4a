# SPDX-License-Identifier: Apache-2.0
"""A search of whole plans from options to the guard: a small net, dnnl and TVM, four trials."""

import contextlib
import dataclasses
import types

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.relay import collage
from tvm.relay.backend import Executor, Runtime
from tvm.relay.collage import CollageOptions
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.costs.kernel import KernelChoice
from tvm.relay.collage.measure import Cost
from tvm.relay.collage.messages.progress import steps_untold
from tvm.relay.collage.plans import competing as plans
from tvm.relay.collage.plans import whole_plans
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.plans.graph_search import GuardUnavailable
from tvm.relay.collage.plans.names import ONE_THREAD
from tvm.relay.collage.plans.request import Phases, Request
from tvm.relay.collage.plans.whole_plans import end_to_end, first_end_to_end, known_plans
from tvm.relay.collage.tuning import TuningRecords


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
        reuse_decision=False,
        progress="quiet",
    )
    return collage.optimize(mod or net(), None, ["llvm", "dnnl"], options)


def replay(placement):
    return collage.optimize(net(), None, ["llvm", "dnnl"], placement=placement)


@pytest.fixture(scope="module")
def result(store):
    return search(store)


def test_plans_are_tried_and_the_best_join_the_guard(result, capsys):
    result.show(details=True)
    assert "Whole plans searched: evolutionary" in capsys.readouterr().out
    found = result.to_json()["graph_search"]
    assert found["strategy"] == "evolutionary" and found["genes"] >= 2
    assert len(found["trials"]) == 4
    assert {row["status"] for row in found["trials"]} == {"measured"}
    assert found["trials"][0]["seconds"] == found["op_level_seconds"] > 0
    assert not any(row["is_stored"] for row in found["trials"])
    # What is tvm's or dnnl's plan as well, or the op-level one, is in the guard by that name.
    names = {row["name"] for row in result.to_json()["plans"]}
    assert names >= {"tvm", "dnnl", "collage"}
    searched = {"collage-merged", "collage-coarse", "graph-1", "graph-2", "graph-3"}
    assert {n.removesuffix(ONE_THREAD) for n in names} <= {"tvm", "dnnl", "collage"} | searched
    guarded = [replay(result.placements.placement(name)).mod for name in names]
    names_of = {trial.key: trial.name for trial in result.search.trials}
    for key in list(result.search.best)[:3]:
        tried = replay(result.placements.placement(names_of[key])).mod
        assert any(tvm.ir.structural_equal(tried, each) for each in guarded)
    assert "graph search" in result.seconds


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


def request_of(mod, options, build_options=None, executor="graph"):
    targets = parse_targets(["llvm", "dnnl"])
    mod = relay.transform.InferType()(mod)
    made = Plans(mod, targets)
    given = TuningRecords()
    return Request(mod, targets, options, build_options or {}, {}, executor, given, made, Phases())


KNOWN = {"reference": "plan a", "samples": {"x": np.ones(4, "float32")}, "accuracy_budget": 0.0}


@pytest.fixture
def known(tmp_path):
    """known_plans of one store."""

    def known(reference, samples, accuracy_budget, kernels="matmul", runner=None, **build):
        store = str(tmp_path / "costs.sqlite")
        request = request_of(
            net(), CollageOptions(store=store, accuracy_budget=accuracy_budget), **build
        )
        request.plans.kernels = (KernelChoice("dnnl", "step", "same label", (), kernels, ()),)
        request = dataclasses.replace(request, samples=samples)
        return known_plans(request, TuningRecords(), runner, reference)

    with known(**KNOWN) as found:
        found.keep("plan", "1 dnnl", Cost.given(2.0))
    return known


@pytest.mark.parametrize(
    "change, is_known",
    [
        ({}, True),
        ({"build_options": {"executor": Executor("graph")}}, True),
        ({"build_options": {"mod_name": "default", "runtime": Runtime("cpp")}}, True),
        ({"reference": "plan b"}, False),
        ({"samples": {}}, False),
        ({"samples": {"x": np.zeros(4, "float32")}}, False),
        ({"accuracy_budget": 0.1}, False),
        ({"kernels": "inner product"}, False),
        ({"executor": "vm"}, False),
        ({"build_options": {"executor": Executor("graph", {"link-params": True})}}, False),
        ({"build_options": {"runtime": Runtime("cpp", {"system-lib": True})}}, False),
        ({"build_options": {"mod_name": "net"}}, False),
    ],
)
def test_what_a_plan_took_otherwise_is_not_taken_but_defaults_are_as_good_as_none(
    known, change, is_known
):
    with known(**{**KNOWN, **change}) as found:
        assert (found.look_up("plan") is not None) == is_known


def test_what_a_plan_took_on_a_device_is_of_the_device_s_backends(known, monkeypatch):
    class Device:
        def __init__(self, **backends):
            self.info = types.SimpleNamespace(cpu="Arm", threads="4", backends=backends)

    monkeypatch.setattr(whole_plans, "DeviceRunner", Device)
    with known(**KNOWN, runner=Device(dnnl="3.1")) as found:
        assert found.look_up("plan") is None
        found.keep("plan", "1 dnnl", Cost.given(3.0))
    for device, expected in (
        (Device(dnnl="3.1"), 3.0),
        (Device(dnnl="3.2"), None),
        (Device(), None),
    ):
        with known(**KNOWN, runner=device) as found:
            cost = found.look_up("plan")
            assert (cost and cost.seconds) == expected


def chain(length):
    x = relay.var("x", shape=(4,))
    body = x
    for _ in range(length):
        body = relay.nn.relu(body)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))


SECONDS = {1: 1.0, 2: 1.1, 4: 0.9, 5: 1.2, 6: 1.3, 7: 1.4}


class Space:
    """Plans that are chains of so many operators, all of them seeds."""

    genes = choices = ((*SECONDS, 3),)

    def __init__(self, *_):
        pass

    def seeds(self):
        return [(length,) for length in (1, 2, 3, 4, 5, 6, 7)]

    def parts_of(self, genome):
        return {"main": list(genome)}

    def key_of(self, parts):
        return str(parts["main"][0])

    label_of = key_of


@pytest.fixture
def search_of_chains(monkeypatch):
    """A search of such plans, of which `broken` cannot be made, beside a guard that has two."""

    def rewrite(mod, parts):
        [length] = parts["main"]
        if length == broken[0]:
            raise RuntimeError("Traceback\n  0: frame\nparts overlap")
        return chain(length)

    @contextlib.contextmanager
    def open_trials(*_):
        measure = lambda modules, on_wait: {k: Cost.given(SECONDS[int(k)]) for k in modules}  # noqa: E731
        yield types.SimpleNamespace(measure=measure, base=SECONDS[1])

    broken = []
    monkeypatch.setattr(plans, "rewrite", rewrite)
    monkeypatch.setattr(whole_plans, "open_trials", open_trials)
    monkeypatch.setattr(whole_plans, "PlanSpace", Space)

    def search(one):
        broken[:] = [one]
        options = CollageOptions(
            graph_search="random", graph_search_trials=7, store="none", progress="quiet"
        )
        request = request_of(chain(1), options)
        request.plans.add_new("dnnl", {"main": [2]})
        found = types.SimpleNamespace(records=TuningRecords(), replans={})
        how = types.SimpleNamespace(samples={})
        return request.plans, whole_plans.search_whole_plans(request, found, how, None)

    return search


def test_a_plan_that_cannot_be_made_is_a_trial_that_failed(search_of_chains):
    _, search = search_of_chains(3)
    costs = {trial.label: trial.cost for trial in search.trials}
    assert len(costs) == 7 and costs["4"].seconds == 0.9 and "3" not in search.best
    assert (costs["3"].status, costs["3"].message) == ("compile_failed", "parts overlap")


def test_the_best_three_that_the_guard_lacks_join_it(search_of_chains):
    found, search = search_of_chains(3)
    assert list(search.best)[:4] == ["4", "1", "2", "5"]
    assert list(found.modules) == ["tvm", "dnnl", "graph-1", "graph-2", "graph-3"]
    for rank, length in enumerate((4, 5, 6), 1):
        assert tvm.ir.structural_equal(found.modules[f"graph-{rank}"], chain(length))
    assert found.failed == {}


def test_without_the_op_level_plan_nothing_is_searched(search_of_chains):
    with pytest.raises(GuardUnavailable, match="the op-level plan .* again: .*parts overlap"):
        search_of_chains(1)


def test_a_new_plan_that_cannot_be_made_is_data(search_of_chains):
    found, _ = search_of_chains(3)
    assert found.add_new("collage-coarse", {"main": [3]})
    assert found.failed["collage-coarse"].status == "compile_failed"
    assert "collage-coarse" not in {*found.modules, *found.placed}
    assert not found.add_new("collage-coarser", {"main": [2]}), "dnnl's"


@pytest.mark.parametrize(
    "executor, options, is_shared",
    [
        ("graph", {}, True),
        ("graph", {"guard_library_mb": 1}, False),
        ("vm", {}, False),
        ("graph", {"graph_search": "evolutionary", "guard_library_mb": 1}, True),
    ],
)
def test_plans_share_their_kernels(tmp_path, executor, options, is_shared):
    """And what ships is built by TVM alone."""
    request = request_of(chain(1), CollageOptions(**options), executor=executor)
    request = dataclasses.replace(request, folder=str(tmp_path))
    found = types.SimpleNamespace(records=request.records, replans={"main": None})
    for how in (
        end_to_end(request, found, types.SimpleNamespace(compare=None, is_here=True)),
        first_end_to_end(request),
    ):
        if "graph_search" in options and how.records_kernels:
            continue  # the first answer is none of the plans that are searched
        assert (how.ship is not None) == is_shared
        assert (how.build.keywords["compiled"] is not None) == is_shared
        assert how.ship is None or not how.ship.keywords


def test_schedules_that_tuning_found_have_kernels_of_their_own(tmp_path):
    request = dataclasses.replace(request_of(chain(1), CollageOptions()), folder=str(tmp_path))
    runner = types.SimpleNamespace(compare=None, is_here=True)
    for records, folders in ((request.records, 1), (TuningRecords(), 2)):
        end_to_end(request, types.SimpleNamespace(records=records, replans={}), runner)
        assert len(list(tmp_path.glob("*kernels"))) == folders


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
