# SPDX-License-Identifier: Apache-2.0
"""bench/transfer.py on two tiny nets: it goes on where it stopped; what a page says of records."""

import json
from types import SimpleNamespace

import pytest
import transfer
from harness import records
from harness.resume import Book, Job
from summaries import transfers
from tt_runs import SHAPE, net
from tvm.relay.collage.tuning.transfer.log import read_ansor, trials_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("transfer")
    for name, size in (("large", 12), ("small", 6)):
        net(folder / f"{name}.onnx", size)
    return folder


def arguments(folder, *more):
    given = ["--nets", "large,small", "--folder", folder, "--record", folder / "record.jsonl"]
    given += ["--trials", 2, "--search-model", "random", "--rounds", 3, *SHAPE, *more]
    return [str(each) for each in given]


@pytest.mark.slow("two nets searched, and compared in four ways each")
def test_both_nets_get_each_others_schedules_and_a_row_of_the_page(folder, capsys):
    assert transfer.main(arguments(folder, "--budget", 1e-3)) == 0
    assert "run it again to go on" in capsys.readouterr().out
    assert not (folder / "record.jsonl").exists()
    assert transfer.main(arguments(folder)) == 0
    found = [json.loads(line) for line in (folder / "record.jsonl").read_text().splitlines()]
    assert [(row["net"], row["from"]) for row in found] == [
        ("large", ["small"]),
        ("small", ["large"]),
    ]
    for row in found:
        sides = {side["name"]: side for side in row["gain"]["sides"]}
        assert sides["transferred"]["speedup"] and sides["ansor"]["speedup"]
        assert row["outcomes"] == {"adapted": 1} and row["kernels"] == 1
        assert len(read_ansor(folder / f"{row['net']}.jsonl")) == 2
        assert len(trials_of(folder / f"{row['net']}-transferred.jsonl")) == 1
    said = capsys.readouterr().out
    assert "| small |" in said and "2 adapted" in said
    assert "large 2 trials for 1 kernels" in said


ANSWERS = {
    "autoschedule": {"ended": "trials"},
    "transfer": {"untried": 0, "kernels": 1, "outcomes": {"adapted": 1}},
}


@pytest.fixture
def asked(monkeypatch):
    """The commands that were run, by a fake which answers as ANSWERS or `answers` says."""
    commands, answers = [], {}

    def run_tt(options, action, *given):
        commands.append((action, *given))
        gain = record_of("net", {"transferred": (2, 2, 2), "ansor": (4, 4, 4)})["gain"]
        return {**ANSWERS, "compare": gain, **answers}[action]

    monkeypatch.setattr(transfer, "run_tt", run_tt)
    return SimpleNamespace(commands=commands, answers=answers)


def test_each_net_is_searched_and_gets_the_others_schedules_and_goes_on(folder, asked, capsys):
    record = str(folder / "fake.jsonl")
    given = arguments(folder, "--record", record)
    for answers in ({"autoschedule": {"ended": "time"}}, {"transfer": {"untried": 3}}):
        asked.answers |= answers
        assert transfer.main(given) == 0 and "run it again" in capsys.readouterr().out
        asked.answers.clear()
    assert not [each for each in asked.commands if each[0] == "compare"]
    asked.commands.clear()
    assert transfer.main(given) == 0
    said = capsys.readouterr().out
    assert "| small |" in said and "Geometric mean: transferred 2.00" in said and "49 %" in said
    logs = {name: str(folder / f"{name}.jsonl") for name in ("large", "small")}
    moves = [each for each in asked.commands if each[0] == "transfer"]
    assert [each[each.index("--from") + 1] for each in moves] == [logs["small"], logs["large"]]
    assert len([each for each in asked.commands if each[0] == "compare"]) == 2
    asked.commands.clear()
    assert transfer.main(given) == 0 and "is in fake.jsonl" in capsys.readouterr().out
    assert not [each for each in asked.commands if each[0] == "compare"]


def test_a_net_that_cannot_be_exported_one_net_alone_and_a_target_that_is_none_are_named(
    folder, capfd
):
    given = arguments(folder)
    given[1] = "small,resnet18"
    lacking = ["--torch-python", str(folder / "no-python")]
    assert transfer.main([*given, *lacking]) == 1
    said = capfd.readouterr().err
    assert "transfer: collage tt export --models resnet18: --python" in said
    given[1] = "small"
    with pytest.raises(SystemExit) as ended:
        transfer.main(given)
    assert ended.value.code == 2 and "at least two" in capfd.readouterr().err
    assert transfer.main([*arguments(folder), "--target", "no-such"]) == 1
    assert "--target: TVM knows no target 'no-such'" in capfd.readouterr().err


def speedup(value, low, high):
    return {"value": value, "low": low, "high": high}


@pytest.mark.parametrize(
    ("target", "bits"),
    [("llvm -mcpu=skylake-avx512", 512), ("llvm -mcpu=core-avx2", 256), ("llvm", 128)],
)
def test_a_row_is_of_the_vectors_that_the_target_has_and_not_the_cpu(target, bits):
    options = transfer.parse(["--target", target])
    assert transfer.key_of("a", options) == {"net": "a", "vector_bits": bits}


@pytest.mark.parametrize("more", [["--rounds", "4"], ["--nets", "b,c"], ["--trials", "9"]])
def test_what_was_found_with_other_sources_or_rounds_is_found_anew(tmp_path, more):
    given = ["--record", str(tmp_path / "record.jsonl"), "--nets", "a,b", "--rounds", "3"]
    key = transfer.key_of("b", transfer.parse(given))
    job = Job("b", key, dict)

    def standing(given):
        options = transfer.parse(given)
        conditions = transfer.conditions_of(options)
        return Book(options.record, transfer.KEY, conditions).standing(job)

    conditions = transfer.conditions_of(transfer.parse([*given[:2], "--nets", "b,a", *given[4:]]))
    records.save(tmp_path / "record.jsonl", transfer.KEY, {**key, "conditions": conditions})
    assert standing(given) is not None, "an order of nets is no other condition"
    assert standing([*given, *more]) is None


def record_of(net, speedups, **more):
    """A record of a net, with speed-ups by the names of sides; None for a side that has none."""
    sides = [
        {"name": name, "search_seconds": 36.0, "seconds": 1e-2, "speedup": each and speedup(*each)}
        for name, each in {"untuned": (1, 1, 1), **speedups}.items()
    ]
    return {
        "net": net,
        "vector_bits": 256,
        "kernels": 11,
        "outcomes": {"adapted": 3, "invalid": 1},
        "gain": {
            "model": net,
            "sides": sides,
            "matching_seconds": 72.0,
            "trials": {"ansor": 700},
        },
        "conditions": {"machine": {"cpu": "a CPU", "cores": 2}},
        "date": "2026-11-26",
        **more,
    }


def test_the_papers_figures_stand_beside_ours():
    moved, searched = (1.5, 1.4, 1.6), (2, 2, 2)
    found = record_of("resnet18", {"transferred": moved, "ansor": searched})
    text = transfers.tables([found])
    row = "| 1.50 [1.40, 1.60] in 36 s | - | 2.00 in 36 s | 50 [40, 60] % | 72 s (2.0 times) |"
    assert f"{row} 1.2 in 72 s |" in text
    assert "3 adapted, 1 invalid" in text and "In the paper transferring reaches 49 %" in text
    wide = record_of("vgg16", {"transferred": moved, "ansor": None}, vector_bits=512)
    text = transfers.tables([wide, found])
    narrow, _, wide = text.partition("### TVM for vectors of 512 bits")
    assert (
        "### TVM for vectors of 256 bits" in narrow
        and "| resnet18 |" in narrow
        and "60] %" in narrow
    )
    assert "| vgg16 |" in wide and "No net has both." in wide and "| resnet18 |" not in wide


def test_both_ways_are_compared_over_the_nets_that_have_both():
    found = [
        record_of("a", {"transferred": (2, 2, 2), "ansor": (4, 4, 4)}),
        record_of("b", {"transferred": (8, 8, 8), "ansor": (1, 1, 1)}),
        record_of("c", {"transferred": (9, 9, 9), "ansor": None}),
    ]
    text = transfers.tables(found)
    assert "Geometric mean: transferred 4.00, Ansor's long search 2.00." in text
