# SPDX-License-Identifier: Apache-2.0
"""The store's file: rows go in and come out whole, merges, filters, and where it lies."""

from pathlib import Path

import pytest
from store_rows import FAILED, KEY, MEASURED, at, row, sql
from tree import ROOT
from tvm.relay.collage.measure import Cost
from tvm.relay.collage.store import CostKey, CostStore, StoredCost, store_path
from tvm.relay.collage.store.row import COLUMNS
from tvm.relay.collage.store.schema import CREATE, VERSION

DOCS = ROOT / "docs" / "store.md"


@pytest.fixture
def store(tmp_path):
    with CostStore(tmp_path / "new" / "costs.sqlite") as store:
        yield store


COSTS = {
    "measured": MEASURED,
    "exact": Cost("measured", 1 / 3, 1 / 3, 1 / 3, 6),
    "failed": FAILED,
    "text": Cost.failed("crashed", "quotes '\";\n-- and \u00e9\u4e2d"),
    "timeout": Cost.failed("timeout", ""),
}


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_a_row_comes_back_whole_in_another_connection(store, cost):
    store.put(row(cost))
    with CostStore(store.path) as other:
        assert other.get(KEY) == row(cost)
    assert store.problems() == []


def test_a_message_that_is_no_unicode_is_kept_readably(store):
    store.put(row(Cost.failed("crashed", "printed \udcff\x00 and died")))
    assert store.get(KEY).cost.message == "printed \\udcff\x00 and died"


@pytest.mark.parametrize("part", CostKey._fields)
def test_each_part_of_the_key_counts_and_is_named(store, part):
    store.put(row())
    asked = KEY._replace(**{part: "other"})
    assert store.get(asked) is None
    nearest = store.nearest(asked)
    if part == "candidate":
        assert nearest is None
    else:
        assert asked.differences(nearest.key) == [part]


def test_the_nearest_row_differs_in_the_fewest_parts_then_is_the_newest(store):
    store.put(row(minute=9, threads="4", tvm="0.18"))
    store.put(row(minute=1, threads="8"))
    store.put(row(minute=2, threads="16"))
    assert store.nearest(KEY).key.threads == "16"


def test_put_replaces_and_merge_keeps_the_newer(store):
    store.put(row(minute=5))
    store.put(row(FAILED, minute=4))
    assert store.get(KEY).cost == FAILED
    older, newer = row(minute=3), row(minute=6)
    assert store.merge([older]) == 0 and store.get(KEY).cost == FAILED
    assert store.merge([newer, row(minute=1, threads="9"), older]) == 2
    assert store.get(KEY) == newer and len(store.rows()) == 2


def test_a_merge_that_fails_midway_changes_nothing(store):
    def rows():
        yield row(minute=1)
        yield row(minute=1, threads="9")
        raise KeyError("the third row")

    with pytest.raises(KeyError):
        store.merge(rows())
    assert store.rows() == []
    store.put(row())
    assert len(store.rows()) == 1


def test_rows_by_candidate_backend_and_status(store):
    store.put(row())
    store.put(row(FAILED, candidate="0123ffff", backend="tvm"))
    store.put(row(candidate="f" * 16))
    assert [r.key.candidate for r in store.rows(candidate="0123")] == [KEY.candidate, "0123ffff"]
    assert [r.key.backend for r in store.rows(backend="tvm")] == ["tvm"]
    assert [r.cost for r in store.rows(status="compile_failed")] == [FAILED]
    assert store.rows(backend="dnnl", status="compile_failed") == []
    assert store.rows(candidate="%") == []


def test_a_row_that_is_none_is_no_answer_and_a_problem(store):
    store.put(row())
    with sql(store.path) as connection:
        connection.execute("UPDATE cost SET status = 'fast'")
    assert store.get(KEY) is None and store.rows() == []
    [problem] = store.problems()
    assert "0123456789abcdef of dnnl" in problem and "'fast'" in problem


@pytest.mark.parametrize(
    "name", ["a b", "50%41", "what?mode=ro", "#1", "\u00e9\u4e2d", "-x", "a'b;c"]
)
def test_any_name_of_a_file_will_do(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with CostStore(name) as store:
        store.put(row())
    assert [each.name for each in tmp_path.iterdir()] == [name]
    with CostStore(tmp_path / name, create=False) as store:
        assert store.get(KEY) == row()


def test_json_and_back():
    fields = row().to_json()
    assert StoredCost.from_json(fields) == row()
    assert list(fields) == list(COLUMNS)
    short = {k: v for k, v in fields.items() if k not in ("label", "allowed_seconds")}
    assert StoredCost.from_json(short).allowed_seconds == 0.0


@pytest.mark.parametrize(
    "change, message",
    [
        ({"status": "fast"}, "unknown cost status 'fast'"),
        ({"seconds": None}, "needs finite seconds"),
        ({"seconds": -1.0}, "needs finite seconds"),
        ({"seconds": "1"}, "seconds is '1'"),
        ({"rounds": True}, "rounds is True"),
        ({"threads": 2}, "threads is 2"),
        ({"measured_at": "yesterday"}, "Invalid isoformat"),
        ({"measured_at": "2026-01-31T12:00:00"}, "no time zone"),
        ({"speed": 1}, "missing or unknown columns: ['speed']"),
    ],
)
def test_what_can_be_no_row_says_why(change, message):
    with pytest.raises(ValueError) as caught:
        StoredCost.from_json({**row().to_json(), **change})
    assert message in str(caught.value)


def test_times_are_kept_in_utc():
    local = StoredCost.from_json({**row().to_json(), "measured_at": "2026-01-31T13:07+01:00"})
    assert local.measured_at == at(7)


def test_columns_stand_in_one_order_and_on_the_docs_page(store):
    with sql(store.path) as connection:
        columns = [line[1] for line in connection.execute("PRAGMA table_info(cost)")]
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert columns == list(COLUMNS)
    page = DOCS.read_text()
    for name in columns:
        assert f"`{name}`" in page, name
    for line in CREATE.splitlines():
        if "NULL" in line or "REAL" in line:
            assert " -- " in line, f"undocumented: {line}"


def test_where_it_lies(monkeypatch, tmp_path):
    assert store_path() == (None, True), "tests have no store of their own accord"
    monkeypatch.setenv("COLLAGE_STORE", "/a/b.sqlite")
    assert store_path() == (Path("/a/b.sqlite"), True)
    assert store_path("c.sqlite") == (Path("c.sqlite"), True)
    assert store_path("~/d") == (Path.home() / "d", True)
    assert store_path("none") == (None, True)
    monkeypatch.delenv("COLLAGE_STORE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store_path() == (tmp_path / "tvm-collage" / "costs.sqlite", False)
