# SPDX-License-Identifier: Apache-2.0
"""`collage cache`: what is on disk, and removing it."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from cli_nets import call
from store_rows import row
from tvm.relay.collage.store import CostStore


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as found:
        found.put(row())
    # As a killed process leaves it.
    (tmp_path / "collage-dead").mkdir()
    (tmp_path / "collage-dead" / "big").write_bytes(b"x" * 2_000_000)
    (tmp_path / "collage-dead.lock").touch()
    return path


def test_size_names_what_there_is(store, capsys):
    assert call("cache", "size", "--store", store, "--json") == 0
    costs, left = json.loads(capsys.readouterr().out)
    assert costs["path"] == str(store) and costs["bytes"] >= store.stat().st_size
    assert left["bytes"] == 2_000_000
    assert call("cache", "size", "--store", store) == 0
    assert "left by killed processes: 2.0 MB" in capsys.readouterr().out


def test_what_another_process_removes_meanwhile_has_no_size(store, capsys, monkeypatch):
    lstat = Path.lstat

    def gone(path):
        if path.name == "big":
            raise FileNotFoundError(path)
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", gone)
    assert call("cache", "size", "--store", store, "--json") == 0
    assert json.loads(capsys.readouterr().out)[1]["bytes"] == 0


def test_a_folder_that_vanishes_meanwhile_has_no_size(store, capsys, monkeypatch):
    inner = store.parent / "collage-dead" / "inner"
    inner.mkdir()
    (inner / "file").write_bytes(b"x")
    scandir = os.scandir

    def gone(path):
        if path == str(inner) or path == inner:
            shutil.rmtree(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", gone)
    assert call("cache", "size", "--store", store, "--json") == 0
    assert not inner.exists()
    assert json.loads(capsys.readouterr().out)[1]["bytes"] == 2_000_000


def test_nothing_is_removed_without_yes(store, capsys):
    assert call("cache", "clear", "--store", store) == 2
    assert "say --yes to remove what follows: store" in capsys.readouterr().err and store.exists()
    assert call("cache", "clear", "--store", store, "--yes") == 0
    assert "removed store of costs and decisions" in capsys.readouterr().out
    assert not list(store.parent.iterdir())
    assert call("cache", "clear", "--store", store, "--yes") == 0
    assert "nothing to remove" in capsys.readouterr().out


def test_no_store_is_no_row(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert call("cache", "size", "--store", "none", "--json") == 0
    assert [row["bytes"] for row in json.loads(capsys.readouterr().out)] == [0]


def test_a_file_of_another_program_is_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = tmp_path / "net.onnx"
    model.write_bytes(b"a model, " * 1000)
    assert call("cache", "clear", "--store", model, "--yes") == 1
    err = capsys.readouterr().err
    assert "net.onnx" in err and err.count("\n") == 1 and model.exists()


def test_a_damaged_store_is_removed(store, capsys):
    whole = store.read_bytes()
    store.write_bytes(whole[: len(whole) // 2])
    assert call("cache", "clear", "--store", store, "--yes") == 0
    assert not store.exists()
