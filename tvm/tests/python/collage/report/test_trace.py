# SPDX-License-Identifier: Apache-2.0
"""A plan's parts as Chrome's trace events."""

import json

import pytest
from made_reports import made, made_report, record
from tvm.relay.collage.errors import CollageError
from tvm.relay.collage.report.trace import to_trace


def parts_of(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == 1]


def test_parts_follow_each_other_on_a_line_for_each_backend():
    report = made_report(2)
    trace = json.loads(json.dumps(to_trace(record(report)), allow_nan=False))
    events = parts_of(trace)
    assert len(events) == 10 and trace["otherData"]["plan"] == "collage"
    now = 0.0
    for event in events:
        assert event["ts"] == pytest.approx(now, abs=0.01)
        now += event["dur"]
    assert now == pytest.approx(1e6 * report["functions"][0]["seconds"], rel=1e-3)
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] == "thread_name"
    }
    assert sorted(names.values()) == ["alpha", "beta", "end to end", "gamma"]
    assert {names[1, event["tid"]] for event in events} == {"alpha", "beta", "gamma"}


def test_the_whole_run_stands_beside_them_where_it_was_measured():
    report = made_report(1)
    [whole] = [
        e for e in to_trace(record(report), "beta")["traceEvents"] if e["name"] == "plan beta"
    ]
    row = next(row for row in report["plans"] if row["name"] == "beta")
    assert whole["dur"] == pytest.approx(1e6 * row["seconds"], abs=0.001)
    assert whole["args"]["low_us"] < whole["dur"] < whole["args"]["high_us"]
    report["plans"] = []
    assert {event["pid"] for event in to_trace(record(report))["traceEvents"]} == {1}


def test_nothing_to_draw_is_an_error():
    with pytest.raises(CollageError, match="nothing to draw"):
        to_trace(made(1, functions=[]))
