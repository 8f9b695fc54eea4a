# SPDX-License-Identifier: Apache-2.0
"""The service of a device to whoever has a session with it: it runs jobs in a worker of its own,
the same worker that measures locally, so that nothing a candidate does ends the session.

Its methods take and give JSON, as the packed functions PREFIX + name
(integration.py). Test: rpc/test_devices.py.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import tvm

from ..exec.pool import Job, WorkerPool, step
from ..exec.process import WorkerOptions
from ..exec.reply import Reply
from ..exec.worker import die_with_parent

PREFIX = "collage.device."


class Service:
    """One session's worker and its job."""

    def __init__(self) -> None:
        self._pool: WorkerPool | None = None
        self._replies: list[Reply] = []

    def open(self, options: str) -> str:
        """Take WorkerOptions for the jobs to come; earlier ones are forgotten."""
        # The server may be killed in mid-session, and its worker must not outlive that.
        die_with_parent(os.getppid())
        if self._pool is not None:
            self._pool.close()
        self._pool = WorkerPool(1, WorkerOptions(**json.loads(options)))
        self._replies.clear()
        return ""

    def submit(self, job: str) -> str:
        """Begin a job: {"job": Job's fields, "names": {path there: file uploaded here}}."""
        request = json.loads(job)
        work_path = tvm.get_global_func("tvm.rpc.server.workpath")
        files = {path: str(work_path(name)) for path, name in request["names"].items()}
        request["job"]["arguments"] = _with_files(request["job"]["arguments"], files)
        self._opened().submit(Job(**request["job"]), self._replies.append)
        return ""

    def poll(self, seconds: float) -> str:
        """Wait for the reply, so long at most: a Reply's fields, or "" when it goes on."""
        pool = self._opened()
        end = time.monotonic() + seconds
        while pool.has_work and time.monotonic() < end:
            step(pool)
        return json.dumps(vars(self._replies.pop())) if self._replies else ""

    def _opened(self) -> WorkerPool:
        if self._pool is None:
            raise RuntimeError("collage.device.open comes first")
        return self._pool


SERVICE = Service()


def _with_files(value: object, files: dict[str, str]) -> Any:
    """Return JSON values in which paths of the other machine are this one's."""
    if isinstance(value, dict):
        return {key: _with_files(item, files) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_files(item, files) for item in value]
    return files.get(value, value) if isinstance(value, str) else value
