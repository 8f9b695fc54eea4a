# SPDX-License-Identifier: Apache-2.0
"""Changes of what a whole process shares, for as long as anybody needs them.

Two builds may run at once, and end in any order: a scope that puts back what it found when it began
would put back the other's change. Test: process_wide/test_shared_patch.py.
"""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any

# Reentrant: a logger's or a renderer's own code may build, too.
_LOCK = threading.RLock()


class SharedPatch:
    """A change of one place: the first that enters makes it, the last that leaves puts back.

    ``read`` gives what is there, ``write`` puts a value there. ``make(before, wants)`` gives ours:
    ``wants`` is what those inside want, each once. Any number of threads may be inside, each any
    number of times. What somebody else has put there meanwhile (``same`` tells) is left alone.
    """

    def __init__(
        self,
        read: Callable[[], Any],
        write: Callable[[Any], object],
        make: Callable[[Any, set[Any]], Any],
        same: Callable[[Any, Any], bool] = operator.is_,
    ) -> None:
        self._read, self._write, self._make, self._same = read, write, make, same
        self._wants: list[Hashable] = []
        self._before: Any = None
        self._ours: Any = None

    @classmethod
    def of_attribute(cls, owner: object, name: str, make: Callable[[Any], Any]) -> SharedPatch:
        """Make the patch of ``owner.name``, a module's or a class's."""
        return cls(
            lambda: getattr(owner, name),
            lambda value: setattr(owner, name, value),
            lambda before, wants: make(before),
        )

    @contextlib.contextmanager
    def inside(self, want: Hashable = None) -> Iterator[Any]:
        """Context in which it is changed; gives our value."""
        self._change(self._wants.append, want)
        try:
            yield self._ours
        finally:
            self._change(self._wants.remove, want)

    def _change(self, how: Callable[[Hashable], None], want: Hashable) -> None:
        with _LOCK:
            were = set(self._wants)
            how(want)
            wants = set(self._wants)
            if wants == were:
                return
            is_ours = bool(were) and self._same(self._read(), self._ours)
            if not were:
                self._before = self._read()
            elif not is_ours:
                return
            self._write(self._make(self._before, wants) if wants else self._before)
            self._ours = self._read() if wants else None
