# SPDX-License-Identifier: Apache-2.0
"""The steps of the guard, as progress shows them. Test: test_guard_progress.py."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from ..progress import make_view, phase

# Called with what is done next, steps done and steps in all.
OnStep = Callable[[str, int, int], None]


@contextlib.contextmanager
def guard_progress(
    kind: str = "auto",
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[OnStep]:
    """Yield an OnStep that shows its steps, as `kind` says for measuring, on standard error."""
    with phase("guard", make_view(kind, stream), clock) as running:
        yield lambda step, done, total: running.update(
            done,
            total,
            f"{step}, {done}/{total}",
            {"step": step, "done": done, "total": total},
        )
