# SPDX-License-Identifier: Apache-2.0
"""Decisions in a store's file: rows go in and come out whole, the nearest one, damage, layouts."""

import dataclasses

import pytest
from store_files import make_older
from store_rows import DECISION_KEY, decision, sql
from tree import ROOT
from tvm.relay.collage.store import CostStore, DecisionKey, Decisions
from tvm.relay.collage.store.decision_row import DECISION_COLUMNS
from tvm.relay.collage.store.explain import decided_before, decided_by_other_versions
from tvm.relay.collage.store.schema import CREATE_DECISION


@pytest.fixture
def store(tmp_path):
    with CostStore(tmp_path / "costs.sqlite") as store:
        yield store


def test_a_row_comes_back_whole_in_another_connection(store):
    Decisions(store).put(decision())
    with CostStore(store.path) as other:
        assert Decisions(other).get(DECISION_KEY) == decision()
    assert Decisions(store).problems() == [] and store.rows() == []


@pytest.mark.parametrize("part", DecisionKey._fields)
def test_each_part_of_the_key_counts_and_is_named(store, part):
    decisions = Decisions(store)
    decisions.put(decision())
    asked = DECISION_KEY._replace(**{part: "other"})
    assert decisions.get(asked) is None
    nearest = decisions.nearest(asked)
    if part == "model":
        assert nearest is None
    else:
        assert asked.differences(nearest.key) == [part]


def test_a_later_row_takes_the_place_of_one_with_its_key_and_the_newest_stands_first(store):
    decisions = Decisions(store)
    for each in (decision(1), decision(2, threads="4"), decision(3, report="{}")):
        decisions.put(each)
    assert decisions.rows() == [decision(3, report="{}"), decision(2, threads="4")]
    assert decisions.nearest(DECISION_KEY._replace(threads="4", cpu="?")).key.threads == "4"
    assert decisions.remove([decision(1), decision(2, threads="4")]) == 1, (
        "the first was decided again"
    )
    assert decisions.rows() == [decision(3, report="{}")]


@pytest.mark.parametrize("column, value", [("report", "text"), ("decided_at", "once"), ("cpu", 7)])
def test_a_row_that_makes_no_sense_is_none_and_is_named(store, column, value):
    decisions = Decisions(store)
    decisions.put(decision())
    with sql(store.path) as connection:
        connection.execute(f"UPDATE decision SET {column} = ?", [value])
        if column == "cpu":
            connection.execute("UPDATE decision SET cpu = x'00'")
    assert decisions.rows() == [] and decisions.nearest(DECISION_KEY) is None
    [problem] = decisions.problems()
    assert problem.startswith(f"decision for model {DECISION_KEY.model}: ")


def test_columns_are_those_of_the_row_and_stand_on_the_docs_page(store):
    with sql(store.path) as connection:
        columns = [line[1] for line in connection.execute("PRAGMA table_info(decision)")]
    assert columns == list(DECISION_COLUMNS)
    page = (ROOT / "docs" / "store.md").read_text().split("## Decisions")[1]
    for name in columns:
        assert f"`{name}`" in page, name
    lines = [line for line in CREATE_DECISION.splitlines() if "NULL" in line]
    assert len(lines) == len(columns) and all(" -- " in line for line in lines)


def test_a_store_of_the_layout_before_keeps_its_costs(tmp_path):
    path = tmp_path / "costs.sqlite"
    rows = make_older(path, 5)
    with CostStore(path) as store:
        assert store.rows() == rows and Decisions(store).rows() == []
        Decisions(store).put(decision())
        assert Decisions(store).get(DECISION_KEY) == decision()


def test_rows_that_are_old_or_of_other_versions_are_told_apart():
    assert (
        decided_before([decision()], 1) == [decision()]
        and decided_before([decision()], 10**5) == []
    )
    new = dataclasses.replace(decision(), key=DECISION_KEY._replace(collage="0.0.1 1 1"))
    assert decided_by_other_versions([new]) == [new]
