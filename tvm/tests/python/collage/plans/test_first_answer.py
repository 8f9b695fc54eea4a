# SPDX-License-Identifier: Apache-2.0
"""The first answer: what is built and raced before the search, who is the best, and what of it the
guard uses again. Fakes of builds and of the race; one real pair of plans."""

import dataclasses
import json
import os
import time

import numpy as np
import pytest
import tvm
from guard_fakes import FakeLibrary, fake_compare  # noqa: F401
from relay_text import parse
from tvm import relay
from tvm.relay.collage import CollageOptions
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import build_whole, prepare
from tvm.relay.collage.costs.kernel import KERNELS, as_built
from tvm.relay.collage.exec.time_limit import NO_LIMIT, TimeLimit
from tvm.relay.collage.measure import Comparison, Cost, Interval
from tvm.relay.collage.messages import progress
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.plans.first_answer import FirstAnswer, first_answer, ship_best
from tvm.relay.collage.plans.graph_search import EndToEnd, GuardResult
from tvm.relay.collage.plans.graph_search.libraries import Inputs, Linked, Truth
from tvm.relay.collage.plans.request import Phases, Request
from tvm.relay.collage.plans.whole_plans import end_to_end
from tvm.relay.collage.tuning import TuningRecords


def net():
    x = relay.var("x", shape=(8, 32))
    weight = np.random.default_rng(0).standard_normal((48, 32)).astype("float32")
    body = relay.exp(relay.nn.relu(relay.nn.dense(x, relay.const(weight))))
    return tvm.IRModule.from_expr(relay.Function([x], body))


def request_of(targets=("llvm", "dnnl"), limit=NO_LIMIT, **options):
    options = {"progress": "quiet", "store": "none", **options}
    parsed = parse_targets(list(targets))
    prepared = prepare(net(), {}, parsed.host)
    plans = Plans(prepared, parsed)
    plans.add_single_backends()
    return Request(
        prepared,
        parsed,
        CollageOptions(**options),
        build_options={},
        samples={},
        executor="graph",
        records=TuningRecords(),
        plans=plans,
        clock=Phases(),
        limit=limit,
    )


def is_tvm(module):
    return len(module.functions) == 1


def slow_tvm(module):
    if is_tvm(module):
        time.sleep(600)
    return FakeLibrary()


@pytest.fixture
def quick_tvm(tmp_path, monkeypatch):
    """Builds of which TVM alone's has ended, with its fork, before any other does."""
    monkeypatch.setenv("TVM_NUM_THREADS", "2")  # so many builds at once
    file = tmp_path / "tvm"

    def build(module):
        if is_tvm(module):
            file.write_text(str(os.getpid()))
        while not file.exists() or not is_tvm(module) and is_alive(file.read_text()):
            time.sleep(0.01)
        return FakeLibrary()

    return build


def is_alive(pid):
    return not pid or os.path.exists(f"/proc/{pid}")


def row(name, ratio, reference="tvm", count=4):
    """A plan that takes so many times a millisecond in each round."""
    samples = tuple([1e-3 * ratio] * count)
    interval = Interval(ratio, 0.0, float("inf"))
    return Comparison(name, Cost.measured(samples), interval, 0.0, samples, reference)


def how_of(rows, build=lambda module: FakeLibrary(), **options):
    """Builds, and a race that gives these rows of those that were built."""
    seen = {}

    def compare(contestants, right, race):
        seen.update(names=[each.name for each in contestants], right=right, race=race)
        return [each for each in rows if each.name in seen["names"]]

    return EndToEnd(build, comparer=compare, **options), seen


def test_the_best_of_backends_alone_is_there_before_anything_is_searched(quick_tvm):
    """TVM alone takes part since its build is there in time; files are there for the block."""
    request = request_of()
    how, seen = how_of([row("dnnl", 1), row("tvm", 3, count=2)], quick_tvm)
    with first_answer(request, how) as first:
        assert (first.best, first.seconds, first.Summary()) == ("dnnl", 1e-3, "dnnl, 1 ms")
        assert sorted(seen["names"]) == ["dnnl", "tvm"] and seen["right"].references[0] == "tvm"
        assert (seen["race"].rounds, seen["race"].early_end) == (4, (2, 1.25))
        assert all(os.path.exists(file.library) for file in first.files.values())
        assert first.raced.of("dnnl").library_bytes == len("library")
        assert (first.raced.reference, first.raced.unverified) == ("tvm", "")
    assert not any(os.path.exists(file.library) for file in first.files.values())
    assert set(request.clock.seconds) == {"first answer"}
    assert set(request.plans.modules) == {"tvm", "dnnl"}


def test_nobody_waits_for_tvm_alone():
    how, seen = how_of([row("dnnl", 1, reference="dnnl")], slow_tvm)
    with first_answer(request_of(), how) as first:
        assert (first.best, seen["names"]) == ("dnnl", ["dnnl"])
        assert first.raced.of("tvm").cost.Summary() == (
            "unknown: its build takes longer than those of others"
        )
        assert first.raced.unverified.startswith("its outputs were compared with nothing: plan tvm")


def test_a_wrong_backend_is_no_first_answer(quick_tvm):
    wrong = Comparison("dnnl", Cost.failed("wrong_result", "off by 0.5"), reference="tvm")
    how, _ = how_of([row("tvm", 1), wrong], quick_tvm)
    with first_answer(request_of(), how) as first:
        assert first.best == "tvm"


def test_where_plans_differ_and_nobody_is_known_to_be_right_there_is_none():
    wrong = Comparison("cblas", Cost.failed("wrong_result", "off by 0.5"), reference="dnnl")
    rows = [row("dnnl", 1, reference="dnnl"), wrong]
    how, _ = how_of(rows, slow_tvm)
    with first_answer(request_of(["llvm", "dnnl", "cblas"]), how) as first:
        assert first.best == "" and set(first.files) == {"dnnl", "cblas"}
    arrays = {"x": np.zeros((8, 32), "float32")}
    truth = Truth(Inputs(arrays, 0, False), [np.zeros((8, 48), "float32")])
    rows = [row("dnnl", 1, reference="the original"), wrong]
    how, _ = how_of(rows, slow_tvm, truth=truth)
    with first_answer(request_of(["llvm", "dnnl", "cblas"]), how) as first:
        assert first.best == "dnnl" and first.raced.unverified == ""


def test_plans_that_fail_or_are_too_large_are_no_first_answer(quick_tvm):
    crashed = Comparison("dnnl", Cost.failed("crashed", "signal 11"))
    how, _ = how_of([row("tvm", 1), crashed], quick_tvm)
    with first_answer(request_of(), how) as first:
        assert first.best == "tvm"
    heavy = dataclasses.replace(row("dnnl", 1), memory_bytes=5_000_000)
    with first_answer(request_of(guard_memory_mb=1), how_of([heavy])[0]) as first:
        assert first.best == "" and first.raced is None


def raises(module):
    raise ValueError("no kernel")


@pytest.mark.parametrize(
    "build, options, limit",
    [
        (raises, {}, NO_LIMIT),
        (slow_tvm, {"guard": False}, NO_LIMIT),
        (slow_tvm, {}, TimeLimit(1e-9)),
        (lambda module: time.sleep(600), {}, TimeLimit(2.0)),
    ],
)
def test_without_plans_to_compare_there_is_none(build, options, limit):
    """No plan builds, nobody asked for a comparison, there is no time, or too little of it."""
    how, seen = how_of([], build, limit=limit)
    with first_answer(request_of(limit=limit, **options), how) as first:
        assert (first.best, first.files, seen) == ("", {}, {})
    with pytest.raises(ValueError, match="no plan ran"):
        ship_best(request_of(), first, "interrupted")


def test_inputs_that_cannot_be_made_up_give_none(caplog):
    caplog.set_level("INFO")
    request = request_of()
    module = relay.transform.InferType()(
        tvm.relay.fromtext('#[version = "0.0.5"]\ndef @main(%x: (bool, bool)) { %x.0 }')
    )
    request.plans.modules["tvm"] = module
    with first_answer(request, how_of([])[0]) as first:
        assert first == FirstAnswer()
    assert "there is no first answer: input x is no tensor of a fixed shape" in caplog.text


def test_progress_tells_of_the_best_while_others_are_looked_for():
    seen = []

    class View(progress.ProgressView):
        def show(self, state):
            seen.append(state)

    def tell():
        with progress.phase("guard", View(), clock=iter(range(100)).__next__) as running:
            for done in (0, 1):
                running.update(done, 2, "measuring", {"step": "measuring"})

    how, _ = how_of([row("dnnl", 3.8), row("tvm", 9)])
    with first_answer(request_of(), how):
        tell()
    assert "measuring; best so far: dnnl, 3.8 ms" in {state.text for state in seen}
    assert seen[-1].counts["best"] == {"plan": "dnnl", "seconds": pytest.approx(3.8e-3)}
    seen.clear()
    tell()
    assert {state.text for state in seen} == {"measuring"} and "best" not in seen[-1].counts


def ready(**rows):
    """A first answer of modules with a part, and of one without; by name."""
    mods = {name: parse("def @main(%x: $T) { tanh(%x) }") for name in rows}
    for name, mod in mods.items():
        function = mod["main"].with_attr("Compiler", name).with_attr("global_symbol", name)
        mod[tvm.relay.GlobalVar("part")] = function
    found = [row(name, *given) for name, given in rows.items()]
    files = {name: Linked(f"{name}.so") for name in rows}
    return FirstAnswer(mods, files, GuardResult(found, found[0].name, {}))


def with_kernel(mod, kernel):
    """The same with a step of its part that runs by this kernel, as measured."""
    mod = mod.clone()
    text = json.dumps({"step": ["" if kernel == "usual" else kernel, "usual 1 ms, other 1 ms"]})
    mod.update_func(mod.get_global_var("part"), mod["part"].with_attr(KERNELS, text))
    return mod


def test_a_build_that_would_give_the_same_is_found_by_its_module():
    """Measured kernels that are the usual ones change nothing, others do."""
    first = ready(dnnl=(1,), cblas=(2,))
    own = first.modules["dnnl"]
    assert first.file_of(own.clone()).library == "dnnl.so"
    assert first.file_of(parse("def @main(%x: $T) { exp(%x) }")) is None
    usual, other = with_kernel(own, "usual"), with_kernel(own, "other")
    assert not tvm.ir.structural_equal(usual, own) and first.plan_of(usual) == "dnnl"
    assert tvm.ir.structural_equal(as_built(usual), own) and first.plan_of(other) == ""
    assert FirstAnswer().file_of(own) is None


def test_who_was_far_behind_is_told_of_without_another_race():
    """Not who was near in a round, who left after one, or whose plan is another by now."""
    first = ready(dnnl=(1,), near=(1.2,), far=(1.9, "tvm", 2), once=(3, "tvm", 1), new=(2,))
    mods = {**first.modules, "new": with_kernel(first.modules["new"], "other")}
    [(name, item)] = first.far_behind(mods).items()
    assert (name, item.samples) == ("far", ())
    assert "1.90 times dnnl in the first race, so it ran no more" in item.cost.message
    assert first.far_behind({}) == {} and FirstAnswer().far_behind(mods) == {}


class Runner:
    """As the guard asks one."""

    compare, is_here = None, True


@dataclasses.dataclass
class Found:
    """As the guard asks the search."""

    records: TuningRecords
    replans: dict


def test_the_guard_has_the_files_unless_tuning_made_each_plan_another(quick_tvm):
    request = request_of()
    how, _ = how_of([row("dnnl", 1), row("tvm", 3)], quick_tvm)
    with first_answer(request, how) as first:
        again = request.plans.modules["dnnl"]
        how = end_to_end(request, Found(request.records, {}), Runner(), first)
        assert how.at_hand(again) == first.files["dnnl"] and set(how.far_behind) == {"tvm"}
        how = end_to_end(request, Found(TuningRecords(), {}), Runner(), first)
        assert how.at_hand(again) is None and how.far_behind == {}
        request.plans.add_found("collage", request.plans.modules["tvm"], [])
        request.plans.add_untuned()
        how = end_to_end(request, Found(request.records, {}), Runner(), first)
        assert how.at_hand(request.plans.modules["tvm"]) == first.files["tvm"]
        assert how.at_hand(request.plans.modules["tvm-untuned"]) is None


def test_a_real_backend_alone_ships_as_it_was_raced():
    request = request_of()
    build = lambda mod: build_whole(mod, request.targets.host, "graph", options={})  # noqa: E731
    with first_answer(request, EndToEnd(build)) as first:
        assert first.best in ("dnnl", "tvm") and first.raced.of("dnnl").output_error < 1e-4
        request.plans.kernels = ("chosen",)
        assert ship_best(request, first, "interrupted")[::2] == (first.best, "interrupted")
        assert request.plans.kernels == ()
        assert first.raced.libraries[first.best].get_lib() is not None
