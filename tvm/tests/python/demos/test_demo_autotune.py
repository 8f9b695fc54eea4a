# SPDX-License-Identifier: Apache-2.0
"""The demo of tuning: three searches of a tiny image, by one schedule of another net."""

import json

import demo_autotune
import pytest
from transfer_nets import conv, kernel, source
from tvm.relay.collage.transfer.log import note_kernel
from tvm.relay.collage.tuning.logs import append_line

TARGET = "llvm -mcpu=x86-64-v2 -num-cores=2"


@pytest.mark.slow("three searches of a net, a minute")
def test_each_step_is_searched_and_measured_and_a_picture_is_drawn(tmp_path, capsys):
    log, output = tmp_path / "other.jsonl", tmp_path / "out" / "autotune.json"
    note_kernel(log, kernel(conv))
    append_line(log, source([["CI", 5], ["FU", 6, [0, 1, 2]], ["AN", 6, 0, 3]]).line)
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
    assert steps[0]["speedup"][0] == 1.0 and steps[0]["records"] == {}
    assert set(steps[1]["records"]) <= {"transferred"}
    text = capsys.readouterr().out
    assert "transferred: plan" in text and str(output) in text
    pytest.importorskip("matplotlib", reason="the extra peers is not installed")
    assert output.with_suffix(".png").exists()
