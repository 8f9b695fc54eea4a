# SPDX-License-Identifier: Apache-2.0
"""Searches of fault_search.py seen from a test: start, follow, kill, and what their store holds."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from store_rows import sql


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

    def plan(self):
        """What the last search that ended well found."""
        return json.loads(self.result.read_text())

    def close(self):
        self._server.stdin.close()
        self._server.wait(60)
        self._server.stdout.close()
        os.close(self.pipe)


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


def wait_until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()
