# SPDX-License-Identifier: Apache-2.0
"""Explanations in a file: each row once."""

import json

from made_reports import made_report
from tvm.relay.collage.report.explain import explain
from tvm.relay.collage.report.explain_json import once


def test_each_candidate_is_written_once_and_named_by_its_place():
    told = explain(made_report(2, has_region=True), "alpha")
    written = once(told)
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
    told = explain(made_report(30), "collage", op="softmax")
    assert len(once(told)["tables"]["candidates"]) < 300 < len(json.dumps(told))
    assert told["parts"] == []
