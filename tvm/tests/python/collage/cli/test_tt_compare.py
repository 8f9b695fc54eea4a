# SPDX-License-Identifier: Apache-2.0
"""The whole pipeline of `collage tt` on two tiny nets, each step with a handful of trials, to what
transfers gained beside a search, who was the best source, and a picture."""

import argparse
import contextlib
import dataclasses
import io
import json
import math
from types import SimpleNamespace

import pytest
from tt_runs import SHAPE, answer, net
from tvm.relay.collage.cli.tt import compare, many
from tvm.relay.collage.cli.tt.gain import Gain, Side
from tvm.relay.collage.cli.tt.many import GainRow
from tvm.relay.collage.costs.statistics import Interval
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.tuning.ansor_kernel import AnsorKernel
from tvm.relay.collage.tuning.model import Model
from tvm.relay.collage.tuning.transfer.log import note_trial, read_ansor, trial_key, trials_of
from tvm.relay.collage.tuning.transfer.sources import sources_of
from tvm_collage.cli import main

LIMITS = ["--seconds", 250, "--progress", "quiet", *SHAPE]
MEASURED = ["--rounds", 3, "--progress", "quiet", *SHAPE]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pipeline")


SEARCH = ["--trials", 2, "--search-model", "random", *LIMITS]


@pytest.fixture(scope="module")
def steps(folder):
    """What each step answered of two nets' pipeline: a search of each, and the large one's
    schedules on the small one."""
    nets = {
        name: net(folder / f"{name}.onnx", size) for name, size in (("large", 12), ("small", 6))
    }
    logs = {name: folder / f"{name}.jsonl" for name in (*nets, "moved")}

    def run(action, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as told:
            assert main(["tt", action, *map(str, arguments), "--json"]) == 0
        return json.loads(told.getvalue())

    transfer = ["--from", logs["large"], "--choose", "--log", logs["moved"], *LIMITS]
    return SimpleNamespace(
        nets=nets,
        logs=logs,
        large=run("autoschedule", nets["large"], "--log", logs["large"], *SEARCH),
        moved=run("transfer", nets["small"], *transfer),
        small=run("autoschedule", nets["small"], "--log", logs["small"], *SEARCH),
    )


@pytest.fixture
def pipeline(steps):
    return steps.nets, steps.logs


def test_from_a_search_of_one_net_to_schedules_of_another(steps, tmp_path, capsys):
    found, log = steps.large, steps.logs["large"]
    assert found["seconds"] > 0 and len(read_ansor(log)) == 2
    assert (found["kernels"], found["searched"], found["failed"]) == (1, 1, {})
    assert (found["ended"], found["late"]) == ("trials", 0)
    search = ["autoschedule", steps.nets["large"], *SEARCH, "--log"]
    assert answer(capsys, *search, log) == found and len(read_ansor(log)) == 2
    best = tmp_path / "best.jsonl"
    assert answer(capsys, "distil", log, "-o", best) == {"trials": 2, "kept": 1}
    [row] = answer(capsys, "info", best)["kernels"]
    assert (row["trials"], row["share_of_class"]) == (1, 1.0) and row["seconds"] > 0
    scores = answer(capsys, "choose", steps.nets["small"], "--from", best, *SHAPE)
    assert scores == {str(best): 1.0}
    found = steps.moved
    assert (found["kernels"], found["served"], found["outcomes"]) == (1, 1, {"adapted": 1})
    [trial] = read_ansor(steps.logs["moved"])
    assert trial.seconds == found["rows"][0]["seconds"] and "6, 6" in trial.workload
    # A log of another tool does not say what its kernels are; the advice about it is right.
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_text("".join(f"{line.text}\n" for line in read_ansor(log)))
    transfer = ["transfer", steps.nets["small"], "--log", tmp_path / "new", "--from", foreign]
    assert "no schedule in" in answer(capsys, *transfer, *LIMITS, code=1)["error"]
    found = answer(capsys, *search, foreign, "--trials", 1)
    assert found["searched"] == 1 and len(read_ansor(foreign)) == 2
    assert answer(capsys, *transfer, *LIMITS)["served"] == 1


def test_compare_measures_whole_models_and_plot_draws_what_it_wrote(pipeline, folder, capsys):
    nets, logs = pipeline
    given = ["--transferred", logs["moved"], "--ansor", logs["small"], "-o", folder / "gain.json"]
    found = answer(capsys, "compare", nets["small"], *given, *MEASURED)
    assert found == json.loads((folder / "gain.json").read_text())
    sides = {side["name"]: side for side in found["sides"]}
    assert {"untuned", "transferred", "ansor same time", "ansor"} <= set(sides)
    assert all(side["speedup"] for side in sides.values()), sides
    assert sides["transferred"]["search_seconds"] > 0 and sides["untuned"]["search_seconds"] == 0
    assert found["trials"] == {"transferred": 1, "ansor": 2}
    pytest.importorskip("matplotlib", reason="the extra peers is not installed")
    picture = folder / "gain.png"
    assert answer(capsys, "plot", folder / "gain.json", "-o", picture) == {"picture": str(picture)}
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_search_stops_at_the_transfers_time_or_when_it_matches(pipeline, folder, capsys):
    nets, logs = pipeline
    brief = folder / "brief.jsonl"
    note_trial(brief, "a", {"outcome": "invalid", "seconds": None, "reason": "", "took": 1e-3})
    search = [nets["small"], *SEARCH, "--trials", 9]
    found = answer(
        capsys, "autoschedule", *search, "--log", logs["large"], "--same-time", brief, code=1
    )
    assert (found["searched"], found["ended"], found["late"]) == (0, "time", 1)
    # The search before it left trials, so that an end by time is no failure.
    log = logs["small"]
    before = len(read_ansor(log))
    found = answer(capsys, "autoschedule", *search, "--log", log, "--same-time", brief)
    assert (found["searched"], found["ended"], found["late"]) == (1, "time", 1)
    # Its own trials are as fast as themselves.
    found = answer(capsys, "autoschedule", *search, "--log", log, "--match", log)
    assert (found["searched"], found["ended"], found["late"]) == (1, "matched", 0)
    assert found["failed"] == {} and len(read_ansor(log)) == before


def test_many_tells_what_the_heuristic_chose_and_what_was_best(pipeline, folder, capsys):
    """From another model's log and from both pooled, of which the model's own is left out."""
    nets, logs = pipeline
    given = ["--from", logs["large"], logs["small"], "--runs", 2, "-o", folder / "many"]
    many = ["many", nets["small"], *given, "--rounds", 3, *LIMITS]
    late = answer(capsys, *many, "--seconds", 1e-3)
    assert (late["rows"], late["choices"]) == ([], [])  # what time ended is no row
    assert late["untried"] == [
        {"model": "small", "log": log, "schedules": 2} for log in ("large", "pooled")
    ]
    found = answer(capsys, *many)
    assert found["untried"] == []
    single, pooled = found["rows"]
    assert [row["log"] for row in found["rows"]] == ["large", "pooled"]
    for row in found["rows"]:
        assert (row["model"], row["served"], row["runs"]) == ("small", 1, 2)
        assert set(row["speedup"]) == {"value", "low", "high"}
        assert row["score"] == 1.0 and row["search_seconds"] > 0
    [source] = sources_of([logs["large"]])
    [kernel] = [each.kernel for each in sources_of([logs["small"]])]
    [target] = {line.target for line in read_ansor(logs["small"])}
    tried = sorted((folder / "many").glob("small-pooled-*.jsonl"))
    assert [set(trials_of(log)) for log in tried] == 2 * [{trial_key(target, kernel, source)}]
    [choice] = found["choices"]
    assert choice["chosen"] == choice["best"] == {"log": "large", "speedup": single["speedup"]}
    assert choice["pooled"] == {"log": "pooled", "speedup": pooled["speedup"]}
    assert answer(capsys, *many) == found  # nothing is done again
    assert main(["tt", *map(str, many)]) == 0
    assert "small: chosen large" in capsys.readouterr().out


QUESTION = {"target": "llvm", "shape": [], "best": 1, "schedules": None, "without": []}
QUESTION |= {"rounds": 30, "runs": 1}


@pytest.mark.parametrize(
    "change",
    [{"best": 2}, {"schedules": 3}, {"without": ["conv2d"]}, {"rounds": 9}, {"runs": 2}]
    + [{"target": "llvm -num-cores=2"}, {"shape": [("x", (1, 3))]}, "model", "log"],
    ids=str,
)
def test_a_row_is_of_its_options_and_of_what_its_files_contain(tmp_path, change):
    model, own, other = (tmp_path / name for name in ("net.onnx", "net.jsonl", "other.jsonl"))
    for path in (model, own, other):
        path.write_text(path.name)
    logs = {"net": [own], "other": [other], many.POOLED: [own, other]}

    def questions(**more):
        return many._questions(model, logs, argparse.Namespace(**QUESTION, **more))

    before = questions()
    assert {each.log: given for each, given in before.items()} == {
        "other": [other],
        many.POOLED: [other],
    }
    own.write_text("grown")
    assert questions(seconds=1.0) == before
    if isinstance(change, str):
        {"model": model, "log": other}[change].write_text("grown")
        after = questions()
    else:
        after = many._questions(model, logs, argparse.Namespace(**{**QUESTION, **change}))
    assert len(after) == 2 and not set(after) & set(before)


def test_a_log_of_another_name_with_the_models_own_kernels_is_named(caplog):
    own, shared, foreign = (AnsorKernel(each, each, "kind", (), (1,), 1.0) for each in "abc")
    model = Model(None, [own, shared])
    many._warn_of_own("net", model, {"net-2": [own, shared], "half": [shared], "far": [foreign]})
    [record] = caplog.records
    assert "the log net-2 has schedules of 2 of the 2 kernels of net itself" in record.getMessage()
    assert "name it net.jsonl" in record.getMessage()


def test_kernels_and_schedules_can_be_left_out(pipeline, folder, capsys):
    nets, logs = pipeline
    given = ["transfer", nets["small"], "--from", logs["large"], "--best", 2, *LIMITS]
    found = answer(capsys, *given, "--log", folder / "few.jsonl", "--schedules", 1)
    assert found["kernels"] == 1 and sum(found["outcomes"].values()) == 1
    log = folder / "none.jsonl"
    found = answer(capsys, *given, "--log", log, "--without", "conv2d", code=2)
    assert "--without conv2d leaves none of the 1 kernels of small" in found["error"]
    assert not log.exists()


def test_user_errors_of_comparing(pipeline, folder, capsys):
    nets, logs = pipeline
    (folder / "no.json").write_text("{}")
    empty = ["--transferred", folder / "absent", "--ansor", logs["small"]]
    for arguments, words in [
        (["compare", nets["small"], *empty, *MEASURED], "absent: No such file"),
        (
            ["plot", folder / "no.json", "-o", folder / "x.png"],
            "no.json is no answer of collage tt compare: name what `collage tt compare -o FILE` "
            "wrote",
        ),
        (
            ["autoschedule", nets["small"], "--log", folder / "x", *SEARCH]
            + ["--same-time", logs["large"]],
            "large.jsonl has no trials of a transfer: name what `collage tt transfer` wrote",
        ),
    ]:
        assert words in answer(capsys, *arguments, code=1)["error"]
    twice = ["--from", logs["large"], logs["large"], "-o", folder / "many"]
    found = answer(capsys, "many", nets["small"], *twice, code=2)
    assert "logs need names of their own" in found["error"]
    given = ["--from", logs["large"], "-o", folder / "many"]
    found = answer(capsys, "many", nets["small"], nets["small"], *given, code=2)
    assert "models need names of their own" in found["error"]


def test_rows_that_are_none_are_measured_again_and_counted(tmp_path, caplog):
    row = GainRow("net", "log", "digest", 30, 1, 1.0, 2, 1, 3.0, Interval(1.5, 1.4, math.inf), "")
    older = {**row.to_json(), "speedup": [1.5, 1.4, 1.6]}
    lines = [row.to_json(), older]
    file = tmp_path / "many.jsonl"
    file.write_text("\n".join(json.dumps(line, allow_nan=False) for line in lines) + '\n{"model":')
    found = many._known(file)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert f"{file}: 2 rows could not be read" in record.getMessage()
    caplog.clear()
    file.write_text(json.dumps(row.to_json(), allow_nan=False))
    assert many._known(file) and not caplog.records
    assert found == {row.question: row}
    chosen = many.choice("net", list(found.values()))
    assert many.choice_text("net", chosen) == "net: chosen log 1.500, best log 1.500"
    assert many.choice_text("net", many.choice("net", [])) == "net: nothing to choose of"


def test_what_failed_ends_many_with_1_and_is_made_again_by_the_next_run(
    pipeline, tmp_path, monkeypatch, capsys
):
    nets, logs = pipeline
    outcomes = [(None, "large: crashed"), (Interval(1.5, 1.4, 1.6), "")]

    def rows_of(path, asked, options):
        [question] = asked
        return [GainRow(*vars(question).values(), 1.0, 1, 1, 3.0, *outcomes.pop(0))], {}

    monkeypatch.setattr(many, "rows_of", rows_of)
    given = ["many", nets["small"], "--from", logs["large"], "-o", tmp_path]
    [row] = answer(capsys, *given, code=1)["rows"]
    assert (row["speedup"], row["failure"]) == (None, "large: crashed")
    [row] = answer(capsys, *given)["rows"]
    assert (row["speedup"]["value"], row["failure"]) == (1.5, "")
    assert answer(capsys, *given)["rows"] == [row] and not outcomes


@pytest.mark.parametrize("name", ["untuned", "large"])
def test_a_row_says_what_failed(pipeline, tmp_path, monkeypatch, name, capsys):
    """Of a model that could not be timed untuned nothing can be said, however fast it is else."""
    nets, logs = pipeline

    def compare_records(candidate, records, *_, **more):
        assert list(records) == ["large"]
        costs = {each: Cost.given(1e-3) for each in ("untuned", "large")}
        costs[name] = Cost.failed("crashed", "signal 11")
        return [
            Comparison(each, cost, samples=() if each == name else (1e-3, 1e-3))
            for each, cost in costs.items()
        ]

    monkeypatch.setattr(many, "compare_records", compare_records)
    given = ["many", nets["small"], "--from", logs["large"], "-o", tmp_path, *LIMITS]
    [row] = answer(capsys, *given, code=1)["rows"]
    assert (row["speedup"], row["failure"]) == (None, f"{name}: crashed: signal 11")


@pytest.mark.parametrize("failed", [[], ["ansor"]], ids=str)
def test_a_side_that_failed_ends_compare_with_1(pipeline, failed, monkeypatch, capsys):
    nets, logs = pipeline
    sides = [
        Side(name, 1.0, None, None, "crashed: signal 11")
        if name in failed
        else Side(name, 1.0, Interval(1.5, 1.4, 1.6), 1e-3)
        for name in ("untuned", "transferred", "ansor")
    ]
    gain = Gain("small", tuple(sides), {}, None)
    monkeypatch.setattr(compare, "compare_searches", lambda *_, **__: gain)
    monkeypatch.setattr(compare, "open_net", lambda *_: None)
    given = ["tt", "compare", nets["small"], "--transferred", logs["moved"], "--ansor"]
    assert main([*map(str, given), str(logs["small"])]) == len(failed)
    assert ("ansor: crashed: signal 11" in capsys.readouterr().out) == bool(failed)


def test_a_row_of_few_rounds_has_no_interval():
    row = GainRow("net", "log", "digest", 30, 1, 1.0, 2, 1, 3.0, Interval(1.5, 0.0, math.inf), "")
    assert row.Summary().startswith(
        "net from log: 1.500 times as fast as untuned (too few rounds to be sure), 1 of 2 kernels"
    )
    row = dataclasses.replace(row, speedup=Interval(1.5, 1.4, 1.6))
    assert "log: 1.500 [1.400, 1.600] times as fast" in row.Summary()


def test_a_picture_that_cannot_be_drawn_is_one_line(tmp_path, capsys):
    side = {"name": "transferred", "search_seconds": 1.0, "speedup": None, "seconds": None}
    found = {"model": "net", "sides": [side], "trials": {}, "matching_seconds": None}
    (tmp_path / "gain.json").write_text(json.dumps(found))
    error = answer(capsys, "plot", tmp_path / "gain.json", "-o", tmp_path / "x.nope", code=2)
    assert "x.nope was not drawn: " in error["error"]
