# SPDX-License-Identifier: Apache-2.0
"""The worker process: runs what may hang or crash, away from the user. Test: exec/test_pool.py.

Forked from a clean process (clean.py), or started as `python -m <this module> <reply fd> <parent
pid>`. A request is one line of JSON on stdin, {"id", "command", "arguments"}; its reply one line on
the reply descriptor, {"id", "ok": true, "value"} or {"id", "ok": false, "type", "message",
"fault"}, both with "spent", seconds by phase. Both descriptors are moved out of the way at start,
so that what a candidate reads or prints cannot touch the protocol.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from ..machine.memory import be_first_to_go
from .contestant import Stage
from .machine_fault import fault_of, kills_for_memory
from .reply import failure
from .resolve import resolve
from .spent import phase, recording

_PR_SET_PDEATHSIG = 1


class Commands(Stage):
    """The commands of a worker; each public method takes a request's arguments by keyword."""

    def ping(self, path: Sequence[str] = (), imports: Sequence[str] = ()) -> dict[str, Any]:
        """Answer; `path` holds directories to import from besides the worker's own, `imports`
        modules to import for what they register."""
        sys.path.extend(p for p in path if p not in sys.path)
        for module in imports:
            importlib.import_module(module)
        return {"pid": os.getpid()}

    def call(self, function: str, arguments: dict[str, Any]) -> Any:
        """Call the function that "module:name" names; its result must be JSON values."""
        return resolve(function)(**arguments)


def serve(requests: Iterable[str], replies: TextIO) -> None:
    """Answer requests until they end; an exception is an answer, only a death is not."""
    commands = Commands()
    for line in requests:
        request = json.loads(line)
        kills = kills_for_memory()
        reply: dict[str, Any] = {"id": request["id"], "ok": True}
        with recording() as spent:
            try:
                with phase(request["command"]):
                    reply["value"] = getattr(commands, request["command"])(**request["arguments"])
                json.dumps(reply)
            except BaseException as error:  # noqa: BLE001 - a candidate's SystemExit ends no worker
                failed = failure(error)
                reply = {"id": request["id"], **failed, "fault": fault_of(error, kills)}
        replies.write(json.dumps({**reply, "spent": spent.phases}) + "\n")
        replies.flush()


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends, however that ends (Linux)."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the request
        os._exit(1)


def main(arguments: list[str]) -> None:
    reply_fd, parent = (int(a) for a in arguments)
    die_with_parent(parent)
    be_first_to_go()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.set_inheritable(reply_fd, False)
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    with os.fdopen(reply_fd, "w", encoding="utf-8") as replies:
        serve(requests, replies)


if __name__ == "__main__":
    main(sys.argv[1:])
