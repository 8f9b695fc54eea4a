# SPDX-License-Identifier: Apache-2.0
"""A placement's file: round trip, schema, atomic writing, and files that are none."""

import copy
import dataclasses
import errno
import json
import os
import random

import pytest
from json_schema import errors
from placement_nets import optimized_once
from tree import ROOT
from tvm.relay import collage
from tvm.relay.collage import PlacementError
from tvm.relay.collage.files import text as files_text
from tvm.relay.collage.plans.placement.types import from_json, schema

SCHEMA = ROOT / "docs" / "placement.schema.json"


@pytest.fixture(scope="module")
def placement():
    return optimized_once().placement


@pytest.fixture(scope="module")
def value(placement):
    return json.loads(json.dumps(placement.to_json()))


def refused(path):
    """The one line that a file is refused with."""
    with pytest.raises(PlacementError) as caught:
        collage.load_placement(path)
    assert caught.value.kind == "file" and "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_gives_the_same_placement(placement, tmp_path):
    path = tmp_path / "net.json"
    placement.save(path)
    assert collage.load_placement(path) == placement
    assert collage.load_placement(str(path)) == placement
    assert len([p for p in placement.function("main").parts if p.is_primitive]) >= 2


def test_a_node_and_a_part_are_one_line_each(placement, tmp_path):
    placement.save(tmp_path / "net.json")
    main = placement.function("main")
    lines = (tmp_path / "net.json").read_text().splitlines()
    starts = [line.strip()[:10] for line in lines]
    assert starts.count('{"text": "') == len(main.nodes)
    assert starts.count('{"backend"') == len(main.parts)


def test_the_summary_is_one_line(placement):
    text = placement.Summary()
    assert text.startswith("placement of plan collage: ") and " on dnnl besides llvm" in text
    assert "\n" not in text


def test_a_file_of_before_costs_had_flags_is_read(placement, tmp_path):
    value = placement.to_json()
    for function in value["functions"]:
        for part in function["parts"]:
            assert part["cost"].pop("flags") == ()
    (tmp_path / "net.json").write_text(json.dumps(value))
    assert collage.load_placement(tmp_path / "net.json") == placement


def with_attrs(placement, **attrs):
    """The placement with these attributes on the first part's first composite."""
    main = placement.function("main")
    first = main.parts[0]
    composite = dataclasses.replace(first.composites[0], attrs=attrs)
    part = dataclasses.replace(first, composites=(composite, *first.composites[1:]))
    main = dataclasses.replace(main, parts=(part, *main.parts[1:]))
    return dataclasses.replace(placement, functions=(main,))


ATTRS = {
    "number": 1,
    "real": 0.5,
    "tiny": 1e-12,
    "text": 'q"\\é',
    "numbers": [1, 2],
    "reals": [1.5, 2.5],
    "mixed": [1, 2.5, "x"],
    "nested": [[1, 2], [3], [], [["x"]]],
    "none": [],
}


def test_attributes_of_composites_survive(placement, tmp_path):
    saved = with_attrs(placement, **ATTRS)
    saved.save(tmp_path / "net.json")
    assert errors(schema(), json.loads((tmp_path / "net.json").read_text())) == []
    loaded = collage.load_placement(tmp_path / "net.json")
    assert loaded == saved
    attrs = loaded.function("main").parts[0].composites[0].attrs
    assert [type(item) for item in attrs["mixed"]] == [int, float, str]
    assert type(attrs["number"]) is int and type(attrs["real"]) is float


@pytest.mark.parametrize(
    "value, place",
    [
        (None, "k"),
        (True, "k"),
        ({"a": 1}, "k"),
        (float("nan"), "k"),
        (2**63, "k"),
        ([[1.5, None]], "k[0][1]"),
        (["x", float("inf")], "k[1]"),
    ],
)
def test_an_attribute_that_no_file_can_hold_is_refused_before_it_is_written(
    placement, tmp_path, value, place
):
    with pytest.raises(PlacementError) as caught:
        with_attrs(placement, k=value).save(tmp_path / "net.json")
    text = str(caught.value)
    assert caught.value.kind == "plan" and "\n" not in text
    assert text.startswith(
        "the placement of plan 'collage' cannot be saved: functions[0].parts[0]."
    )
    assert f"attrs.{place} must be a finite number, a text or a list of these, not " in text
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("text", ["1e999", "9223372036854775808", "1" * 400])
def test_numbers_that_are_too_large(value, tmp_path, text):
    value = changed(value, ("functions", 0, "parts", 0, "cost", "seconds"), "HERE")
    (tmp_path / "net.json").write_text(json.dumps(value).replace('"HERE"', text))
    assert ".cost.seconds must be a number, not " in refused(tmp_path / "net.json")


def test_the_schema_in_the_docs_is_what_the_code_reads():
    assert json.loads(SCHEMA.read_text()) == schema()


def places(value, path=()):
    """Every (path, value) inside a JSON value."""
    yield path, value
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from places(item, (*path, key))


def changed(value, path, new):
    """A copy with one place replaced; a new value of `...` takes the place out."""
    result = copy.deepcopy(value)
    at = result
    for key in path[:-1]:
        at = at[key]
    if new is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return result


def test_reader_and_schema_refuse_the_same(value):
    rng = random.Random(0)
    spots = [path for path, _ in places(value) if path]
    rules, counts = schema(), {True: 0, False: 0}
    for _ in range(300):
        new = rng.choice([..., None, 0, -1, 3, 0.5, "", "measured", "0" * 16, [], {}, True, ["x"]])
        trial = changed(value, rng.choice(spots), new)
        follows = errors(rules, trial) == []
        counts[follows] += 1
        if follows:
            from_json(trial)
        else:
            with pytest.raises(PlacementError):
                from_json(trial)
    assert min(counts.values()) > 25


@pytest.mark.parametrize("field", ["plan", "made_with", "functions"])
def test_a_field_that_is_missing_or_unknown_is_named(value, field, tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(changed(value, (field,), ...)))
    assert refused(path) == f"placement file {str(path)!r}: it lacks {field!r}"
    path.write_text(json.dumps({**value, "more": 1}))
    assert refused(path) == f"placement file {str(path)!r}: it has an unknown field 'more'"


def test_a_wrong_value_is_named_with_its_place(value, tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(changed(value, ("functions", 0, "parts", 1, "nodes"), ["seven"])))
    assert refused(path).endswith("functions[0].parts[1].nodes[0] must be a integer, not 'seven'")


def test_another_schema_version_and_another_format(value, tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps({**value, "version": 2}))
    assert refused(path) == (
        f"placement file {str(path)!r}: its schema version is 2, this tvm-collage reads version 1: "
        "make the placement again"
    )
    for other in ({**value, "format": "x"}, {}, [], 3):
        path.write_text(json.dumps(other))
        assert refused(path).endswith(
            "it is no placement: its format is not 'tvm-collage-placement'"
        )


def test_a_file_cut_off_anywhere_is_refused_and_stays(placement, tmp_path):
    path = tmp_path / "net.json"
    placement.save(path)
    whole = path.read_bytes()
    for size in [*range(0, len(whole) - 2, 499), len(whole) - 3]:
        path.write_bytes(whole[:size])
        assert "is cut off or no JSON" in refused(path)
        assert path.read_bytes() == whole[:size]


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"not json", b'{"version": NaN}', b"[" * 100_000]
)
def test_bytes_that_are_no_json(data, tmp_path):
    path = tmp_path / "net.json"
    path.write_bytes(data)
    assert "is cut off or no JSON" in refused(path)


def test_a_file_that_is_not_there_or_a_folder(tmp_path):
    assert refused(tmp_path / "none.json").endswith("cannot be read: No such file or directory")
    assert refused(tmp_path).endswith("cannot be read: Is a directory")


def test_where_nothing_can_be_written(placement, tmp_path):
    with pytest.raises(PlacementError, match="x.json' cannot be written: No such file"):
        placement.save(tmp_path / "none" / "x.json")
    with pytest.raises(PlacementError, match="cannot be written: Is a directory"):
        placement.save(tmp_path)


def test_saving_is_all_or_nothing(placement, tmp_path, monkeypatch):
    path = tmp_path / "net.json"
    path.write_text("the old one")

    def fail(descriptor):
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(files_text.os, "fsync", fail)
    with pytest.raises(PlacementError, match="net.json' cannot be written: disk full"):
        placement.save(path)
    assert path.read_text() == "the old one" and os.listdir(tmp_path) == ["net.json"]
    monkeypatch.undo()
    placement.save(path)
    assert collage.load_placement(path) == placement and os.listdir(tmp_path) == ["net.json"]
