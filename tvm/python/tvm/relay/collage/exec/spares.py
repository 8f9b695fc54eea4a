# SPDX-License-Identifier: Apache-2.0
"""Worker processes kept for the next comparison: their start, an import of TVM, takes seconds.
Test: exec/test_spares.py."""

from __future__ import annotations

from .process import WorkerOptions, WorkerProcess

# For a worker to free what it has opened.
_CLOSE_SECONDS = 30.0


class SpareWorkers:
    """Workers that have nothing open, by the options that they were started with."""

    def __init__(self) -> None:
        self._idle: list[tuple[WorkerOptions, WorkerProcess]] = []

    def take(self, options: WorkerOptions) -> WorkerProcess:
        """Take a worker with these options, started if there is none."""
        for entry in self._idle:
            if entry[0] == options and entry[1].is_alive:
                self._idle.remove(entry)
                return entry[1]
        return WorkerProcess(options)

    def give(self, options: WorkerOptions, worker: WorkerProcess) -> None:
        """Keep a worker that has answered what it was asked; one that cannot close what it has
        opened is killed."""
        if worker.call("close", {}, _CLOSE_SECONDS).outcome == "ok":
            self._idle.append((options, worker))
        else:
            worker.kill()

    def close(self) -> None:
        """Kill them all."""
        while self._idle:
            self._idle.pop()[1].kill()

    def __enter__(self) -> SpareWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
