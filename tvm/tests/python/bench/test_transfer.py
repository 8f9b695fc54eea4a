# SPDX-License-Identifier: Apache-2.0
"""bench/transfer.py and bench/transfer_choices.py on two tiny nets: they go on where they stopped,
and write their parts of a page."""

import json
import time
from types import SimpleNamespace

import pytest
import transfer
import transfer_choices
from harness import records
from harness.resume import Book, Job
from tt_runs import SHAPE, net
from tvm.relay.collage.exec.reply import Reply
from tvm.relay.collage.tuning.ansor_kernel import AnsorKernel
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
    capsys.readouterr()
    assert transfer.main(arguments(folder)) == 0
    said = capsys.readouterr().out
    assert "is in record.jsonl" in said  # nothing is measured again
    assert "| small |" in said and "Geometric mean: transferred" in said and "49 %" in said
    page = folder / "page.md"
    page.write_text("<!-- record.jsonl: begin -->\nold\n<!-- record.jsonl: end -->\n")
    assert transfer.main(arguments(folder, "--write-docs", "--docs", page)) == 0
    text = page.read_text()
    assert "old" not in text and "| small |" in text and "2 adapted" in text
    assert "large 2 trials for 1 kernels" in text
    given = arguments(folder, "--record", folder / "choices.jsonl")
    assert transfer_choices.main(given) == 0
    rows = [json.loads(line) for line in (folder / "choices.jsonl").read_text().splitlines()]
    chosen = {row["net"]: row["choice"]["chosen"]["log"] for row in rows}
    assert chosen == {"large": "small", "small": "large"}
    assert all(row["choice"]["best"] == row["choice"]["chosen"] for row in rows)
    assert all(row["rows"][0]["served"] == 1 for row in rows)
    capsys.readouterr()
    assert transfer_choices.main(given) == 0
    said = capsys.readouterr().out
    assert "is in choices.jsonl" in said and "on 2 of 2 nets" in said and "1.000 times" in said
    page.write_text("<!-- choices.jsonl: begin -->\nold\n<!-- choices.jsonl: end -->\n")
    assert transfer_choices.main([*given, "--write-docs", "--docs", str(page)]) == 0
    assert "old" not in page.read_text() and "| small | large " in page.read_text()


def test_the_table_of_choices_tells_how_good_they_are_and_what_lacks_is_named(tmp_path, capsys):
    def row(log, value):
        return {"log": log, "speedup": speedup(value, value / 2, value)}

    conditions = {"machine": {"cpu": "a CPU", "cores": 2}}
    rows = [{"search_seconds": 2.0}, {"search_seconds": 3.0}]
    good = {"model": "a", "chosen": row("b", 2.0), "best": row("b", 2.0), "pooled": row("all", 1.5)}
    poor = {"model": "b", "chosen": row("c", 1.0), "best": row("a", 4.0), "pooled": None}
    none = {"model": "c", "chosen": None, "best": None, "pooled": None}
    found = [
        {
            "net": each["model"],
            "rows": rows,
            "choice": each,
            "conditions": conditions,
            "date": "2026-11-26",
        }
        for each in (good, poor, none)
    ]
    text = transfer_choices.tables(found)
    assert "on 1 of 2 nets" in text and "has 0.500 times the best one's speed" in text
    assert "| b | c 1.00 [0.50, 1.00] | a 4.00 [2.00, 4.00] | - | 5 |" in text
    assert "| c | - | - | - | 5 |" in text and "a CPU, 2 CPUs" in text
    given = ["--nets", "a,b", "--folder", str(tmp_path), "--record", str(tmp_path / "r.jsonl")]
    assert transfer_choices.main(given) == 1
    assert "a.onnx is not there: bench/transfer.py makes it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "reply, is_done",
    [
        (Reply("failed", type="RuntimeError", message="RuntimeError: another time"), True),
        (Reply("timeout", message="killed after 3 s"), False),
    ],
)
def test_a_kernel_whose_search_fails_does_not_keep_the_run_from_its_end(tmp_path, reply, is_done):
    kernel = AnsorKernel("work", "conv", "kind", ("sum",), (1, 16), 1e6)
    model = SimpleNamespace(
        candidate=SimpleNamespace(target="llvm", to_json=dict), kernels=[kernel]
    )
    workers = SimpleNamespace(run=lambda jobs, concurrency: [reply] * len(jobs))
    nets = SimpleNamespace(of=lambda name: (model, workers))
    options = transfer.parse(["--nets", "a,b", "--folder", str(tmp_path)])
    assert transfer.search(nets, "a", options, time.monotonic() + 60) == is_done


def test_a_net_that_cannot_be_exported_one_net_alone_and_a_target_that_is_none_are_named(
    folder, capsys
):
    given = arguments(folder)
    given[1] = "small,resnet18"
    lacking = ["--torch-python", str(folder / "no-python")]
    assert transfer.main([*given, *lacking]) == 1
    assert "resnet18: collage: --python" in capsys.readouterr().err
    given[1] = "small"
    with pytest.raises(SystemExit) as ended:
        transfer.main(given)
    assert ended.value.code == 2 and "at least two" in capsys.readouterr().err
    assert transfer.main([*arguments(folder), "--target", "no-such"]) == 1
    assert "--target: TVM knows no target 'no-such'" in capsys.readouterr().err


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
        return Book(options.record, transfer.KEY, conditions, transfer.COUNTED).standing(job)

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
    text = transfer.tables([found])
    row = "| 1.50 [1.40, 1.60] in 36 s | - | 2.00 in 36 s | 50 [40, 60] % | 72 s (2.0 times) |"
    assert f"{row} 1.2 in 72 s |" in text
    assert "3 adapted, 1 invalid" in text and "In the paper transferring reaches 49 %" in text
    wide = record_of("vgg16", {"transferred": moved, "ansor": None}, vector_bits=512)
    text = transfer.tables([wide, found])
    narrow, _, wide = text.partition("### Vectors of 512 bits")
    assert "### Vectors of 256 bits" in narrow and "| resnet18 |" in narrow and "60] %" in narrow
    assert "| vgg16 |" in wide and "No net has both." in wide and "| resnet18 |" not in wide


def test_both_ways_are_compared_over_the_nets_that_have_both():
    found = [
        record_of("a", {"transferred": (2, 2, 2), "ansor": (4, 4, 4)}),
        record_of("b", {"transferred": (8, 8, 8), "ansor": (1, 1, 1)}),
        record_of("c", {"transferred": (9, 9, 9), "ansor": None}),
    ]
    text = transfer.tables(found)
    assert "Geometric mean: transferred 4.00, Ansor's long search 2.00." in text
