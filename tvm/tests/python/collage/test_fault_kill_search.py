# SPDX-License-Identifier: Apache-2.0
"""kill -9 of a whole search, at random points, and its resumption: on a fake deterministic device
the plan comes out the same, and at most the measurement under way is lost."""

import collections
import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from store_rows import sql
from test_measure_pool import wait_until

KILLS = 100


class Run:
    """A search that the server forked; its events as they come."""

    def __init__(self, searches, **arguments):
        self._searches = searches
        self.events = []
        self._bytes = b""
        self.pid = searches.ask(arguments)

    def wait_for(self, count):
        """Wait until there are so many events or the search has ended; whether it goes on."""
        while len(self.events) < count and not self._searches.is_over(0.001):
            self.read()
        self.read()
        return not self._searches.is_over(0)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def end(self):
        """Its exit status; all its workers are gone by now, or soon."""
        while not self._searches.is_over(0.01):
            self.read()
        status = self._searches.take_status()
        workers = {pid for _, _, pid in self.events}
        assert wait_until(lambda: all(map(is_gone, workers)))
        self.read()
        return status

    def read(self):
        with contextlib.suppress(BlockingIOError):
            while block := os.read(self._searches.pipe, 1 << 16):
                self._bytes += block
        *lines, self._bytes = self._bytes.split(b"\n")
        self.events += [tuple(line.decode().split()) for line in lines]

    def keys(self, kind):
        return [key for each, key, _ in self.events if each == kind]


class Searches:
    """The server of fault_search.py, with a folder for what its searches leave."""

    def __init__(self, folder):
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        os.mkfifo(folder / "events")
        self.pipe = os.open(folder / "events", os.O_RDWR | os.O_NONBLOCK)
        self._server = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("fault_search.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # select() tells whether there is a line
            env={**os.environ, "TMPDIR": str(self.temporary)},
        )
        assert self._server.stdout.readline() == b"ready\n"
        self.result = folder / "result.json"

    def ask(self, arguments):
        self.result.unlink(missing_ok=True)
        paths = {"events": str(self.folder / "events"), "result": str(self.result)}
        self._server.stdin.write(json.dumps({**arguments, **paths}).encode() + b"\n")
        return int(self._server.stdout.readline())

    def is_over(self, seconds):
        return bool(select.select([self._server.stdout], [], [], seconds)[0])

    def take_status(self):
        return int(self._server.stdout.readline())

    def close(self):
        self._server.stdin.close()
        self._server.wait(60)
        self._server.stdout.close()
        os.close(self.pipe)


@pytest.fixture(scope="module")
def searches(tmp_path_factory):
    searches = Searches(tmp_path_factory.mktemp("searches"))
    yield searches
    searches.close()


@pytest.fixture(scope="module")
def undisturbed(searches):
    """The run that nobody kills, its plan, and its seconds before, between and after events."""
    began = time.monotonic()
    run = Run(searches, store=str(searches.folder / "undisturbed"))
    run.wait_for(1)
    first = time.monotonic()
    assert run.end() == 0
    ended = time.monotonic()
    return run, json.loads(searches.result.read_text()), (first - began, (ended - first) / 20)


def is_gone(pid):
    """Ended, be it that nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def stored(path):
    """Candidates with a cost, as events name them; the store is sound."""
    if not path.exists():
        return set()
    with sql(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return set()
        rows = connection.execute("SELECT backend, candidate FROM cost").fetchall()
    return {":".join(row) for row in rows}


def test_the_device_measures_and_fails(undisturbed):
    run, plan, _ = undisturbed
    begun, ended = run.keys("begin"), run.keys("end")
    assert len(set(ended)) == len(ended) > 15 and set(ended) < set(begun) < set(run.keys("build"))
    assert len({part[0] for part in plan["parts"]}) > 1
    failed = {(row[2], row[3]) for row in plan["failed"]}
    assert failed == {
        ("fake_calls(nn.conv2d)", "compile_failed"),
        ("fake_calls(sigmoid)", "crashed"),
    }
    crashed = collections.Counter(begun) - collections.Counter(ended)
    assert set(crashed.values()) == {2}, "what kills its worker is tried twice"


def kill_and_resume(searches, undisturbed, generator, name, points, **how):
    """Searches with one store, each killed after as many events as `points` says, unless it ends
    before; the last one is not killed. How many were."""
    usual, plan, (before, between) = undisturbed
    path, killed = searches.folder / name, 0
    while True:
        known = stored(path)
        run = Run(searches, store=str(path), **how)
        at = next(points, None)
        if at is not None and run.wait_for(at):
            time.sleep(generator.random() * (between if at else before))
            run.kill()
        status = run.end()
        kept = stored(path)
        assert known <= kept, "what is committed stays"
        assert not known & set(run.keys("build") + run.keys("begin")), "it is not measured again"
        assert len(set(run.keys("end")) - kept) <= 1, "one measurement is lost at most"
        assert max(collections.Counter(run.keys("end")).values(), default=1) == 1
        if status == 0:
            assert json.loads(searches.result.read_text()) == plan
            assert kept == stored(searches.folder / "undisturbed")
            assert list(searches.temporary.iterdir()) == [], "what killed ones left is removed"
            return killed
        assert status == -signal.SIGKILL
        killed += 1


def test_kill_9_at_100_random_points_and_resume(searches, undisturbed):
    generator = random.Random(0)
    killed = chains = 0
    while killed < KILLS:
        points = [generator.randrange(len(undisturbed[0].events)) for _ in range(KILLS - killed)]
        name = f"chain {chains}"
        killed += kill_and_resume(searches, undisturbed, generator, name, iter(points))
        chains += 1
    assert killed == KILLS


def test_kill_9_with_real_worker_processes(searches, undisturbed):
    points = iter([3, 8])
    generator = random.Random(1)
    assert kill_and_resume(searches, undisturbed, generator, "r", points, forked=False) == 2
