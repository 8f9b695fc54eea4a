# SPDX-License-Identifier: Apache-2.0
"""A busy process: beside a contestant, where it stands still except while that runs; or by itself.

Run as a module it is the neighbour that runs a contestant for ever. Tests: bench/test_deploy.py,
bench/test_stability.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tvm.relay.collage.exec.contestant import Runnable
from tvm.relay.collage.exec.resolve import resolve
from tvm.relay.collage.exec.worker import die_with_parent

LOOP = {"factory": "", "arguments": {}}
# Of runs, until the scheduler treats the woken neighbour as one that has always run.
_SETTLE_SECONDS = 0.1


def beside(
    neighbour: Mapping[str, Any] | None, factory: str, arguments: dict[str, Any]
) -> Runnable:
    """A contestant by factory and arguments; its neighbour is another one, LOOP (one thread that
    computes), or None."""
    inner = resolve(factory)(**arguments)
    return inner if neighbour is None else _Beside(inner, neighbour)


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """One thread of another process computes during the block."""
    process = _started(LOOP)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _started(neighbour: Mapping[str, Any]) -> subprocess.Popen[str]:
    """The process of a neighbour that is busy from now on."""
    folders = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    # The same neighbour beside each variant of ours, which differ in this one.
    variables = {name: v for name, v in os.environ.items() if name != "GOMP_SPINCOUNT"}
    request = {**neighbour, "parent": os.getpid()}
    # Of the worker's process group, so that both end together.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "harness.neighbour", json.dumps(request)],
        env={**variables, "PYTHONPATH": os.pathsep.join(filter(None, folders))},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise RuntimeError(f"the neighbour ended with {process.wait()}")
    return process


class _Beside:
    def __init__(self, inner: Runnable, neighbour: Mapping[str, Any]) -> None:
        self.run, self.outputs, self._inner = inner.run, inner.outputs, inner
        self._process = _started(neighbour)
        weakref.finalize(self, self._process.kill)
        self._process.send_signal(signal.SIGSTOP)

    def seconds(self, number: int) -> float:
        """Of so many runs beside the neighbour; RuntimeError when it has ended."""
        self._process.send_signal(signal.SIGCONT)
        settled = time.perf_counter() + _SETTLE_SECONDS
        while time.perf_counter() < settled:
            self._inner.run()
        began = time.perf_counter()
        for _ in range(number):
            self._inner.run()
        spent = time.perf_counter() - began
        self._process.send_signal(signal.SIGSTOP)
        if self._process.poll() is not None:
            raise RuntimeError(f"the neighbour ended with {self._process.returncode}")
        return spent


def main(factory: str, arguments: dict[str, Any], parent: int) -> None:
    """Be busy until killed, or until the parent ends, however that ends."""
    die_with_parent(parent)
    run = resolve(factory)(**arguments).run if factory else lambda: sum(range(1000))
    run()
    print("ready", flush=True)
    while True:
        run()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
