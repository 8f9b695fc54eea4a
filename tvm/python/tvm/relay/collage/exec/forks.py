# SPDX-License-Identifier: Apache-2.0
"""Work of this process done by a fork of it, which may hang or crash: a pass of TVM's, a build.

A fork has all that this process has, with nothing written and read, so it suits what is large. What
it makes it leaves in files; what it answers is JSON. Our thread pool launches in a fork as well
(docs/thread_pool.md). Test: exec/test_forks.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

from .reply import Reply, failure, how_it_ended
from .worker import die_with_parent

Task = Callable[[], Any]
_FORKING = threading.Lock()


def run_in_forks(
    tasks: Mapping[str, Task],
    seconds: Callable[[int], float],
    on_task: Callable[[str, int], None] = lambda name, done: None,
) -> dict[str, Reply]:
    """Return the replies to the tasks by name, of which one is done after the other.

    `seconds(left)`: how long the next one may take, which is one of so many that are left; then the
    fork is killed, and another one does those behind it. `on_task(name, done)` before each.
    """
    replies: dict[str, Reply] = {}
    while left := {name: task for name, task in tasks.items() if name not in replies}:
        with _fork(left) as answer:
            for name in left:
                on_task(name, len(replies))
                replies[name] = answer(seconds(len(tasks) - len(replies)))
                if replies[name].outcome in ("timeout", "died"):
                    break
    return replies


@contextlib.contextmanager
def _fork(tasks: Mapping[str, Task]) -> Iterator[Callable[[float], Reply]]:
    """Have a fork do the tasks in turn; yield what waits so many seconds for the next one's reply.
    It is killed at the end, with what it has started."""
    parent = os.getpid()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # else both would write what is kept back
    with _FORKING:  # else a fork of another thread may hold the end that this one's writes to
        ours, its = os.pipe()
        child = os.fork()
        if child:
            os.close(its)
    if child == 0:
        try:
            os.setsid()  # Ctrl-C is the driver's, and those that it starts end with it
            die_with_parent(parent)
            for task in tasks.values():
                os.write(its, _answer(task) + b"\n")
        finally:
            os._exit(0)
    with os.fdopen(ours, "rb", 0) as replies:
        status: list[int] = []
        try:
            yield lambda seconds: _reply(replies, seconds, lambda: _end(child, status))
        finally:
            if not status:  # its number is its own until somebody has waited for it
                os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
            _end(child, status)


def _answer(task: Task) -> bytes:
    try:
        return json.dumps({"ok": True, "value": task()}).encode()
    except BaseException as error:  # noqa: BLE001 - an exception is an answer
        return json.dumps(failure(error)).encode()


def _reply(replies: BinaryIO, seconds: float, end: Callable[[], int]) -> Reply:
    """Wait for a line."""
    with selectors.DefaultSelector() as selector:
        selector.register(replies, selectors.EVENT_READ)
        if not selector.select(None if seconds == float("inf") else max(0.0, seconds)):
            return Reply("timeout", message=f"it did not end within {max(0.0, seconds):.0f} s")
    line = replies.readline()
    if not line.endswith(b"\n"):
        return Reply("died", message=how_it_ended(end()))
    found = json.loads(line)
    if found["ok"]:
        return Reply("ok", found["value"])
    return Reply("failed", None, found["type"], message=found["message"])


def _end(child: int, status: list[int]) -> int:
    """Wait for the fork, once; its return code."""
    if not status:
        status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return status[0]
