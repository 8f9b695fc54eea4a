# SPDX-License-Identifier: Apache-2.0
"""`collage store prune`: what goes, what stays, and that it says so."""

import datetime
import json

import pytest
from store_files import damaged, fill, folder, make_version_1, text
from store_rows import FAILED, row, sql
from tvm.relay.collage.store import CostStore, Environment, StoreBusyError, StoreReadOnlyError
from tvm.relay.collage.store.key import stored_version
from tvm.relay.collage.store.row import StoredCost, utc
from tvm_collage.cli import main

HERE = Environment.here()._asdict() | {"backend_version": stored_version("dnnl")}
NOW = datetime.datetime.now(datetime.UTC)


def days_ago(days, name="0000", **parts):
    found = row(candidate=name, **{**HERE, **parts})
    return StoredCost(found.key, found.cost, utc(NOW - datetime.timedelta(days=days)), found.label)


ROWS = {
    "new": days_ago(1, "aaaa"),
    "old": days_ago(40, "bbbb"),
    "old tvm": days_ago(40, "cccc", tvm="0.18.0"),
    "other tvm": days_ago(1, "dddd", tvm="0.18.0"),
    "other library": days_ago(1, "eeee", backend_version="2.6"),
    "other measuring": days_ago(1, "ffff", measuring="0"),
    "other options": days_ago(1, "1111", measuring=HERE["measuring"] + ' {"seed": 7}'),
    "other machine": days_ago(1, "2222", cpu="another", threads="64"),
    "of tvm": days_ago(1, "3333", backend="tvm", backend_version=""),
    "device's library": days_ago(1, "5555", cpu="another", backend_version="2.6"),
    "unknown backend": days_ago(1, "4444", backend="of_a_user", backend_version="7"),
}
OTHER = {"old tvm", "other tvm", "other library", "other measuring"}


@pytest.fixture
def path(tmp_path):
    with CostStore(tmp_path / "costs.sqlite") as store:
        store.merge(ROWS.values())
    return tmp_path / "costs.sqlite"


def names(rows):
    return {name for name, each in ROWS.items() if each.key in [row.key for row in rows]}


def prune(capsys, path, *arguments):
    code = main(["store", "prune", *arguments, "--store", str(path)])
    return code, *capsys.readouterr()


CHOICES = {
    "--other-versions": OTHER,
    "--older-than 30": {"old", "old tvm"},
    "--older-than 0": set(ROWS),
    "--older-than 30 --other-versions": {"old tvm"},
    "--backend of_a_user": {"unknown backend"},
    "--backend tvm --older-than 30": set(),
    "bbbb": {"old"},
    "--status compile_failed": set(),
}


@pytest.mark.parametrize("arguments", CHOICES)
def test_what_goes_and_what_stays(path, capsys, arguments):
    going = CHOICES[arguments]
    code, out, _ = prune(capsys, path, *arguments.split(), "--dry-run")
    assert code == 0 and out.endswith(f"{len(ROWS)} costs, {len(going)} would be removed; {path}\n")
    listed = out.splitlines()[:-1]
    assert {line.split()[0] for line in listed} == {ROWS[name].key.candidate for name in going}
    with CostStore(path) as store:
        assert names(store.rows()) == set(ROWS)
    code, again, _ = prune(capsys, path, *arguments.split())
    assert code == 0 and again.splitlines()[:-1] == listed, "each is printed as it goes"
    assert again.endswith(f"{len(ROWS)} costs, {len(going)} removed; {path}\n")
    with CostStore(path) as store:
        assert names(store.rows()) == set(ROWS) - going and store.problems() == []


def test_as_json(path, capsys):
    code, out, _ = prune(capsys, path, "--older-than", "30", "--json")
    report = json.loads(out)
    assert code == 0 and (report["removed"], report["kept"]) == (2, len(ROWS) - 2)
    assert report["rows"][0] == ROWS["old"].to_json()


def test_nothing_goes_unless_told_what(path, capsys):
    code, out, err = prune(capsys, path)
    assert code == 2 and "give a hash, --backend, --status, --older-than" in err
    for days in ("soon", "-1", "nan", "1e9"):
        with pytest.raises(SystemExit):
            prune(capsys, path, "--older-than", days)
        assert f"{days!r} is no number of days" in capsys.readouterr().err
    with CostStore(path) as store:
        assert len(store.rows()) == len(ROWS)


@pytest.mark.parametrize("make", [damaged, folder, text], ids=lambda make: make.__name__)
def test_a_file_that_will_not_do_is_left_as_it_was(tmp_path, capsys, make):
    path = tmp_path / "s"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    code, _, err = prune(capsys, path, "--older-than", "0")
    assert code == 1 and str(path) in err
    assert path.is_dir() if before is None else path.read_bytes() == before


def test_no_file_is_made_and_an_older_layout_is_not_migrated_by_a_dry_run(tmp_path, capsys):
    assert prune(capsys, tmp_path / "none", "--older-than", "0")[0] == 1
    make_version_1(tmp_path / "old")
    before = (tmp_path / "old").read_bytes()
    assert prune(capsys, tmp_path / "old", "--older-than", "0", "--dry-run")[0] == 1
    assert (tmp_path / "old").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_the_file_becomes_smaller(tmp_path, capsys):
    path = tmp_path / "costs.sqlite"
    fill(path, 1000)
    before = path.stat().st_size
    assert prune(capsys, path, "--backend", "dnnl")[0] == 0
    assert path.stat().st_size < before / 4


def test_a_file_that_cannot_shrink_now_is_pruned_and_it_says_so(path, capsys, caplog, monkeypatch):
    def held(store):
        raise StoreBusyError(store.path, "another process holds the file")

    monkeypatch.setattr(CostStore, "shrink", held)
    code, out, _ = prune(capsys, path, "bbbb")
    assert code == 0 and "1 removed" in out and "as large as it was" in caplog.text


def test_a_row_that_was_measured_again_meanwhile_stays(tmp_path):
    with CostStore(tmp_path / "costs.sqlite") as store:
        store.put(row(minute=1))
        seen = store.rows()
        store.put(row(FAILED, minute=2))
        assert store.remove(seen) == 0 and store.rows() == [row(FAILED, minute=2)]


def test_a_removal_that_fails_midway_removes_nothing(path):
    def rows():
        yield ROWS["old"]
        raise KeyError("the second row")

    with CostStore(path) as store:
        with pytest.raises(KeyError):
            store.remove(rows())
        assert len(store.rows()) == len(ROWS)
    with CostStore(path, write=False) as store, pytest.raises(StoreReadOnlyError):
        store.remove([ROWS["old"]])


def test_rows_that_make_no_sense_stay_for_check_to_name(path, capsys):
    with sql(path) as connection:
        connection.execute("UPDATE cost SET status = 'fast' WHERE candidate = 'bbbb'")
    prune(capsys, path, "--older-than", "0")
    with CostStore(path) as store:
        assert len(store.problems()) == 1
