# SPDX-License-Identifier: Apache-2.0
"""optimize(): module and targets -> plans -> the one that ships; mock costs, a fake guard."""

import contextlib
import dataclasses
import json
import time

import numpy as np
import pytest
import tvm
from relay_text import assert_equal, assert_same_outputs, is_external, parse
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import CollageOptions, MockCostEstimator, optimizer
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.costs.kernel import choose, kernels_in
from tvm.relay.collage.exec.reply import Reply
from tvm.relay.collage.exec.time_limit import ASKED, TimeIsUpError
from tvm.relay.collage.measure import Comparison, Cost, Interval, MeasuredCostEstimator
from tvm.relay.collage.measure.profiler.kernel_trials import steps_of_part
from tvm.relay.collage.plans import competing as plans
from tvm.relay.collage.plans import part_kernels, whole_plans
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.plans.first_answer import FirstAnswer
from tvm.relay.collage.plans.graph_search import GuardResult, GuardUnavailable
from tvm.relay.collage.plans.request import Phases

TARGETS = ["llvm", "dnnl"]


def small_net():
    """Two convolutions with a cosine, which oneDNN's table does not take, between them."""
    x = relay.var("x", shape=(1, 4, 8, 8))
    weight = relay.var("weight", shape=(4, 4, 3, 3))
    conv = lambda data: relay.nn.conv2d(  # noqa: E731
        data, weight, kernel_size=3, channels=4, padding=1
    )
    y = relay.nn.relu(conv(relay.cos(relay.nn.relu(conv(x)))))
    mod = tvm.IRModule.from_expr(relay.Function([x, weight], y))
    values = np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype("float32")
    return mod, {"weight": tvm.nd.array(values)}


def external_parts(mod):
    return [f for f in mod.functions.values() if is_external(f)]


def test_plans_are_tvm_each_backend_and_the_optimum(fakes):
    mod, params = small_net()
    result = collage.optimize(mod, params, TARGETS, CollageOptions(guard_rounds=5, seed=2))
    plans = fakes["plans"]
    assert list(plans)[:3] == ["tvm", "dnnl", "collage"]
    assert external_parts(plans["tvm"]) == [] and external_parts(plans["dnnl"])
    assert (fakes["reference"], fakes["options"].rounds, fakes["how"].seed) == ("tvm", 5, 2)
    assert result.plan == list(plans)[-1] and result.mod.same_as(plans[result.plan])
    assert result.library == f"library of {result.plan}"
    for plan in plans.values():
        assert_same_outputs(plans["tvm"], plan)


def test_the_result_names_parts_costs_and_phases_in_json_and_a_table(fakes, capsys, caplog):
    caplog.set_level("INFO")
    result = collage.optimize(*small_net(), TARGETS)
    [line] = [message for message in caplog.messages if message.startswith("search of")]
    assert line.startswith("search of @main: asked for ") and "distinct candidates" in line
    [report] = result.partitioned
    assert report.function == "main" and report.is_optimal
    assert {part.backend for part in report.parts} >= {"dnnl"}
    assert set(result.seconds) == {"prepare", "kernels", "partition", "guard"}
    assert all(seconds >= 0 for seconds in result.seconds.values())
    data = result.to_json()
    assert json.loads(json.dumps(data)) == data
    result.show(details=True)
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("tvm", "dnnl", "collage"))


def test_the_op_level_plan_that_is_a_backends_own_is_told_to_be_so(fakes, monkeypatch):
    mod, params = small_net()
    collage.optimize(mod, params, TARGETS)
    same = tvm.ir.structural_equal(fakes["plans"]["collage"], fakes["plans"]["dnnl"])
    assert same and fakes["same_as"] == {"collage": "dnnl"}
    monkeypatch.setattr(
        optimizer, "CostEstimator", lambda *_: MockCostEstimator({"llvm": 1, "dnnl": 10})
    )
    collage.optimize(mod, params, TARGETS)
    assert fakes["same_as"] == {"collage": "tvm"}, "where the search leaves all on TVM"


def test_a_phase_has_no_seconds_of_those_inside_it():
    phases = Phases()
    with phases.phase("outer"):
        time.sleep(0.02)
        with phases.phase("inner"):
            time.sleep(0.2)
    assert phases.seconds["inner"] >= 0.2 and 0.02 <= phases.seconds["outer"] < 0.2


def test_a_search_is_told_of_while_the_pass_runs(fakes, monkeypatch):
    events = []

    @contextlib.contextmanager
    def searching(_):
        events.append("told")
        yield
        events.append("over")

    def partition(*given, real=optimizer.partition):
        events.append("partition")
        return real(*given)

    monkeypatch.setattr(MeasuredCostEstimator, "searching", searching)
    monkeypatch.setattr(optimizer, "partition", partition)
    collage.optimize(*small_net(), TARGETS)
    assert events == ["told", "partition", "over"]


def test_untuned_plans_are_equal_to_each_other_alone():
    mod, params = small_net()
    targets = parse_targets(TARGETS)
    prepared = prepare(mod, params, targets.host)
    plans = Plans(prepared, targets)
    plans.add_found("collage", prepared, [])
    plans.add_untuned()
    assert plans.same_as() == {"collage": "tvm", "collage-untuned": "tvm-untuned"}


@pytest.mark.parametrize("winner", ["tvm", "dnnl"])
def test_the_guards_winner_ships(fakes, winner):
    fakes["winner"] = winner
    mod, params = small_net()
    result = collage.optimize(mod, params, TARGETS)
    assert result.plan == winner and result.mod.same_as(fakes["plans"][winner])


def test_a_pass_that_hangs_while_preparing_is_left_out_under_a_limit(fakes, monkeypatch, caplog):
    def made(*given, is_simplified=True, **options):
        if is_simplified:
            time.sleep(600)
        return prepare(*given, is_simplified=is_simplified, **options)

    monkeypatch.setattr(optimizer, "prepare", made)
    text = "def @main(%x: Tensor[(1, 4), float32]) { %0 = nn.dropout(%x); %0.0 }"
    result = collage.optimize(parse(text), None, TARGETS, CollageOptions(time_limit=10.0))
    assert "without being simplified: it did not end within 1 s" in caplog.text
    assert "nn.dropout" in str(result.mod)
    again = collage.optimize(parse(text), None, TARGETS, placement=result.placement)
    assert tvm.ir.structural_equal(again.mod, result.mod)


def test_a_model_that_is_prepared_in_time_is_simplified(fakes):
    text = "def @main(%x: Tensor[(1, 4), float32]) { %0 = nn.dropout(%x); %0.0 }"
    result = collage.optimize(parse(text), None, TARGETS, CollageOptions(time_limit=300.0))
    assert "nn.dropout" not in str(result.mod)


def test_the_search_has_its_share_of_the_time(fakes, monkeypatch):
    asked = []
    real = optimizer.partition
    monkeypatch.setattr(
        optimizer, "partition", lambda *given, **time: asked.append(time) or real(*given, **time)
    )
    collage.optimize(*small_net(), TARGETS, CollageOptions(time_limit=100.0))
    collage.optimize(*small_net(), TARGETS)
    most = 100 * ASKED
    assert most / 2 < asked[0]["time_limit"] <= most and asked[1] == {}


def test_when_the_search_has_no_time_left_backends_alone_compete(fakes, monkeypatch, caplog):
    def partition(*_, **time):
        raise TimeIsUpError("the time limit of 100 s leaves no more time for it")

    monkeypatch.setattr(optimizer, "partition", partition)
    fakes["winner"] = "dnnl"
    options = CollageOptions(time_limit=100.0)
    result = collage.optimize(*small_net(), TARGETS, options)
    assert result.plan == "dnnl" and fakes["same_as"] == {"collage": "tvm"}
    assert "the search is not finished" in caplog.text


def optimized_without_time_for_the_guard(monkeypatch):
    """What ships where the search takes all of the limit."""
    real = optimizer.partition

    def partition(*given, **_):
        found = real(*given)
        time.sleep(2.0)
        return found

    monkeypatch.setattr(optimizer, "partition", partition)
    monkeypatch.setattr(optimizer, "run_in_forks", lambda tasks, _: {"prepare": Reply("ok")})
    return collage.optimize(*small_net(), TARGETS, CollageOptions(time_limit=2.0))


def test_without_time_for_the_guard_the_measured_optimum_ships(fakes, monkeypatch, caplog):
    result = optimized_without_time_for_the_guard(monkeypatch)
    assert (result.plan, result.guard) == ("collage", None)
    assert "time_limit leaves no time" in result.guard_skipped


def answered(best="dnnl"):
    """A first answer, of which the best takes 3.8 ms."""
    cost = Cost.measured([3.8e-3] * 4)
    item = Comparison(best, cost, Interval(1, 1, 1), 0.0, (3.8e-3,) * 4, "tvm")
    return FirstAnswer(raced=GuardResult([item], best, {best: f"library of {best}"}, "tvm"))


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "module, where",
    [
        (part_kernels, "choose_kernels"),
        *((optimizer, name) for name in ("partition", "end_to_end", "decide")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_interrupt_after_the_first_answer_ships_the_best_so_far(
    fakes, monkeypatch, caplog, capsys, module, where
):
    """Whatever runs then: kernels are the usual ones again, as those that were raced."""
    fakes["first"] = answered()
    monkeypatch.setattr(module, where, interrupt)
    result = collage.optimize(*small_net(), TARGETS)
    assert (result.plan, result.library) == ("dnnl", "library of dnnl")
    assert (result.ended_early, result.guard_skipped) == ("the compile was interrupted", "")
    assert "the compile was interrupted: the best plan so far ships, dnnl, 3.8 ms" in caplog.text
    assert result.kernels == () and external_parts(result.mod)
    assert result.to_json()["ended_early"] == "the compile was interrupted"
    result.show(details=True)
    printed = " ".join(capsys.readouterr().out.split())
    assert "It takes 3.8 ms (noisy) a run" in printed and "Ended early: the compile was" in printed
    again = collage.optimize(*small_net(), TARGETS, placement=result.placement)
    assert tvm.ir.structural_equal(again.mod, result.mod)


def test_an_interrupt_before_there_is_a_first_answer_ends_the_build(fakes, monkeypatch):
    monkeypatch.setattr(optimizer, "partition", interrupt)
    with pytest.raises(KeyboardInterrupt):
        collage.optimize(*small_net(), TARGETS)


def test_a_second_interrupt_ends_the_build_of_what_ships(fakes, monkeypatch):
    class Raising(dict):
        __getitem__ = interrupt

    first = answered()
    fakes["first"] = FirstAnswer(raced=dataclasses.replace(first.raced, libraries=Raising()))
    monkeypatch.setattr(optimizer, "partition", interrupt)
    result = collage.optimize(*small_net(), TARGETS)
    with pytest.raises(KeyboardInterrupt):
        result.build()


def test_without_time_for_the_guard_the_best_of_the_first_answer_ships(fakes, monkeypatch, caplog):
    """It ran whole and right, which the optimum of measured parts did not."""
    fakes["first"] = answered()
    result = optimized_without_time_for_the_guard(monkeypatch)
    assert (result.plan, result.guard.winner, result.guard_skipped) == ("dnnl", "dnnl", "")
    assert "time_limit leaves no time for it" in result.ended_early
    assert "the best plan so far ships, dnnl, 3.8 ms" in caplog.text
    assert [report.function for report in result.partitioned] == ["main"]


@pytest.mark.parametrize("failed, plan", [((), "dnnl"), (["dnnl"], "collage")])
def test_what_the_guard_found_to_fail_is_not_the_best_so_far(fakes, monkeypatch, failed, plan):
    def guard(*_, **__):
        raise GuardUnavailable("all crashed", failed)

    fakes["first"] = answered()
    monkeypatch.setattr(whole_plans, "guard", guard)
    assert collage.optimize(*small_net(), TARGETS).plan == plan


def test_without_a_guard_the_optimum_ships(fakes):
    """Each time the same, under the instruments of the context; the module stays as it was."""
    mod, params = small_net()
    before = mod.astext(False)

    @tvm.instrument.pass_instrument
    class Count:
        seen = 0

        def run_before_pass(self, mod, info):
            Count.seen += info.name == "CollagePartition"

    with tvm.transform.PassContext(opt_level=3, instruments=[Count()]):
        result, again = (
            collage.optimize(mod, params, TARGETS, CollageOptions(guard=False)) for _ in range(2)
        )
    assert (result.plan, result.guard, result.library) == ("collage", None, None)
    assert "plans" not in fakes and Count.seen >= 2
    assert len(external_parts(result.mod)) >= 2
    assert [param.name_hint for param in result.mod["main"].params] == ["x"]
    assert mod.astext(False) == before
    assert_equal(again.mod, result.mod)


def test_a_model_that_the_guard_cannot_measure_ships_its_measured_optimum(fakes, caplog, capsys):
    fakes["unavailable"] = "if is not supported"
    mod, params = small_net()
    result = collage.optimize(mod, params, TARGETS)
    assert (result.plan, result.guard, result.library) == ("collage", None, None)
    assert result.guard_skipped == "if is not supported"
    assert "plan collage ships without end-to-end measurements: if is not" in caplog.text
    assert result.to_json()["guard_skipped"] == "if is not supported"
    result.show()
    assert "was not measured: if is not supported" in capsys.readouterr().out


def test_what_neither_guard_nor_parts_could_measure_ships_with_tvm_alone(fakes, monkeypatch):
    fakes["unavailable"] = "dynamic shape"

    class Estimator(collage.CostEstimator):
        has_transitions = False

        def estimate_batch(self, mods, targets, labels):
            return [Cost.failed("unsupported", "dynamic") for _ in mods]

    monkeypatch.setattr(optimizer, "CostEstimator", Estimator)
    mod, params = small_net()
    result = collage.optimize(mod, params, TARGETS)
    assert (result.plan, result.guard_skipped) == ("tvm", "dynamic shape")
    assert external_parts(result.mod) == []


@pytest.mark.parametrize(
    "error, status",
    [
        (collage.UnknownBackendError("no backend 'dnnl'"), "unsupported"),
        (RuntimeError("Traceback\n  0: frame\nno backend 'dnnl'"), "compile_failed"),
    ],
)
def test_a_backends_own_plan_that_cannot_be_made_is_data(fakes, monkeypatch, error, status):
    def take_all(mod, targets):
        raise error

    monkeypatch.setattr(plans, "take_all", take_all)
    mod, params = small_net()
    result = collage.optimize(mod, params, TARGETS)
    assert list(fakes["plans"])[:2] == ["tvm", "collage"] and result.plan in fakes["plans"]
    cost = fakes["failed"]["dnnl"]
    assert (cost.status, cost.message) == (status, "no backend 'dnnl'")


def test_build_options_reach_what_the_guard_builds(fakes, monkeypatch):
    built = {}
    monkeypatch.setattr(whole_plans, "build_whole", lambda *_, options: built.update(options))

    def guard(plans, reference, how, **_):
        (how.ship or how.build)(plans[reference])
        built["guard's"] = how.mod_name
        raise GuardUnavailable("seen enough")

    monkeypatch.setattr(whole_plans, "guard", guard)
    mod, params = small_net()
    collage.optimize(mod, params, TARGETS, build_options={"mod_name": "net"})
    assert built["mod_name"] == built["guard's"] == "net"


IF = "def @main(%c: bool, %x: $T) { if (%c) { nn.relu(%x) } else { tanh(%x) } }"


@pytest.mark.parametrize(
    "text, options, executor",
    [
        (IF, {}, "vm"),
        ("def @main(%x: $T) { nn.relu(%x) }", {}, "graph"),
        ("def @main(%x: $T) { nn.relu(%x) }", {"executor": "vm"}, "vm"),
    ],
)
def test_the_guard_builds_for_the_executor_that_runs_the_module(
    fakes, monkeypatch, text, options, executor
):
    built = []
    monkeypatch.setattr(
        whole_plans, "build_whole", lambda _, host, name, options: built.append(name)
    )
    result = collage.optimize(parse(text), None, TARGETS, build_options=options)
    assert (result.executor, fakes["how"].executor) == (executor, executor)
    how = fakes["how"]
    (how.ship or how.build)(result.mod)
    assert built == [executor] and result.to_json()["executor"] == executor


def test_what_the_executor_cannot_run_is_refused_before_anything_is_measured(fakes):
    graph = {"executor": relay.backend.Executor("graph")}
    with pytest.raises(collage.ModuleError, match="the graph .* of kind If: use relay.vm.compile"):
        collage.optimize(parse(IF), None, TARGETS, build_options=graph)
    assert fakes == {}


def test_a_host_alone_has_nothing_to_decide(fakes):
    mod, params = small_net()
    result = collage.optimize(mod, params, "llvm")
    assert (result.plan, result.guard, result.partitioned) == ("tvm", None, [])
    assert result.host.kind.name == "llvm" and external_parts(result.mod) == []


def test_options_come_from_the_context_unless_given(fakes):
    mod, params = small_net()
    with tvm.transform.PassContext(config={"relay.collage.guard_rounds": 11}):
        collage.optimize(mod, params, TARGETS)
        assert fakes["options"].rounds == 11
        collage.optimize(mod, params, TARGETS, CollageOptions(guard_rounds=4))
        assert fakes["options"].rounds == 4


def test_several_functions_and_control_flow(fakes):
    mod = tvm.relay.fromtext(
        """#[version = "0.0.5"]
        def @block(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] { nn.relu(%x) }
        def @main(%c: bool, %x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] {
          if (%c) { @block(%x) } else { tanh(%x) }
        }"""
    )
    result = collage.optimize(mod, None, TARGETS, CollageOptions(guard=False))
    assert {report.function for report in result.partitioned} >= {"main"}
    assert_same_outputs(relay.transform.InferType()(mod), result.mod)


@pytest.mark.parametrize(
    "given, message",
    [
        ((["llvm"],), "takes params as a dict .* got list; targets are its third"),
        ((None, ["llvm"], {"workers": 1}), r"takes options as CollageOptions\(...\), got dict"),
    ],
)
def test_arguments_of_another_type_are_a_clear_error(given, message):
    with pytest.raises(TypeError, match=message):
        collage.optimize(tvm.IRModule(), *given)


def dense_net():
    x = relay.var("x", shape=(24, 32))
    weight = np.random.default_rng(0).standard_normal((48, 32)).astype("float32")
    body = relay.nn.relu(relay.nn.dense(x, relay.const(weight)))
    return tvm.IRModule.from_expr(relay.Function([x], body))


def test_kernels_that_were_measured_are_in_plans_candidates_placement_and_report(
    fakes, monkeypatch
):
    sessions = []

    def faked(session, parts, on_step, **limits):
        [step] = steps_of_part(*parts)
        times = {name: 1e-3 if name == step.kernels[-1] else 2e-3 for name in step.kernels}
        return (choose(step, {name: Cost.given(each) for name, each in times.items()}),)

    def estimator(session, profiles=None):
        sessions.append(session)
        return MockCostEstimator({"llvm": 10, "dnnl": 1})

    monkeypatch.setattr(part_kernels, "choose_kernels", faked)
    monkeypatch.setattr(optimizer, "CostEstimator", estimator)
    result = collage.optimize(dense_net(), {}, TARGETS)
    [choice] = result.kernels
    [part] = external_parts(result.mod)
    assert kernels_in(part) == {choice.step: (choice.kernel, choice.times())}
    assert sessions[0].kernels("dnnl") == (dataclasses.replace(choice, tried=()),)
    [row] = result.to_json()["kernels"]
    assert (row["kernel"], row["is_usual"]) == (choice.kernel, False)
    assert [tried["kernel"] for tried in row["tried"]][-1] == choice.kernel
    monkeypatch.setattr(part_kernels, "choose_kernels", None)  # replaying measures nothing
    again = collage.optimize(dense_net(), {}, TARGETS, placement=result.placement)
    assert tvm.ir.structural_equal(again.mod, result.mod) and again.kernels == result.kernels
    options = CollageOptions(measure_kernels=False)
    without = collage.optimize(dense_net(), {}, TARGETS, options)
    assert without.kernels == () and "kernels" not in without.seconds
    assert kernels_in(*external_parts(without.mod)) == {}


def test_whole_plans_are_searched_for_a_guard_alone(fakes):
    mod, params = small_net()
    options = CollageOptions(graph_search="local", guard=False)
    with pytest.raises(collage.OptionError, match="leave option relay.collage.guard on"):
        collage.optimize(mod, params, TARGETS, options)


def test_whole_plans_that_cannot_be_measured_are_not_searched(fakes, monkeypatch, caplog):
    def search(*_, **__):
        raise GuardUnavailable("if is not supported")

    monkeypatch.setattr(whole_plans, "search_whole_plans", search)
    mod, params = small_net()
    result = collage.optimize(mod, params, TARGETS, CollageOptions(graph_search="random"))
    assert result.search is None and result.to_json()["graph_search"] is None
    assert "whole plans are not searched: if is not supported" in caplog.text
    with pytest.raises(collage.OptionError, match="set option relay.collage.graph_search"):
        result.plot_history("plot.png")
