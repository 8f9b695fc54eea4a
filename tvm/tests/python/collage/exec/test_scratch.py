# SPDX-License-Identifier: Apache-2.0
"""Temporary folders: gone with their process, however it ends, and never a living one's."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from measure_fakes import measure
from tvm.relay.collage.exec import scratch
from tvm.relay.collage.exec.scratch import ScratchFolder, remove_stale


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_goes_with_its_object(temporary):
    with ScratchFolder() as path:
        Path(path, "sub").mkdir()
        Path(path, "sub", "file").touch()
        assert len(list(temporary.iterdir())) == 2
    assert list(temporary.iterdir()) == []
    ScratchFolder()
    assert list(temporary.iterdir()) == []


def in_a_child(what):
    pid = os.fork()
    if pid == 0:
        try:
            what()
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def test_what_a_killed_process_left_goes_with_the_next(temporary):
    def make_and_die():
        folder = ScratchFolder()
        Path(folder.path, "file").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(make_and_die) == signal.SIGKILL
    [left] = [path for path in temporary.iterdir() if path.is_dir()]
    with ScratchFolder() as path:
        assert not left.exists() and Path(path).exists()
        assert remove_stale() == 0, "a living process's own stays"
    assert list(temporary.iterdir()) == []


def test_a_lock_file_alone_goes_too_and_others_folders_stay(temporary):
    (temporary / "collage-0123.lock").touch()
    (temporary / "collage-mine").mkdir()
    (temporary / "other.lock").touch()
    assert remove_stale() == 1
    assert sorted(path.name for path in temporary.iterdir()) == ["collage-mine", "other.lock"]


def test_what_cannot_be_removed_keeps_nobody_from_a_folder(temporary, monkeypatch):
    (temporary / "collage-0123.lock").touch()
    unlink = Path.unlink

    def refuse(path, *more, **options):
        if path.name == "collage-0123.lock":
            raise PermissionError(errno.EPERM, "not yours", str(path))
        unlink(path, *more, **options)

    monkeypatch.setattr(Path, "unlink", refuse)
    with ScratchFolder() as path:
        assert Path(path).exists()
    assert [left.name for left in temporary.iterdir()] == ["collage-0123.lock"]
    monkeypatch.undo()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert remove_stale() == 1, "nobody holds its lock"


def test_a_fork_does_not_remove_its_parents(temporary):
    with ScratchFolder() as path:
        folder = ScratchFolder()
        in_a_child(lambda: (folder.close(), remove_stale()))
        assert Path(path).exists() and Path(folder.path).exists()


def test_a_fork_that_outlives_its_killed_parent_keeps_no_folder(temporary):
    read, write = os.pipe()

    def make_fork_and_die():
        folder = ScratchFolder()
        fork = os.fork()
        if fork == 0:
            os.write(write, b".")  # by now it has closed what it must not keep
            time.sleep(60)
        os.read(read, 1)
        os.write(write, f"{fork} {folder.path}".encode())
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(make_fork_and_die) == signal.SIGKILL
    fork, path = os.read(read, 999).decode().split()
    try:
        assert Path(path).exists() and remove_stale() == 1 and not Path(path).exists()
    finally:
        os.kill(int(fork), signal.SIGKILL)
        os.close(read)
        os.close(write)


def test_a_link_is_not_followed(temporary, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "file").touch()
    (temporary / "collage-0123.lock").touch()
    (temporary / "collage-0123").symlink_to(elsewhere)
    (temporary / "collage-4567.lock").symlink_to(elsewhere / "file")
    remove_stale()
    assert (elsewhere / "file").exists()


def test_a_file_system_without_locks_is_an_error_that_says_what_to_do(temporary, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(scratch.fcntl, "flock", flock)
    with pytest.raises(OSError, match="No locks available.*set TMPDIR to a folder on a local disk"):
        ScratchFolder()
    assert list(temporary.iterdir()) == []


def test_a_worker_leaves_nothing_behind(temporary):
    leave = {"function": "tempfile:mkdtemp", "arguments": {}}
    with measure.WorkerPool(1) as pool:
        [reply] = pool.run([measure.Job("call", leave, 60.0)])
        assert Path(reply.value).is_dir() and temporary in Path(reply.value).parents
    assert list(temporary.iterdir()) == []


ALONE = """
import importlib, sys, tempfile, types
from pathlib import Path
_, folder, tempfile.tempdir = sys.argv
sys.modules["alone"] = types.ModuleType("alone")
sys.modules["alone"].__path__ = [folder]
module = importlib.import_module("alone.exec.scratch")
for _ in range(200):
    with module.ScratchFolder() as path:
        Path(path, "file").write_text("x")
"""


def test_many_processes_at_once(temporary):
    command = [sys.executable, "-c", ALONE, str(Path(scratch.__file__).parents[1]), str(temporary)]
    children = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    assert [child.communicate(timeout=120)[1] for child in children] == [b""] * 4
    assert list(temporary.iterdir()) == []
