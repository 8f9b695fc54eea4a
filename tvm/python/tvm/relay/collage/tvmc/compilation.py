# SPDX-License-Identifier: Apache-2.0
"""The compilation with Collage that tvmc is about, seen by each of the functions that ours stand
before. Test: tvmc/test_tvmc.py."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from tvm.target import Target

_current: ContextVar[Compilation | None] = ContextVar("collage_tvmc", default=None)


@dataclasses.dataclass
class Compilation:
    """A compilation of tvmc's."""

    # Collage's options, as the PassContext takes them, besides those of --pass-config
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    backends: list[Target] = dataclasses.field(default_factory=list)  # the external targets
    # the library or executable, once it is, whose ``collage`` is what was decided
    built: Any = None


def current() -> Compilation | None:
    """Return the compilation under way in this thread; None where TVM's functions are to do as they
    always do."""
    return _current.get()


@contextlib.contextmanager
def under_way(compilation: Compilation) -> Iterator[Compilation]:
    """Make it the current one for the block."""
    token = _current.set(compilation)
    try:
        yield compilation
    finally:
        _current.reset(token)
