# SPDX-License-Identifier: Apache-2.0
"""Files that will not do: each is refused by its kind, and left exactly as it was."""

import contextlib
import dataclasses
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from measure_fakes import fake_candidate, fake_options, measure
from store_files import (
    FAULTS,
    NEWER,
    damaged,
    fill,
    make_older,
    make_version_1,
    of_another_program,
    text,
    truncated,
)
from store_rows import KEY, row, sql
from tvm.relay.collage import CollageError, CollageOptions
from tvm.relay.collage import store as stores
from tvm.relay.collage.estimators.session import open_session
from tvm.relay.collage.measure import Cost
from tvm.relay.collage.store import CostStore, StoredCost, StoredCosts
from tvm.relay.collage.store.salvage import salvage
from tvm.relay.collage.store.schema import VERSION

pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.mark.parametrize("make", FAULTS, ids=lambda make: make.__name__)
def test_each_is_refused_by_its_kind_and_left_as_it_was(tmp_path, make, monkeypatch, caplog):
    path = tmp_path / "tvm-collage" / "costs.sqlite"
    path.parent.mkdir()
    make(path)
    before = path.read_bytes() if path.is_file() else None
    kind, reason, advice = FAULTS[make]
    with pytest.raises(CollageError) as caught:
        CostStore(path)
    assert type(caught.value).__name__ == kind
    for words in (str(path), reason, advice):
        assert words in str(caught.value)

    # Named by the user it is an error before anything is measured; else a warning, and no store.
    with (
        pytest.raises(getattr(stores, kind)),
        open_session(CollageOptions(store=str(path)).session),
    ):
        pass
    monkeypatch.delenv("COLLAGE_STORE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("tvm.relay.collage.process_wide.logs.warned", set())
    for _ in range(2):
        with open_session(CollageOptions().session) as session:
            assert "store" not in session.estimator.Summary()
    [record] = caplog.records
    assert record.levelname == "WARNING" and str(path) in record.getMessage()
    assert path.is_dir() if before is None else path.read_bytes() == before
    assert sorted(each.name for each in path.parent.iterdir()) == ["costs.sqlite"]


@pytest.mark.parametrize("make", [truncated, damaged], ids=lambda make: make.__name__)
def test_a_damaged_file_gives_back_the_rest(tmp_path, make):
    path = tmp_path / "costs.sqlite"
    make(path)
    before = path.read_bytes()
    saved = salvage(path)
    assert 50 < len(saved) < 200 and all(r == row(candidate=r.key.candidate) for r in saved)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_salvage_of_a_sound_file_is_all_of_it_and_of_another_is_nothing(tmp_path):
    fill(tmp_path / "sound")
    assert salvage(tmp_path / "sound") == CostStore(tmp_path / "sound").rows()
    of_another_program(tmp_path / "other")
    assert salvage(tmp_path / "other") == []
    text(tmp_path / "text")
    with pytest.raises(stores.StoreForeignError, match="no SQLite file"):
        salvage(tmp_path / "text")
    with pytest.raises(stores.StoreMissingError):
        salvage(tmp_path / "none")


def test_a_mistyped_folder_is_refused_and_not_made(tmp_path, monkeypatch):
    path = tmp_path / "mistyped" / "folder" / "costs.sqlite"
    with pytest.raises(stores.StoreFolderError, match="there is no folder .*mistyped.*make the"):
        stores.CostStore(path)
    assert not path.parent.parent.exists()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("COLLAGE_STORE")
    default, _ = stores.store_path("")
    if not default.exists():  # the user's own is made, with its folders
        stores.CostStore(default).close()
    assert default.is_relative_to(tmp_path) and default.exists()


def test_reading_makes_no_file_and_an_empty_one_becomes_a_store(tmp_path):
    path = tmp_path / "costs.sqlite"
    with pytest.raises(stores.StoreMissingError, match="there is no such file"):
        CostStore(path, create=False)
    assert list(tmp_path.iterdir()) == []
    path.touch()
    with CostStore(path) as store:
        store.put(row())
        assert store.get(KEY) == row()


@pytest.mark.parametrize("version", NEWER)
def test_an_older_layout_is_salvaged_and_migrated_with_its_rows(tmp_path, version):
    path = tmp_path / "costs.sqlite"
    rows = [(r.key, r.cost) for r in make_older(path, version)]
    assert [(r.key, r.cost) for r in salvage(path)] == rows
    with CostStore(path) as store:
        assert [(r.key, r.cost) for r in store.rows()] == rows
        assert {r.allowed_seconds for r in store.rows()} == {0.0 if version == 1 else 0.3}
        store.put(row())
        assert store.problems() == []
    with CostStore(path) as again:
        assert len(again.rows()) == 4
    with sql(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)


# Messages of layouts before 5, what is left of them, and whether nothing was compared.
WORDED = {
    "noisy: the machine was busy, its upper quartile counts": ("", False),
    "noisy: too few samples to bound the median": ("", False),
    "noisy: the machine was busy; not verified: no outputs": ("not verified: no outputs", True),
    "not verified: ValueError: noisy: x": ("not verified: ValueError: noisy: x", True),
    "was not verified by me": ("was not verified by me", False),
}


def test_what_messages_said_of_a_cost_becomes_data(tmp_path):
    path = tmp_path / "costs.sqlite"
    rows = make_older(path, 4, messages=WORDED)
    told = {each.key: words for each, words in zip(rows, WORDED.values(), strict=True)}
    failed = dataclasses.replace(rows[0], cost=Cost.failed("run_failed", "not verified: it"))
    lines = [{k: v for k, v in r.to_json().items() if k != "unverified"} for r in (*rows, failed)]
    for read in (salvage(path), CostStore(path).rows(), map(StoredCost.from_json, lines[:-1])):
        assert {r.key: (r.cost.message, r.cost.unverified) for r in read} == told
    assert StoredCost.from_json(lines[-1]) == failed, "a failure's words are its own"


def test_a_migration_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "costs.sqlite"
    make_version_1(path)
    before = path.read_bytes()
    monkeypatch.setattr("tvm.relay.collage.store.schema.MIGRATIONS", {1: ("ALTER TABLE nothing",)})
    with pytest.raises(stores.StoreError, match="it cannot be used"):
        CostStore(path)
    assert path.read_bytes() == before


@contextlib.contextmanager
def without_rights():
    """As a user who may only read: root may write whatever the file's mode says."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def public_folder():
    """A folder that every user can reach, unlike pytest's."""
    path = Path(tempfile.mkdtemp(prefix="collage-test-"))
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


@pytest.mark.parametrize("folder_mode", [0o555, 0o777], ids=["folder", "file"])
def test_a_read_only_store_serves_look_ups_with_one_warning(public_folder, folder_mode, caplog):
    path = public_folder / "costs.sqlite"
    options = fake_options(workers=1)

    def estimator():
        costs = StoredCosts(CostStore(path), options, lambda _: "7")
        return measure.MeasuredCostEstimator(options, store=costs)

    with estimator() as first:
        first.estimate([fake_candidate("a")])
    path.chmod(0o444)
    public_folder.chmod(folder_mode)
    before = path.read_bytes()
    with without_rights():
        opened = estimator()
    with opened as second:
        second.estimate([fake_candidate("a"), fake_candidate("b")])
        assert (second.stored, second.misses) == (1, 1)
    [record] = caplog.records
    assert record.levelname == "WARNING" and "is read-only" in record.getMessage()
    assert str(path) in record.getMessage()
    assert path.read_bytes() == before


def test_writing_a_read_only_store_is_an_error(public_folder):
    path = public_folder / "costs.sqlite"
    fill(path)
    path.chmod(0o444)
    public_folder.chmod(0o555)
    with without_rights(), CostStore(path) as store:
        assert len(store.rows()) == 200 and store.problems() == []
        for write in (lambda: store.put(row()), lambda: store.merge([row()])):
            with pytest.raises(stores.StoreReadOnlyError, match="make the file and its folder"):
                write()


def test_a_folder_that_cannot_be_made_or_written(public_folder):
    public_folder.chmod(0o555)
    with without_rights():
        for path in (public_folder / "costs.sqlite", public_folder / "new" / "costs.sqlite"):
            with pytest.raises(stores.StoreError) as caught:
                CostStore(path)
            assert str(path) in str(caught.value)


def test_an_older_layout_that_cannot_be_migrated(public_folder):
    path = public_folder / "costs.sqlite"
    make_version_1(path)
    path.chmod(0o444)
    public_folder.chmod(0o555)
    with without_rights(), pytest.raises(stores.StoreReadOnlyError, match="an older layout"):
        CostStore(path)


def test_a_full_disk_keeps_what_was_committed(tmp_path):
    with CostStore(tmp_path / "costs.sqlite") as store:
        store.put(row())
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        more = [row(candidate=f"{i:016x}") for i in range(100)]
        with pytest.raises(stores.StoreFullError, match="free space on its disk"):
            store.merge(more)
        with pytest.raises(stores.StoreFullError):
            for each in more:
                store.put(each)
        kept = store.rows()
        assert KEY in [each.key for each in kept] and len(kept) < 100
        assert store.problems() == []


def test_a_file_that_another_process_holds(tmp_path, monkeypatch):
    path = tmp_path / "costs.sqlite"
    fill(path, 1)
    monkeypatch.setattr("tvm.relay.collage.store.connect.BUSY_SECONDS", 0.1)
    with sql(path) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with CostStore(path) as store:
            assert len(store.rows()) == 1, "readers do not wait"
            with pytest.raises(stores.StoreBusyError, match="another process holds the file"):
                store.put(row())
        holder.execute("COMMIT")
    with CostStore(path) as store:
        store.put(row())
