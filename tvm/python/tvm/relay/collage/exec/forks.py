# SPDX-License-Identifier: Apache-2.0
"""Work of this process done by a fork of it, which may hang or crash: a pass of TVM's, a build.

A fork has all that this process has, with nothing written and read, so it suits what is large. What
it makes it leaves in files; what it answers is JSON. Our thread pool launches in a fork as well
(docs/thread_pool.md). Test: exec/test_forks.py.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

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
        with _fork(left) as fork:
            for name in left:
                on_task(name, len(replies))
                replies[name] = fork.reply(seconds(len(tasks) - len(replies)))
                if replies[name].outcome in ("timeout", "died"):
                    break
    return replies


def run_side_by_side(
    tasks: Mapping[str, Task],
    at_once: int,
    *,
    seconds: float = float("inf"),
    patience: float = float("inf"),
    unawaited: Collection[str] = (),
    on_task: Callable[[str, int], None] = lambda name, done: None,
) -> dict[str, Reply]:
    """Return the replies to the tasks by name, each of which has a fork of its own, so many at
    once, begun in their order.

    After `seconds` those that are left are killed. Those that nobody waits for are killed, too, and
    there is no reply of them: what is left `patience`, seconds as well, after one task has
    succeeded, and of those `unawaited` what is left when all others have ended.
    `on_task(name, done)` as each begins.
    """
    waiting, began = list(tasks), time.monotonic()
    running: dict[str, tuple[_Fork, contextlib.ExitStack]] = {}
    replies: dict[str, Reply] = {}
    first_end = float("inf")  # of a task that has succeeded
    with contextlib.ExitStack() as held:
        while {*waiting, *running}.difference(unawaited):
            while waiting and len(running) < at_once:
                name = waiting.pop(0)
                on_task(name, len(replies))
                own = held.enter_context(contextlib.ExitStack())
                running[name] = own.enter_context(_fork({name: tasks[name]})), own
            until = min(began + seconds, first_end + patience)
            is_over = not _any_answers([fork for fork, _ in running.values()], until)
            for name, (fork, own) in list(running.items()):
                if fork.answers(0.0):
                    replies[name] = fork.reply(0.0)
                    if replies[name].outcome == "ok":
                        first_end = min(first_end, time.monotonic())
                    del running[name]
                    own.close()
            if is_over and time.monotonic() >= began + seconds:
                late = Reply("timeout", message=f"it did not end within {max(0.0, seconds):.0f} s")
                return replies | dict.fromkeys([*running, *waiting], late)
            if is_over:
                break
    return replies


class _Fork(NamedTuple):
    """A fork at work."""

    replies: BinaryIO
    end: Callable[[], int]  # waits for its end and gives its return code

    def fileno(self) -> int:
        return self.replies.fileno()

    def answers(self, seconds: float) -> bool:
        """Wait so long for a reply; return whether there is one, or the fork's end."""
        return _any_answers([self], time.monotonic() + seconds)

    def reply(self, seconds: float) -> Reply:
        """Wait so long for the reply to the next task."""
        if not self.answers(seconds):
            return Reply("timeout", message=f"it did not end within {max(0.0, seconds):.0f} s")
        line = self.replies.readline()
        if not line.endswith(b"\n"):
            return Reply("died", message=how_it_ended(self.end()))
        found = json.loads(line)
        if found["ok"]:
            return Reply("ok", found["value"])
        return Reply("failed", None, found["type"], message=found["message"])


def _any_answers(forks: Collection[_Fork], until: float) -> bool:
    """Wait until then for any of the forks to reply or end; return whether one has."""
    with selectors.DefaultSelector() as selector:
        for fork in forks:
            selector.register(fork, selectors.EVENT_READ)
        left = until - time.monotonic()
        return bool(selector.select(None if left == float("inf") else max(0.0, left)))


@contextlib.contextmanager
def _fork(tasks: Mapping[str, Task]) -> Iterator[_Fork]:
    """Have a fork do the tasks in turn; yield it. It is killed at the end, with what it has
    started."""
    parent = os.getpid()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # else both would write what is kept back
    with _FORKING:  # else a fork of another thread may hold the end that this one's writes to
        ours, its = os.pipe()
        child = os.fork()
        if child:
            os.close(its)
    if child == 0:
        gc.freeze()  # garbage from here may wait, as it ends, for threads that a fork lacks
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
            yield _Fork(replies, lambda: _end(child, status))
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


def _end(child: int, status: list[int]) -> int:
    """Wait for the fork, once; its return code."""
    if not status:
        status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return status[0]
