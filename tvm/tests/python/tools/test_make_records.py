# SPDX-License-Identifier: Apache-2.0
"""The script that makes the schedules of the package, on a tiny net with two trials."""

import json

import make_records
from tt_runs import SHAPE, net
from tvm.relay.collage.transfer import shipped
from tvm.relay.collage.transfer.log import read_ansor


def test_a_search_becomes_a_file_of_best_trials_that_says_how_it_was_made(tmp_path, capsys):
    made, output = net(tmp_path / "small.onnx", 6), tmp_path / "records" / "x86-256.jsonl"
    given = [made, "--folder", str(tmp_path / "logs"), "--trials", "2", "--seconds", "250"]
    given += ["--search-model", "random", "--output", str(output), *SHAPE]
    assert make_records.main(given) == 0 and "1 kernels" in capsys.readouterr().out
    [line] = read_ansor(output)
    trials = read_ansor(tmp_path / "logs" / "small.jsonl")
    assert len(trials) == 2 and line.seconds == min(each.seconds for each in trials)
    facts = shipped.made(output)
    assert facts["nets"] == {"small": 2} and facts["cpu"] and facts["threads"] >= 1
    before = output.read_text()
    assert make_records.main(given) == 0  # nothing is searched again
    assert output.read_text() == before and len(read_ansor(tmp_path / "logs" / "small.jsonl")) == 2
    assert json.loads(before.splitlines()[0][len(shipped.MADE) :]) == facts
