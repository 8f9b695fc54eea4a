# SPDX-License-Identifier: Apache-2.0
"""What records of the depth effort say, and one small net tried."""

import pytest
from summaries import efforts
from trials.efforts import trial


def record(ships, ratio, seconds=40.0):
    facts = {"seconds": seconds, "first_answer": 9.0, "asked": 100, "below_bounds": 1}
    found = {name: {**facts, "ships": ships} for name in ("normal", "exhaustive")}
    rows = [
        {"name": "normal", "ratio": [ratio, 0.9, 1.1]},
        {"name": "exhaustive", "ratio": [1, 1, 1]},
    ]
    return {"failure": None, "efforts": found, "rows": rows}


def test_a_line_tells_seconds_costs_and_what_is_lost():
    text = efforts.summary_of(record("dnnl", 1.021))
    assert "normal 40 s, 100 costs, ships dnnl, 1.021 of the exhaustive one's time" in text


def test_totals_are_medians_and_geometric_means():
    text = efforts.totals([record("dnnl", 1.0), record("tvm", 1.21, seconds=80.0)])
    rows = [line.replace("|", " ").split() for line in text.splitlines()]
    [row] = [row for row in rows if row[:1] == ["normal"]]
    assert row == ["normal", "2", "9.0", "60.0", "80.0", "200", "1.0%", "1.100", "1.210"]
    assert "quick" not in text


def test_a_failure_is_told_and_counts_in_no_total():
    failed = {"failure": {"stage": "compile, normal", "message": "it died"}}
    assert efforts.summary_of(failed) == "compile, normal: it died"
    assert "normal" not in efforts.totals([failed])


@pytest.mark.slow("three searches")
def test_a_small_net_at_each_effort(tmp_path):
    request = {"net": "two_inputs", "batch": 1, "file": None, "threads": 1, "rounds": 2}
    request |= {"rtol": 1e-3, "backends": ["dnnl"], "config": {"measure_seconds": 0.01}}
    facts = {}
    for each in trial(request):
        facts |= each
    assert list(facts["efforts"]) == ["normal", "quick", "exhaustive"]
    assert facts["efforts"]["quick"]["asked"] == 0
    assert {row["status"] for row in facts["rows"]} == {"measured"}
