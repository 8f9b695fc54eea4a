# SPDX-License-Identifier: Apache-2.0
"""The whole report: it follows its schema, and is read back from its file."""

import dataclasses
import json

import pytest
from json_schema import errors
from placement_nets import optimized
from tree import ROOT
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.files.records import read
from tvm.relay.collage.files.text import json_text, write_report
from tvm.relay.collage.plans.placement import SeenPlans
from tvm.relay.collage.report.full import report_schema, with_search_of
from tvm.relay.collage.views.function_report import FunctionGraph


@pytest.fixture(scope="module")
def result():
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield optimized(monkeypatch)


def test_the_schema_in_the_docs_is_what_is_written(result):
    schema = json.loads((ROOT / "docs/report.schema.json").read_text())
    assert schema == report_schema()
    report = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert errors(schema, report) == []
    assert errors(schema, {**report, "placements": {"plans": [{"plan": 1}]}})


def test_graph_and_placements_come_back_from_a_file(result, tmp_path):
    write_report(result, str(tmp_path / "report.json"))
    report = json.loads((tmp_path / "report.json").read_text())
    assert read(SeenPlans, report["placements"]) == result.placements
    [function] = report["functions"]
    graph = read(FunctionGraph, function["graph"])
    assert graph.nodes == result.partitioned[0].graph.nodes
    names = {row.backend for row in graph.costed}
    assert names == {"dnnl", "tvm"} and [b.name for b in graph.backends] == ["tvm", "dnnl", "host"]


def test_colours_that_backends_declare_are_kept_also_by_a_replay(result):
    report = result.to_json()
    assert report["colours"]["dnnl"] == get_backend("dnnl").colour
    source = {**report, "colours": {"own": "#123456"}}
    assert with_search_of(report, source)["colours"] == {**report["colours"], "own": "#123456"}
    del source["colours"]
    assert with_search_of(report, source)["colours"] == report["colours"]


def test_one_line_does_not_ask_for_all_placements(result, monkeypatch):
    monkeypatch.setattr(type(result), "placements", property(lambda _: pytest.fail("asked for")))
    assert result.Summary() in repr(result)


@pytest.mark.parametrize(
    "value",
    [[], {}, [1, 2], {"a": [], "b": {}}, [[1] * 100, {"x": "y" * 300, "z": [{"k": None}]}], "t"],
)
def test_json_for_people_is_json(value):
    assert json.loads(json_text(value)) == value


def test_plain_values_stand_in_one_line():
    text = json_text({"nodes": list(range(500)), "rows": [{"a": 1, "b": "x" * 150}] * 3})
    assert len(text.splitlines()) == 8 and "0, 1, 2" in text
    with pytest.raises(ValueError, match="JSON"):
        json_text([[float("nan")]])


def test_a_report_without_a_search_follows_the_schema(result):
    alone = dataclasses.replace(result, partitioned=[], makers={})
    assert errors(report_schema(), json.loads(json.dumps(alone.to_json()))) == []
