# SPDX-License-Identifier: Apache-2.0
"""The script that makes the schedules of the package, on a tiny net with two trials."""

import dataclasses
import json
import os
import types

import make_records
import pytest
from transfer_nets import conv, kernel, source
from tt_runs import SHAPE, net
from tuned_choices import judge_as
from tvm.relay.collage.tuning.ansor_kernel import to_comment
from tvm.relay.collage.tuning.transfer import shipped
from tvm.relay.collage.tuning.transfer.log import read_ansor


@pytest.mark.slow("five runs of the script, a minute of Ansor's search")
def test_a_search_becomes_a_file_of_best_trials_that_says_how_it_was_made(
    tmp_path, capsys, monkeypatch
):
    judged = judge_as(True, monkeypatch)
    made, output = net(tmp_path / "small.onnx", 6), tmp_path / "records" / "x86-256.jsonl"
    given = [made, "--folder", str(tmp_path / "logs"), "--trials", "2", "--budget", "250"]
    given += ["--search-model", "random", "--output", str(output), *SHAPE]
    assert make_records.main(given) == 0 and "1 kernels are faster" in capsys.readouterr().out
    # Of the net's candidate with its kernel, as they were measured.
    assert judged and all(cost.is_usable for costs in judged for cost in costs)
    [line] = read_ansor(output)
    trials = read_ansor(tmp_path / "logs" / "small.jsonl")
    assert len(trials) == 2 and line.seconds == min(each.seconds for each in trials)
    facts = shipped.made(output)
    assert facts["nets"] == {"small": 2} and facts["cpu"] and facts["threads"] >= 1
    before = output.read_text()
    assert make_records.main(given) == 0  # nothing is searched again
    assert output.read_text() == before and len(read_ansor(tmp_path / "logs" / "small.jsonl")) == 2
    assert json.loads(before.splitlines()[0][len(shipped.MADE) :]) == facts
    # More than the budget has time for: what there is goes into the file, with or without a search.
    early = [*given, "--trials", "100000", "--best", "100000", "--budget", "6"]
    assert make_records.main(early) == 0
    assert "time ended the search of 1 kernels" in capsys.readouterr().out
    trials = read_ansor(tmp_path / "logs" / "small.jsonl")
    assert 2 <= len(trials) < 100000 and shipped.made(output)["nets"] == {"small": len(trials)}
    output.unlink()
    assert make_records.main([*given, "--budget", "0"]) == 0
    assert len(read_ansor(output)) == 1
    assert len(read_ansor(tmp_path / "logs" / "small.jsonl")) == len(trials)
    # A kernel that TVM's default schedule makes as fast is left out.
    judge_as(False, monkeypatch)
    before = output.read_text()
    assert make_records.main([*given, "--budget", "0"]) == 1
    assert "no kernel has a trial that is faster than TVM's default" in capsys.readouterr().err
    assert output.read_text() == before
    assert len(read_ansor(tmp_path / "logs" / "small.jsonl")) == len(trials)


def test_a_net_that_is_none_is_named(tmp_path, capsys):
    (tmp_path / "a.onnx").write_text("none")
    code, _ = run(tmp_path)
    assert code == 1 and "a.onnx cannot be read as an ONNX model" in capsys.readouterr().err


# Ansor's steps for it do not matter here.
FAST = [["CI", 5]]


@pytest.fixture
def searched(tmp_path, monkeypatch):
    """What each net's search is given; it finds two trials of a kernel, which all nets have."""
    found = {}

    def search(net, log, seconds, options):
        found[net.stem] = seconds
        log.write_text("".join(f"{line}\n" for line in trials()))

    monkeypatch.setattr(make_records, "search", search)
    monkeypatch.setattr(make_records, "worth_shipping", lambda *_: {kernel(conv).workload})
    return found


def trials():
    """A kernel's comment, and lines of its log: the second trial is the faster."""
    lines = [source(FAST).line] * 2
    rows = [json.loads(line) for line in lines]
    for row, seconds in zip(rows, (2e-3, 1e-3), strict=True):
        row["r"][0] = [seconds]
    return [to_comment(kernel(conv)), *map(json.dumps, rows)]


def run(tmp_path, *given):
    output = tmp_path / "records" / "x86-256.jsonl"
    nets = [str(tmp_path / f"{name}.onnx") for name in ("a", "b")]
    folder = ["--folder", str(tmp_path / "logs"), "--output", str(output)]
    return make_records.main([*nets, *folder, *given]), output


def test_the_budget_is_shared_and_what_one_net_leaves_is_the_next_ones(
    searched, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(make_records, "time", types.SimpleNamespace(monotonic=lambda: 0.0))
    code, output = run(tmp_path, "--budget", "60")
    assert code == 0 and "1 kernels are faster" in capsys.readouterr().out
    assert searched == {"a": 30.0, "b": 60.0}
    [line] = read_ansor(output)  # of both nets: one kernel
    assert line.seconds == 1e-3 and shipped.made(output)["nets"] == {"a": 2, "b": 2}
    code, output = run(tmp_path, "--budget", "60", "--best", "3")
    assert [line.seconds for line in read_ansor(output)] == [1e-3, 1e-3, 2e-3]
    assert output.read_text().count("# kernel") == 1


@pytest.mark.parametrize(("level", "bits"), [(2, 128), (3, 256), (4, 512)])
def test_the_file_is_the_one_for_the_target_whatever_this_cpu_has(
    searched, tmp_path, monkeypatch, level, bits
):
    monkeypatch.setattr(shipped, "RECORDS", tmp_path / "records")
    given = [str(tmp_path / "a.onnx"), "--folder", str(tmp_path / "logs"), "--budget", "60"]
    assert make_records.main([*given, "--target", f"llvm -mcpu=x86-64-v{level}"]) == 0
    [file] = (tmp_path / "records").iterdir()
    assert file.name == f"x86-{bits}.jsonl" and shipped.made(file)["nets"] == {"a": 2}


def test_a_target_that_is_none_is_named_before_any_search(searched, tmp_path, capsys):
    given = [str(tmp_path / "a.onnx"), "--folder", str(tmp_path / "logs"), "--target", "lvm"]
    assert make_records.main(given) == 1 and not searched
    assert "make_records: --target: TVM knows no target 'lvm'" in capsys.readouterr().err


def test_a_kernel_that_hardly_counts_in_its_net_is_left_out(tmp_path):
    kernels = [kernel(conv), *(kernel(conv, size=size) for size in (4, 16))]
    # Seconds, and how often the net runs it: half of the time, half of it, and nearly nothing.
    shares = [(1e-2, 1), (1e-3, 10), (1e-4, 1)]
    log = tmp_path / "net.jsonl"
    for each, (seconds, calls) in zip(kernels, shares, strict=True):
        row = json.loads(source(FAST, seconds=seconds).line)
        row["i"][0][0] = each.workload
        with open(log, "a") as file:
            print(to_comment(dataclasses.replace(each, calls=calls)), file=file)
            print(json.dumps(row), file=file)
    assert make_records.that_count(log) == {each.workload for each in kernels[:2]}


def test_a_file_that_is_too_large_and_one_without_a_trial_are_not_written(
    searched, tmp_path, capsys, monkeypatch
):
    code, output = run(tmp_path, "--budget", "0")
    assert not searched and code == 1
    assert "give it more --trials and a larger --budget" in capsys.readouterr().err
    monkeypatch.setattr(make_records, "MOST_BYTES", 100)
    code, output = run(tmp_path, "--budget", "60")
    said = capsys.readouterr().err
    assert code == 1 and "and 100 is the most: name fewer nets or a smaller --best" in said
    assert not os.path.exists(output)
