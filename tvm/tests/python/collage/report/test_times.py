# SPDX-License-Identifier: Apache-2.0
"""Times of parts with what makes them doubtful, in every form of a report, and what is said where
they contradict the plan's."""

import json

import onnx
import pytest
from made_reports import made_report, record
from tvm.relay.collage.report.boxes import box_graph
from tvm.relay.collage.report.explain import explain
from tvm.relay.collage.report.explain_lines import explain_lines
from tvm.relay.collage.report.facts import sum_remark, time_text, times_alike
from tvm.relay.collage.report.html.arranged import arrange
from tvm.relay.collage.report.netron import to_netron
from tvm.relay.collage.report.picture import Picture, to_svg
from tvm.relay.collage.report.trace import to_trace

BESIDE = "these costs were measured beside other work; search again on a quiet machine"
COMPUTED = "these costs were computed by a cost function, and nobody measured them"


def spoilt(factor=9, flags=("busy",)):
    """A report each of whose parts was measured at so many times its cost, with these flags."""
    report = made_report(1)
    for part in report["placements"]["functions"][0]["parts"]:
        part["cost"] = {
            **part["cost"],
            "seconds": factor * part["cost"]["seconds"],
            "flags": list(flags),
        }
    return report


def boxes_of(report, plan="collage"):
    report = record(report)
    graph = box_graph(report, report.functions[0], plan)
    return [box for box in graph.boxes if box.backend]


def remark_of(report, plan="collage"):
    return sum_remark(record(report), plan, boxes_of(report, plan))


def test_a_time_says_what_makes_it_doubtful():
    assert time_text(1.66e-3, ("busy",)) == "1.66 ms (busy)"
    # In one order, each once.
    flags = ["busy", "noisy", "busy", "estimated"]
    assert time_text(1.66e-3, flags) == "1.66 ms (estimated, noisy, busy)"
    assert time_text(1.66e-3, ()) == "1.66 ms" and time_text(None, ()) == "not measured"


def test_times_that_are_compared_have_the_unit_that_the_largest_has_alone():
    assert times_alike(7.542e-3, 54.1e-3) == ["7.54 ms", "54.1 ms"]
    assert times_alike(7.542e-3) == [time_text(7.542e-3, ())] == ["7.54 ms"]
    assert times_alike(0.9e-3, 1.2e-3, 0.0) == ["0.9 ms", "1.2 ms", "0 ms"]
    assert times_alike(31e-6, 1.2) == ["31 us", "1.2 s"] and times_alike(0.0) == ["0 ns"]
    assert times_alike(1234.0, 1.0) == ["1234 s", "1 s"]
    assert times_alike(0.99951e-3) == ["1 ms"] and times_alike(0.9994e-3) == ["999 us"]


def test_parts_that_contradict_the_plan_are_said_to_be_busy():
    report = spoilt()
    total = sum(box.seconds for box in boxes_of(report))
    assert remark_of(report).startswith("Plan collage's parts add up to ") and total > 0
    assert BESIDE in remark_of(report) and "`collage doctor`" in remark_of(report)
    one = spoilt(flags=())
    part = one["placements"]["functions"][0]["parts"][0]
    part["cost"]["flags"] = ["busy"]
    assert "1 of these 7 costs was measured beside other work" in remark_of(one)


def test_parts_that_contradict_the_plan_are_said_to_be_estimated():
    told = remark_of(spoilt(flags=("estimated",)))
    assert told.endswith(f" end to end: {COMPUTED}.")


@pytest.mark.parametrize("factor", [9, 0.1])
def test_of_quiet_costs_it_is_said_what_they_are_good_for(factor):
    told = remark_of(spoilt(factor, ()))
    assert "a part takes another time alone than between its neighbours" in told
    assert "beside other work" not in told


def test_nothing_is_said_of_what_adds_up_or_is_not_known():
    assert remark_of(made_report(1)) == ""
    assert remark_of(spoilt(1.14)) == "" and remark_of(spoilt(1.2)) != ""
    assert remark_of(spoilt(), "alpha") != "" and remark_of({**spoilt(), "plans": []}) == ""
    twice = spoilt()
    twice["functions"] *= 2
    assert remark_of(twice) == "", "one function may run several times"
    some = spoilt(0.1)
    costs = [row["cost"] for row in some["functions"][0]["graph"]["costed"]]
    costs += [part["cost"] for part in some["placements"]["functions"][0]["parts"][:1]]
    for cost in costs:
        cost["seconds"] = None
    assert remark_of(some) == "", "what was not measured may be what is missing"


@pytest.mark.parametrize(("flag", "why"), [("busy", BESIDE), ("estimated", COMPUTED)])
def test_every_form_marks_doubtful_parts_and_says_that_they_contradict_the_plan(flag, why):
    report = record(spoilt(flags=(flag,)))
    [plans] = [row["plans"] for row in arrange(report)]
    parts = [box for box in plans["collage"]["boxes"] if box["backend"]]
    assert {box["flags"] for box in parts} == {(flag,)} and why in plans["collage"]["time_note"]
    picture = Picture(report)
    drawn = to_svg(picture)
    assert drawn.count(f" ({flag})</text>") >= 7 and why in " ".join(picture.remarks)
    trace = json.dumps(to_trace(report))
    assert trace.count(f'({flag})"') == 7 and why in trace
    nodes = onnx.load_from_string(to_netron(report)).graph.node
    times = [prop.value for node in nodes for prop in node.metadata_props if "time" in prop.key]
    assert len(times) == 7 and all(time.endswith(f" ({flag})") for time in times)
    told = explain(report, "collage")
    lines = explain_lines(told, is_long=False)
    assert (
        [line for line in lines if line.startswith("Plan collage's parts")] == [*told.remarks] != []
    )
    heads = [line for line in lines if " operators, nodes " in line and line[0] != " "]
    assert heads and all(line.endswith(f" ({flag})") for line in heads)


def test_a_box_without_a_time_says_so():
    report = made_report(1)
    for part in report["placements"]["functions"][0]["parts"]:
        part["cost"].update(seconds=None, status="unknown")
    report["functions"][0]["graph"]["costed"] = []
    spans = [e for e in to_trace(record(report))["traceEvents"] if e["ph"] == "X" and e["pid"] == 1]
    assert all(e["dur"] == 0 and e["args"]["time"] == "not measured" for e in spans)
    assert to_svg(Picture(record(report))).count(">not measured</text>") == 7
