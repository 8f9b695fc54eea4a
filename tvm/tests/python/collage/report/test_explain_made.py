# SPDX-License-Identifier: Apache-2.0
"""Explanations of reports that are made by hand: of a part that is the whole net, and in a file,
which has each row once."""

import json

import pytest
from made_reports import made, made_report, record
from tvm.relay.collage.files.records import to_json
from tvm.relay.collage.report.explain import explain
from tvm.relay.collage.report.explain_lines import explain_lines


def whole_net():
    """A report whose plan that ships is one part."""
    report = made_report(2, has_region=True, plan="alpha")
    for row in report["plans"]:
        row["is_chosen"] = row["name"] == "alpha"
        if row["ratio_to_chosen"]:
            row["ratio_to_chosen"]["value"] /= 1.21
    return report


def test_a_part_that_is_the_whole_net_is_compared_by_plans():
    told = explain(record(whole_net()), "alpha")
    lines = explain_lines(told, is_long=False)
    assert told.second.plan == "collage" and told.parts[0].is_whole
    head = next(k for k, line in enumerate(lines) if line.startswith("alpha: "))
    assert "(all 18 operators)" in lines[head]
    assert lines[head + 1] == (
        "  It is the whole net. The plans above tell more of it, as each ran end to end: the next "
        "best is collage."
    )
    loses, gains = lines[head + 2 : head + 4]
    assert "loses most at " in loses and "gains most at " in gains
    assert all(" there, " in line and " with alpha" in line for line in (loses, gains))
    reasons = lines[head + 4 :]
    assert not any(line.startswith(("  not tvm", "  not beta")) for line in reasons)
    assert reasons[0].startswith("  not gamma: refused: ") and "(2 operators, " in reasons[0]
    assert not any("all 18 operators" in line and "mostly" in line for line in lines)


def test_times_that_contradict_each_other_are_told_to_be_of_two_kinds():
    report = whole_net()
    [tvm] = [row for row in report["plans"] if row["name"] == "tvm"]
    tvm["ratio_to_chosen"] = {"value": 4.0, "low": 3.9, "high": 4.1}
    told = "\n".join(explain_lines(explain(record(report), "alpha"), is_long=False))
    assert "Plan alpha's only part takes 505 us alone, and it takes 633 us end to end: " in told
    assert "  end to end it takes some " in told and ", by its parts alone " in told
    # One ratio of two plans, end to end, and no other one.
    assert " times as long" in told and told.count("times as long") == 1
    [node, *_] = explain(record(report), "alpha", op="softmax").nodes
    lines = explain_lines(explain(record(report), "alpha", node=node.node), is_long=True)
    assert lines[-1].startswith("Plan alpha's only part takes ")


@pytest.mark.parametrize(("speed", "says"), [(2, "gains"), (0.5, "loses")])
def test_backends_that_gain_or_lose_everywhere_are_told_by_that_alone(speed, says):
    report = whole_net()
    costed = report["functions"][0]["graph"]["costed"]
    own = {tuple(r["nodes"]): r["cost"]["seconds"] for r in costed if r["backend"] == "alpha"}
    for number, row in enumerate(costed):
        if row["backend"] != "alpha" and row["cost"]["seconds"] is not None:
            seconds = own[tuple(row["nodes"])] / (speed + number * 1e-3)
            row["cost"] = {**row["cost"], "seconds": seconds}
    told = explain(record(report), "alpha")
    assert len(told.second.pairs) == 1
    [line] = [line for line in explain_lines(told, False) if "Of equal operators, " in line]
    assert f" {says} most at " in line


def test_each_candidate_is_written_once_and_named_by_its_place():
    told = explain(made(2, has_region=True), "alpha")
    written = told.once()
    told = to_json(told)
    rows = written["tables"]["candidates"]
    assert len({json.dumps(row) for row in rows}) == len(rows) > 0
    for node, full in zip(written["nodes"], told["nodes"], strict=True):
        assert written["tables"]["parts"][node["part"]] == full["part"]
        for backend, known in zip(node["backends"], full["backends"], strict=True):
            assert [rows[place] for place in backend["candidates"]] == known["candidates"]
    instead = written["parts"][0]["backends"][0]["instead"]
    assert rows[instead["candidate"]]["backend"] == "tvm"
    assert {*written} == {*told, "tables"} and written["ships"] == told["ships"] == "collage"


def test_a_node_that_is_asked_for_brings_its_own_rows_alone():
    told = explain(made(30), "collage", op="softmax")
    assert len(told.once()["tables"]["candidates"]) < 300 < len(json.dumps(to_json(told)))
    assert told.parts == ()


def test_equal_operators_are_told_of_two_backends():
    written = explain(record(whole_net()), "alpha").once()
    assert all(len({tuple(row) for row in rows}) == 1 for rows in written["tables"].values())
    candidates = written["tables"]["candidates"]
    for pair in written["second"]["pairs"]:
        assert candidates[pair["here_candidate"]]["backend"] == "alpha"
        assert candidates[pair["there_candidate"]]["backend"] != "alpha"
