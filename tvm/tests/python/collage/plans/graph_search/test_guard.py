# SPDX-License-Identifier: Apache-2.0
"""The guard: which plan ships, given what each did; plans that fail; a real pair of tiny plans."""

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import time

import numpy as np
import pytest
import tvm
from guard_fakes import ORDER, FakeLibrary, failed, fake, plans, ran
from relay_text import parse
from tvm import relay
from tvm.relay.collage.compile import build_vm
from tvm.relay.collage.errors import MachineError
from tvm.relay.collage.exec.time_limit import TimeLimit
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.options import CollageOptions
from tvm.relay.collage.options.named import option
from tvm.relay.collage.plans.graph_search import (
    EndToEnd,
    GuardUnavailable,
    choose,
    guard,
    libraries,
)
from tvm.relay.collage.plans.graph_search.guard import GIVE_UP_RATIO, of_trader
from tvm.relay.collage.plans.graph_search.libraries import Linked


def of_rounds(rounds, **options):
    """Options of the guard."""
    return CollageOptions(guard_rounds=rounds, **options).guarding


@pytest.mark.parametrize(
    "comparisons, winner",
    [
        # What noise cannot tell apart from the best, and is simpler, ships; see test_decide.py.
        ([ran("collage", 1), ran("dnnl", (0.98, 1.03)), ran("tvm", 1.5)], "dnnl"),
        ([ran("collage", 1), ran("dnnl", (0.9, 1.3)), ran("tvm", (0.95, 1.1))], "collage"),
        # Failures never ship, whatever their place.
        ([ran("collage", 1), failed("dnnl"), failed("tvm", "timeout")], "collage"),
        ([ran("tvm", 1), failed("collage", "wrong_result"), failed("dnnl")], "tvm"),
    ],
)
def test_the_simplest_plan_that_the_best_does_not_beat_ships(comparisons, winner):
    assert choose(comparisons, ORDER) == winner


def test_when_no_plan_ran_each_reason_is_given():
    with pytest.raises(RuntimeError) as caught:
        choose([failed("tvm", "compile_failed", "no LLVM"), failed("dnnl")], ORDER)
    assert str(caught.value) == (
        "no plan of the model could be built and run "
        "(tvm: compile_failed: no LLVM; dnnl: crashed: signal 11)"
    )


def test_a_plan_that_is_equal_to_another_is_measured_once(fake_compare):
    """It has the other's figures, behind it, and its library; it never ships in its place."""
    built, steps = [], []
    mods = plans()
    first, last = ORDER[1], ORDER[-1]

    def build(module):
        built.append(module)
        return FakeLibrary()

    result = guard(
        mods,
        "tvm",
        EndToEnd(build, on_step=lambda *step, is_waiting=False: steps.append(step)),
        same_as={last: first},
    )
    assert fake_compare["names"] == [name for name in ORDER if name != last]
    assert len(built) == len(ORDER) - 1 and steps[0][2] == len(built)
    names = [item.name for item in result.comparisons]
    assert names.index(last) == names.index(first) + 1 and result.winner != last
    one, other = result.of(first), result.of(last)
    assert (one.same_as, other.same_as) == ("", first)
    assert (one.cost, one.samples) == (other.cost, other.samples)
    assert other.Summary().startswith(f"{last}: same as {first}, measured ")
    assert set(result.libraries) == set(ORDER) and isinstance(result.libraries[last], FakeLibrary)


def test_under_a_limit_a_plan_whose_build_hangs_or_crashes_takes_no_other_along(fake_compare):
    """What ships is built by this process, after a fork could."""
    here, built = os.getpid(), []
    hangs, dies, fails = (
        parse(f"def @main(%x: $T) {{ {op}(%x) }}") for op in ("tanh", "exp", "erf")
    )

    def build(module):
        if module is hangs:
            time.sleep(600)
        if module is dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if module is fails:
            raise ValueError("no kernel")
        built.append(os.getpid())
        return FakeLibrary()

    mods = {"hangs": hangs, "dies": dies, "fails": fails, **plans()}
    result = guard(mods, "tvm", EndToEnd(build, limit=TimeLimit(6.0)))
    failures = {
        item.name: item.cost.Summary() for item in result.comparisons if item.cost.is_failure
    }
    assert failures["hangs"].startswith("compile_failed: it did not end within ")
    assert failures["dies"] == "compile_failed: killed by SIGKILL"
    assert failures["fails"] == "compile_failed: no kernel"
    assert sorted(fake_compare["names"]) == sorted(ORDER) and all(fake_compare["files"])
    assert 0 < fake_compare["options"].seconds < 6.0
    assert built == [] and isinstance(result.libraries[result.winner], FakeLibrary)
    assert built == [here]


def test_plans_whose_libraries_are_for_files_are_built_side_by_side(fake_compare, tmp_path):
    """In forks, of which one that crashes takes no other along; what ships is built here."""
    here, dies, shipped = os.getpid(), parse("def @main(%x: $T) { exp(%x) }"), []

    def build(module):
        (tmp_path / str(os.getpid())).touch()
        if module is dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return FakeLibrary()

    def ship(module):
        shipped.append(os.getpid())
        return FakeLibrary()

    result = guard({"dies": dies, **plans()}, "tvm", EndToEnd(build, ship=ship))
    builders = {file.name for file in tmp_path.iterdir()}
    assert len(builders) == len(ORDER) + 1 and str(here) not in builders
    assert result.of("dies").cost.Summary() == "compile_failed: killed by SIGKILL"
    assert sorted(fake_compare["names"]) == sorted(ORDER) and all(fake_compare["files"])
    assert isinstance(result.libraries[result.winner], FakeLibrary) and shipped == [here]


def test_under_a_limit_what_tvm_has_least_of_is_built_first(fake_compare):
    """What is quick leaves its share of the time to what is not."""
    one = "def @main(%x: $T, %i: Tensor[(3), int32]) { (nn.relu(%x), %i) }"
    three = one.replace("nn.relu(%x)", "nn.relu(exp(tanh(%x)))")
    mods, steps = {"tvm": parse(three), "dnnl": parse(one)}, []
    told = lambda *step, **_: steps.append(step[0])  # noqa: E731
    guard(mods, "tvm", EndToEnd(fake, limit=TimeLimit(60.0), on_step=told))
    assert steps[:2] == ["building plan dnnl", "building plan tvm"]
    assert fake_compare["reference"][0] == "tvm"


def test_under_a_limit_a_full_disk_still_ends_the_guard(fake_compare):
    def build(module):
        raise MachineError("no room")

    with pytest.raises(MachineError, match="no room"):
        guard(plans(), "tvm", EndToEnd(build, limit=TimeLimit(60.0)))


def test_what_is_at_hand_is_not_built_again_and_who_was_far_behind_does_not_race(
    fake_compare, tmp_path
):
    """But for the plan that says what is right. Libraries are built when they are asked for."""
    file, built = tmp_path / "dnnl.so", []
    file.write_text("library")
    texts = {"tvm": "nn.relu", "dnnl": "tanh", "slow": "exp", "collage": "erf"}
    part = "def @main(%x: $T, %i: Tensor[(3), int32]) {{ ({}(%x), %i) }}"
    mods = {name: parse(part.format(op)) for name, op in texts.items()}
    behind = {name: Comparison(name, Cost.measured([9e-3] * 2)) for name in ("slow", "tvm", "gone")}

    def build(module):
        built.append(next(name for name, each in mods.items() if each is module))
        return FakeLibrary()

    how = EndToEnd(
        build,
        at_hand=lambda module: Linked(str(file)) if module is mods["dnnl"] else None,
        far_behind=behind,
    )
    result = guard(mods, "tvm", how)
    assert built == ["tvm", "collage"]
    assert sorted(fake_compare["names"]) == ["collage", "dnnl", "tvm"]
    assert result.comparisons[-1] == behind["slow"] and result.of("tvm") != behind["tvm"]
    assert "gone" not in [item.name for item in result.comparisons]
    assert result.of("dnnl").library_bytes == len("library")
    assert all(isinstance(result.libraries[name], FakeLibrary) for name in ("dnnl", "slow"))
    assert built == ["tvm", "collage", "dnnl", "slow"]


def test_who_was_far_behind_ships_no_plan_though_all_others_fail(fake_compare):
    """Its outputs may be right, but nobody has compared them here."""
    fake_compare["fail"] = ["tvm", "dnnl"]
    behind = {"collage": Comparison("collage", Cost.measured([9e-3] * 2))}
    texts = {"tvm": "nn.relu", "dnnl": "tanh", "collage": "erf"}
    part = "def @main(%x: $T, %i: Tensor[(3), int32]) {{ ({}(%x), %i) }}"
    mods = {name: parse(part.format(op)) for name, op in texts.items()}
    with pytest.raises(GuardUnavailable) as caught:
        guard(mods, "tvm", EndToEnd(fake, far_behind=behind))
    assert set(caught.value.failed) == {"tvm", "dnnl"}


def test_what_is_equal_to_a_plan_that_does_not_build_fails_with_it(fake_compare):
    mod = plans()["tvm"]

    def build(module):
        if module is broken:
            raise ValueError("no kernel")
        return FakeLibrary()

    broken = parse("def @main(%x: $T, %i: Tensor[(3), int32]) { (tanh(%x), %i) }")
    mods = {"tvm": mod, "other": broken, "collage": broken}
    result = guard(mods, "tvm", EndToEnd(build), same_as={"collage": "other"})
    assert result.of("collage").cost.status == "compile_failed" and set(result.libraries) == {"tvm"}
    with pytest.raises(KeyError):
        result.libraries["collage"]


def test_each_plan_is_exported_and_fed_the_same_random_inputs(fake_compare):
    how = EndToEnd(fake, seed=3, imports=("mine",), mod_name="my_net")
    result = guard(plans(), "tvm", how, of_rounds(7))
    asked = fake_compare["options"]
    assert (asked.imports[0], asked.give_up_ratio) == ("mine", GIVE_UP_RATIO)
    assert (asked.enough, fake_compare["mod_name"]) == ((6, 8.0), "my_net")
    assert result.winner == "tvm" and set(result.libraries) == set(ORDER)
    assert fake_compare["names"] == ORDER and all(fake_compare["files"])
    assert (fake_compare["reference"], fake_compare["rounds"], fake_compare["seed"]) == (
        ORDER,
        7,
        3,
    )
    assert (result.reference, result.unverified) == ("tvm", "")
    inputs = fake_compare["inputs"]
    assert inputs["x"].shape == (2, 4) and inputs["x"].dtype == "float32"
    assert inputs["i"].dtype == "int32" and inputs["x"].std() > 0
    guard(plans(), "tvm", EndToEnd(fake, seed=3))
    np.testing.assert_array_equal(fake_compare["inputs"]["x"], inputs["x"])
    given = np.arange(8, dtype="float32").reshape(2, 4)
    guard(plans(), "tvm", EndToEnd(fake, samples={"x": given}))
    np.testing.assert_array_equal(fake_compare["inputs"]["x"], given)
    assert fake_compare["inputs"]["i"].shape == (3,)


def test_a_plan_that_does_not_build_loses_with_its_reason(fake_compare):
    names = iter(ORDER)

    def build(module):
        if next(names) == "tvm":
            raise tvm.TVMError("Traceback\n  0: frame\nInternalError: no schedule\n")
        return FakeLibrary()

    result = guard(plans(), "tvm", EndToEnd(build))
    assert result.winner == "dnnl" and fake_compare["reference"] == ["dnnl", "collage"]
    cost = result.of("tvm").cost
    assert (cost.status, cost.message) == ("compile_failed", "InternalError: no schedule")
    assert "tvm" not in result.libraries


def test_no_plan_that_builds_is_an_error(fake_compare):
    def build(module):
        raise ValueError("no way")

    reasons = r"for the aot executor \(tvm, dnnl, collage: compile_failed: no way\)"
    with pytest.raises(GuardUnavailable, match=reasons):
        guard(plans(), "tvm", EndToEnd(build, executor="aot"))
    assert fake_compare == {}


OPEN = "(%x: Tensor[(?), float32]) { nn.relu(%x) }"


@pytest.mark.parametrize(
    "text, reason",
    [
        (OPEN, r"open dimensions \(x \[\?\]\) cannot be made up: .* the option sample_inputs"),
        ("(%x: (bool, bool)) { %x.0 }", "input x is no tensor of a fixed shape"),
    ],
)
def test_inputs_that_cannot_be_made_up_are_seen_before_anything_is_built(text, reason):
    mod = tvm.relay.fromtext(f'#[version = "0.0.5"]\ndef @main{text}')
    with pytest.raises(GuardUnavailable, match=reason):
        guard({"tvm": mod}, "tvm", EndToEnd(lambda module: pytest.fail("built"), executor="vm"))


def test_given_inputs_need_no_fixed_shape(fake_compare):
    mod = relay.transform.InferType()(tvm.relay.fromtext(f'#[version = "0.0.5"]\ndef @main{OPEN}'))
    given = np.zeros(7, "float32")
    guard({"tvm": mod}, "tvm", EndToEnd(fake, samples={"x": given}, executor="vm"))
    np.testing.assert_array_equal(fake_compare["inputs"]["x"], given)


IF = "def @main(%c: bool, %x: $T) { if (%c) { nn.relu(%x) } else { tanh(%x) } }"
CALL = "def @f(%x: $T) -> $T { nn.relu(%x) } def @main(%c: bool, %x: $T) { (@f(%x), %c) }"


@pytest.mark.parametrize(
    "text, given, sets",
    [(IF, {}, 4), (IF, {"c": np.array(True)}, 4), (IF, "all", 0), (CALL, {}, 0)],
)
def test_what_goes_several_ways_runs_on_several_sets_of_inputs(fake_compare, text, given, sets):
    mod = parse(text)
    if given == "all":
        given = {"c": np.array(True), "x": np.zeros((2, 4), "float32")}
    guard({"tvm": mod}, "tvm", EndToEnd(fake, samples=given, executor="vm"))
    c, x = fake_compare["inputs"]["c"], fake_compare["inputs"]["x"]
    assert (fake_compare["sets"], x.shape) == (sets, (4, 2, 4) if sets else (2, 4))
    assert len({row.tobytes() for row in x}) == len(x) or given, "each set is another"
    assert set(np.atleast_1d(c)) == ({True} if given else {True, False} if sets else {c.item()})


@pytest.mark.parametrize(
    "fail, used, said",
    [
        (["tvm"], "dnnl", "only those of collage: plan tvm gave none (crashed: signal 11"),
        (["tvm", "dnnl"], "collage", "nothing: plan tvm gave none (crashed: signal 11"),
    ],
)
def test_a_winner_that_was_not_compared_with_tvm_says_so(fake_compare, caplog, fail, used, said):
    fake_compare["fail"] = fail
    result = guard(plans(), "tvm", EndToEnd(fake))
    assert (result.winner, result.reference) == (used, used)
    assert result.unverified.startswith(f"its outputs were compared with {said}")
    assert f"plan {used} ships, but its outputs were compared with" in caplog.text


MADE_UP = "its inputs were made up: give real ones by the option sample_inputs"


def test_what_runs_on_no_made_up_inputs_is_told_of_real_ones(fake_compare):
    """No plan runs: TVM alone does not either, so it is the inputs or the model, not a backend."""
    fake_compare["fail"] = ORDER
    with pytest.raises(GuardUnavailable, match=f"tvm, .*: crashed: signal 11.; {MADE_UP}"):
        guard(plans(), "tvm", EndToEnd(fake))
    real = {"x": np.zeros((2, 4), "float32"), "i": np.zeros(3, "int32")}
    with pytest.raises(GuardUnavailable, match=r"signal 11\)$"):
        guard(plans(), "tvm", EndToEnd(fake, samples=real))
    fake_compare["fail"] = ["tvm"]
    assert MADE_UP in guard(plans(), "tvm", EndToEnd(fake)).unverified
    assert MADE_UP not in guard(plans(), "tvm", EndToEnd(fake, samples=real)).unverified


def test_plans_that_could_not_be_made_are_reported(fake_compare):
    lost = Cost.failed("unsupported", "no such backend")
    result = guard(plans(), "tvm", EndToEnd(fake), failed={"other": lost})
    assert result.of("other").cost == lost and result.winner == "tvm"
    assert "other" not in result.libraries


def test_the_winners_library_is_kept_and_the_others_are_built_again(fake_compare):
    built = []

    def build(module):
        built.append(tvm.transform.PassContext.current().opt_level)
        return FakeLibrary()

    with tvm.transform.PassContext(opt_level=1):
        result = guard(plans(), "tvm", EndToEnd(build))
    assert len(built) == 3
    assert result.libraries["tvm"] is result.libraries["tvm"] and len(built) == 3
    assert isinstance(result.libraries["dnnl"], FakeLibrary) and built == [1] * 4
    for ask in (result.libraries.__getitem__, result.of):
        with pytest.raises(KeyError):
            ask("nope")


def test_what_ships_is_built_as_it_is_deployed_when_it_is_asked_for(fake_compare):
    """Which is told of, by the plan's name."""
    shipped = []

    def ship(module):
        shipped.append(module)
        return FakeLibrary()

    @contextlib.contextmanager
    def telling(name):
        shipped.append(name)
        yield

    mods = plans()
    how = EndToEnd(lambda module: FakeLibrary(), ship=ship, telling=telling)
    result = guard(mods, "tvm", how)
    assert shipped == []
    assert result.libraries["tvm"] is result.libraries["tvm"] and shipped == ["tvm", mods["tvm"]]


def test_steps_are_told_as_they_come(fake_compare):
    steps = []

    def on_step(*step, is_waiting=False):
        steps.append((*step, is_waiting))

    guard(plans(), "tvm", EndToEnd(fake, on_step=on_step), of_rounds(7))
    assert steps == [
        *((f"building plan {name}", k, len(ORDER), False) for k, name in enumerate(ORDER)),
        ("waiting for another search", 0, 7, True),
        ("measuring", 0, 7, False),
        ("measuring", 7, 7, False),
    ]


def is_locked(folder):
    """Whether somebody, this process as well, has CPUs by the files there."""
    for file in folder.glob("*.lock"):
        with open(file) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def test_plans_are_built_and_linked_while_no_other_search_measures(tmp_path, monkeypatch):
    monkeypatch.setenv("COLLAGE_CPU_LOCKS", str(tmp_path))
    seen = []

    class Library(FakeLibrary):
        def export_library(self, path):
            seen.append(("link", is_locked(tmp_path)))
            super().export_library(path)

    def build(module):
        seen.append(("build", is_locked(tmp_path)))
        return Library()

    def compare(contestants, right, options):
        seen.append(("compare", is_locked(tmp_path)))  # which takes the CPUs for itself
        return [ran(item.name, 1) for item in contestants]

    guard(plans(), "tvm", EndToEnd(build, comparer=compare))
    assert seen == [("build", True), ("link", True)] * 3 + [("compare", False)]


def fails(error):
    def fail(*_, **keywords):
        raise error

    return fail


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("where", ["scratch", "inputs", "build", "link"])
def test_without_room_one_error_says_what_to_do(fake_compare, monkeypatch, tmp_path, where):
    if where == "scratch":
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    elif where == "inputs":
        monkeypatch.setattr(libraries, "save_arrays", fails(FULL))
    elif where == "link":
        monkeypatch.setattr(FakeLibrary, "export_library", fails(FULL))
    with pytest.raises(MachineError, match="(No such file|No space).* set TMPDIR") as error:
        guard(plans(), "tvm", EndToEnd(fails(FULL) if where == "build" else fake))
    assert "\n" not in str(error.value) and fake_compare == {}


def test_a_compiler_that_links_nothing_is_no_plans_fault(fake_compare, monkeypatch):
    monkeypatch.setattr(FakeLibrary, "export_library", fails(RuntimeError("Compilation error")))
    with pytest.raises(MachineError, match="cannot link an empty library.* set CXX"):
        guard(plans(), "tvm", EndToEnd(fake, compiler=shutil.which("false")))


def test_a_plan_that_cannot_be_linked_loses_with_its_reason(fake_compare):
    def build(module):
        library = FakeLibrary()
        if module is broken:
            library.export_library = fails(RuntimeError("undefined symbol"))
        return library

    broken = parse("def @main(%x: $T, %i: Tensor[(3), int32]) { (tanh(%x), %i) }")
    result = guard({**plans(), "dnnl": broken}, "tvm", EndToEnd(build))
    cost = result.of("dnnl").cost
    assert (cost.status, cost.message) == ("compile_failed", "RuntimeError: undefined symbol")
    assert "dnnl" not in result.libraries and fake_compare["names"] == ["tvm", "collage"]


def build_for_graph(module):
    with tvm.transform.PassContext(opt_level=1):
        return relay.build(module, target="llvm")


def test_real_plans_are_measured_and_compared_and_one_that_takes_too_much_does_not_ship():
    x = relay.var("x", shape=(1, 2048))
    zeros = relay.const(np.zeros((2048, 2048), "float32"))
    bodies = {
        "tvm": relay.nn.relu(x),
        "heavy": relay.nn.relu(x) + relay.nn.dense(x, zeros),
        "wrong": relay.tanh(x),
    }
    mods = {
        name: relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
        for name, body in bodies.items()
    }
    options = of_rounds(1, guard_library_mb=10)
    result = guard(mods, "heavy", EndToEnd(build_for_graph), options)
    heavy, light = result.of("heavy"), result.of("tvm")
    assert heavy.cost.status == "unsupported" and "guard_library_mb" in heavy.cost.message
    assert heavy.memory_bytes > heavy.library_bytes > 2048 * 2048 * 4 > 10 * light.library_bytes > 0
    assert light.memory_bytes < heavy.memory_bytes
    assert light.cost.status == "measured" and light.output_error == 0
    assert result.winner == "tvm" and result.reference == "heavy" and not result.unverified
    assert result.of("wrong").cost.status == "wrong_result"


def test_a_real_plan_that_is_wrong_one_way_alone_is_found():
    wrong = IF.replace("tanh(%x)", "exp(%x)")
    mods = {"tvm": parse(IF), "wrong": parse(wrong), "other": parse(IF.replace("(%c)", "(True)"))}
    how = EndToEnd(lambda module: build_vm(module, "llvm"), executor="vm")
    result = guard(
        mods,
        "tvm",
        how,
        of_rounds(1, guard_memory_mb=1000, guard_library_mb=10),
    )
    statuses = {item.name: item.cost.status for item in result.comparisons}
    assert statuses == {"tvm": "measured", "wrong": "wrong_result", "other": "wrong_result"}
    tvm_alone = result.of("tvm")
    assert result.winner == "tvm" and tvm_alone.memory_bytes > 0 < tvm_alone.library_bytes


def test_a_model_that_indexes_by_its_inputs_runs_on_made_up_ones():
    """An index that is out of range ends the process of every plan."""

    x = relay.var("x", shape=(5, 4, 9, 9))
    rois = relay.var("rois", shape=(6, 5))
    i, j = (relay.var(n, shape=s, dtype="int32") for n, s in (("i", (3, 1)), ("j", (1, 4))))
    from_one = relay.adv_index([x, i - relay.const(1), j])
    body = relay.Tuple([from_one, relay.vision.roi_align(x, rois, (3, 3), 1.0)])
    mod = tvm.IRModule.from_expr(relay.Function([x, rois, i, j], body))
    result = guard(
        {"tvm": relay.transform.InferType()(mod)},
        "tvm",
        EndToEnd(build_for_graph),
        of_rounds(1),
    )
    assert result.of("tvm").cost.status == "measured" and result.unverified == ""


@pytest.mark.parametrize("plan", [failed("a", "wrong_result"), ran("a", 1.0, reference=None)])
def test_what_limits_a_plan_that_trades_accuracy_is_shown_as_a_flag_where_options_are(plan):
    message = of_trader(plan, "the limit is " + option("accuracy_budget")).cost.message
    shown = message.with_options(lambda each: f"--{each.name}")
    assert shown.endswith("the limit is --accuracy_budget")
