# SPDX-License-Identifier: Apache-2.0
"""JSON values as records: what is read, and where it is told that a value is none."""

import dataclasses
import enum
import json
from typing import Any

import pytest
from tvm.relay.collage.costs.cost import PartCost
from tvm.relay.collage.files.records import Attribute, RecordError, read, read_json
from tvm.relay.collage.views.function_report import FunctionReport


class Colour(enum.IntEnum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Leaf:
    name: str
    sizes: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Tree:
    leaves: list[Leaf]
    weight: float
    colour: Colour = Colour.RED
    nodes: frozenset = frozenset()
    by_name: dict[str, Leaf] = dataclasses.field(default_factory=dict)
    attr: Attribute = 0
    other: Leaf | None = None
    anything: Any = None
    level: int = dataclasses.field(default=0, metadata={"minimum": 0})


def test_values_of_each_kind():
    value = {
        "leaves": [{"name": "a", "sizes": [1, 2]}, {"name": "b"}],
        "weight": 2,
        "colour": 1,
        "nodes": [3, 1],
        "by_name": {"c": {"name": "c"}},
        "attr": [1, 2.5, ["x"]],
        "other": None,
        "anything": {"k": [None]},
    }
    leaves = [Leaf("a", (1, 2)), Leaf("b")]
    found = read(Tree, value)
    assert found == Tree(
        leaves,
        2.0,
        Colour.RED,
        frozenset({1, 3}),
        {"c": Leaf("c")},
        [1, 2.5, ["x"]],
        None,
        {"k": [None]},
    )
    assert type(found.weight) is float and type(found.colour) is Colour
    assert read_json(list[Leaf], json.dumps(value["leaves"])) == leaves


WRONG = {
    "it must be an object, not 3": 3,
    "it lacks 'weight'": {"leaves": []},
    "it has an unknown field 'more'": {"leaves": [], "weight": 1.0, "more": 1},
    "leaves must be a list, not {}": {"leaves": {}, "weight": 1.0},
    "leaves[1].name must be a string, not 7": {
        "leaves": [{"name": "a"}, {"name": 7}],
        "weight": 1.0,
    },
    "leaves[0].sizes[1] must be a integer, not True": {
        "leaves": [{"name": "a", "sizes": [1, True]}],
        "weight": 1.0,
    },
    "weight must be a number, not inf": {"leaves": [], "weight": float("inf")},
    "by_name.c lacks 'name'": {"leaves": [], "weight": 1.0, "by_name": {"c": {}}},
    "attr[1][0] must be a finite number, a text or a list of these, not None": {
        "leaves": [],
        "weight": 1.0,
        "attr": [1, [None]],
    },
    "level must be 0 or more, not -1": {"leaves": [], "weight": 1.0, "level": -1},
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_none_says_where(text):
    with pytest.raises(RecordError) as caught:
        read(Tree, WRONG[text])
    assert str(caught.value) == text


def test_a_report_of_a_function_that_was_skipped_needs_no_more_than_why():
    report = read_json(FunctionReport, '{"function": "f", "skipped": "a kernel"}')
    assert report == FunctionReport("f", skipped="a kernel") and report.parts == ()


def test_statuses_and_flags_are_among_those_that_there_are():
    fields = {"status": "measured", "seconds": 1.0, "message": "", "flags": ["busy"]}
    assert read(PartCost, fields) == PartCost("measured", 1.0, "", ("busy",))
    for change in ({"status": "fast"}, {"flags": ["lucky"]}):
        with pytest.raises(RecordError, match="must be one of "):
            read(PartCost, {**fields, **change})
