# SPDX-License-Identifier: Apache-2.0
"""How the guard reports its progress: a rich bar, JSON lines, or nothing.

Test: test_guard_progress.py."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

# Called with what is done next, steps done and steps in all.
OnStep = Callable[[str, int, int], None]


@contextlib.contextmanager
def guard_progress(kind: str = "auto", stream: TextIO | None = None) -> Iterator[OnStep]:
    """Yield an OnStep; `kind` is one of auto, rich, quiet and json, as for measuring.

    Writes to standard error, or to `stream`.
    """
    stream = stream or sys.stderr
    if kind == "json":
        yield lambda text, done, total: print(
            json.dumps({"guard": text, "done": done, "total": total}), file=stream, flush=True
        )
    elif kind == "rich" or (kind == "auto" and stream.isatty()):
        with _bar(stream) as on_step:
            yield on_step
    else:
        yield lambda text, done, total: None


@contextlib.contextmanager
def _bar(stream: TextIO) -> Iterator[OnStep]:
    from rich import console, progress

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=console.Console(file=stream)) as bar:
        task = bar.add_task("guard")
        yield lambda text, done, total: bar.update(
            task, description=f"guard: {text}", completed=done, total=total
        )
