# SPDX-License-Identifier: Apache-2.0
"""The demo of tuning: three searches of a tiny image, by one schedule of another net."""

import json

import demo_autotune
import pytest
import tvm
from transfer_nets import conv_alone, kernel, source
from tuned_choices import judge_as, ship
from tvm.relay.collage.files.text import append_line
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.tuning.log import note_kernel
from tvm.relay.collage.tuning.transfer import shipped
from tvm.relay.collage.tuning.transfer.sources import sources_of

TARGET = "llvm -mcpu=x86-64-v2 -num-cores=2"


@pytest.mark.slow("three searches of a net, a minute")
def test_each_step_is_searched_and_measured_and_a_picture_is_drawn(tmp_path, monkeypatch, capsys):
    judge_as(True, monkeypatch)
    ship("tvm", monkeypatch)
    log, output = tmp_path / "other.jsonl", tmp_path / "out" / "autotune.json"
    note_kernel(log, kernel(conv_alone))
    append_line(log, source([["FU", 3, [0, 1, 2]], ["AN", 3, 0, 3]], conv_alone).line)
    given = [
        "--from",
        str(log),
        "--tune-seconds",
        "5",
        "--trials",
        "2",
        "--pixels",
        "16",
        "--quick",
    ]
    given += ["--search-model", "random", "--rounds", "3", "--target", TARGET]
    assert demo_autotune.main([*given, "--progress", "quiet", "--output", str(output)]) == 0
    steps = json.loads(output.read_text())["steps"]
    assert [row["name"] for row in steps] == ["untuned", "transferred", "tuned"]
    assert all(row["seconds"] > 0 and row["search_seconds"] > 0 for row in steps)
    assert steps[0]["speedup"]["value"] == 1.0 and steps[0]["records"] == {}
    assert set(steps[1]["records"]) == {"transferred"}
    text = capsys.readouterr().out
    assert "transferred: plan" in text and str(output) in text
    pytest.importorskip("matplotlib", reason="the extra peers is not installed")
    assert output.with_suffix(".png").exists()


def test_a_step_that_failed_or_ran_few_rounds_is_told_and_drawn(tmp_path, monkeypatch):
    untuned = Comparison("untuned", Cost.given(2e-3), samples=(2e-3, 2.1e-3))
    few = Comparison("tuned", Cost.given(1e-3), samples=(1e-3,))
    failed = Comparison("transferred", Cost.failed("crashed", "signal 11"))
    rows = [
        {"name": item.name, "search_seconds": 1.0, **demo_autotune.latency_of(item, untuned)}
        for item in (untuned, few, failed)
    ]
    assert [demo_autotune.latency_text(row) for row in rows] == [
        "untuned: 2.000 ms, 1.00 times as fast as untuned",
        "tuned: 1.000 ms, 2.00 times as fast as untuned (too few rounds to be sure)",
        "transferred: crashed: signal 11",
    ]
    assert rows[1]["speedup"] == {"value": 2.0, "low": 0.0, "high": None}
    alone = demo_autotune.latency_of(few, failed)
    assert demo_autotune.latency_text({**rows[1], **alone}) == "tuned: 1.000 ms"
    json.dumps([*rows, alone], allow_nan=False)
    figure = pytest.importorskip("matplotlib.figure", reason="the extra peers is not installed")
    figures = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda each, _: figures.append(each))
    assert demo_autotune.draw(rows, tmp_path / "steps.png")
    [axes] = figures[0].axes
    assert [bar.get_height() for bar in axes.patches] == [2.0, 1.0]
    assert [(text.get_text(), text.get_position()[0]) for text in axes.texts] == [("failed", 2)]
    assert [label.get_text().split()[0] for label in axes.get_xticklabels()] == [
        row["name"] for row in rows
    ]


@pytest.mark.slow("a search of a small net")
def test_without_shipped_schedules_those_of_a_smaller_net_are_searched(tmp_path, monkeypatch):
    given = ["--pixels", "12", "--trials", "1", "--tune-seconds", "60", "--search-model", "random"]
    options = demo_autotune.parse(given)
    monkeypatch.setattr(shipped, "shipped_log", lambda _: None)
    [log] = demo_autotune.sources_for(tvm.target.Target(TARGET), str(tmp_path), options)
    kernels = {source.kernel.kind for source in sources_of([log])}
    assert len(kernels) >= 3
    # Schedules of products of matrices are none for a net of convolutions.
    for ships, sources in ((shipped.RECORDS / "x86-512.jsonl", [log]), (log, ["shipped"])):
        monkeypatch.setattr(shipped, "shipped_log", lambda _, ships=ships: ships)
        found = demo_autotune.sources_for(tvm.target.Target(TARGET), str(tmp_path), options)
        assert found == sources
