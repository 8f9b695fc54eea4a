# SPDX-License-Identifier: Apache-2.0
"""The record of a report: it follows its schema, and is read back from its file."""

import dataclasses
import json

import pytest
from json_schema import errors
from placement_nets import optimized
from tree import ROOT
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.errors import CollageError, FileError
from tvm.relay.collage.files.text import json_text, write_report
from tvm.relay.collage.report import read_report
from tvm.relay.collage.report.record import report_schema


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
    report = read_report(json.loads((tmp_path / "report.json").read_text()), "it")
    assert report == result.record and report.placements == result.placements
    [function] = report.functions
    graph = function.graph
    assert graph.nodes == result.partitioned[0].graph.nodes
    names = {row.backend for row in graph.costed}
    assert names == {"dnnl", "tvm"} and [b.name for b in graph.backends] == ["tvm", "dnnl", "host"]


def test_colours_that_backends_declare_are_kept_also_by_a_replay(result):
    report = result.record
    assert report.colours["dnnl"] == get_backend("dnnl").colour
    source = dataclasses.replace(report, colours={**report.colours, "own": "#123456"})
    assert report.with_search_of(source).colours == {**report.colours, "own": "#123456"}
    source = dataclasses.replace(source, colours={})
    assert report.with_search_of(source).colours == report.colours


def test_a_report_of_before_colours_were_kept_has_those_that_are_declared_here(result):
    old = result.to_json()
    del old["colours"]
    assert read_report(old, "it").colours == {}
    assert read_report(old, "it", {"own": "#123456"}).colours == {"own": "#123456"}


def test_what_is_no_report_of_this_version_says_where(result):
    other = result.to_json()
    other["placements"]["plans"][0]["plan"] = 1
    with pytest.raises(
        FileError, match=r"F is of another .*placements.plans\[0\].plan must be a s"
    ):
        read_report(other, "F")
    with pytest.raises(CollageError, match="F was written by an older .*lack ratio_to_chosen"):
        read_report({**result.to_json(), "plans": [{"name": "tvm"}]}, "F")


def test_costs_are_empty_where_none_was_needed(result):
    assert not result.record.costs and result.to_json()["costs"] == {}
    counted = dataclasses.replace(result, costs={"measured": 1, "failed": {}}).to_json()
    assert counted["costs"]["measured"] == 1 and counted["costs"]["busy"] == 0


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
