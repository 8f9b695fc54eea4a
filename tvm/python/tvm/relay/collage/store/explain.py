# SPDX-License-Identifier: Apache-2.0
"""Which rows serve a search here and now, and which part of the key keeps others from it.

Test: cli/test_store.py.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from .environment import Environment
from .key import CostKey
from .row import StoredCost
from .versions import stored_version

_WHILE_BUSY = " only while the machine is busy"


@dataclasses.dataclass(frozen=True)
class Explained:
    """A row and the key that the same candidate has now."""

    row: StoredCost
    now: CostKey

    @property
    def differences(self) -> dict[str, tuple[str, str]]:
        """Part of the key -> (stored, now), for the parts that differ."""
        names = self.row.key.differences(self.now)
        return {name: (getattr(self.row.key, name), getattr(self.now, name)) for name in names}

    def to_json(self) -> dict[str, Any]:
        return {
            "row": self.row.to_json(),
            "serves": not self.differences,
            "only_while_busy": self.row.cost.is_busy,
            "differences": {
                name: {"stored": stored, "now": now}
                for name, (stored, now) in self.differences.items()
            },
        }

    def Summary(self) -> str:
        """One line a part that differs."""
        row = self.row
        serves = f"serves{_WHILE_BUSY if row.cost.is_busy else ''}"
        lines = [
            f"{row.key.candidate}  {row.key.backend}  {row.label}: {row.cost.Summary()}, "
            f"{row.measured_at[:19]}, {'does not serve' if self.differences else serves}"
        ]
        lines += [
            f"  {name}: stored {stored!r}, now {now!r}"
            for name, (stored, now) in self.differences.items()
        ]
        return "\n".join(lines)


def explain(rows: Sequence[StoredCost], changes: Mapping[str, str]) -> list[Explained]:
    """Each row beside what its key is in this process, but for `changes` by part.

    The model's parts of the key (candidate, backend, target, options) are taken from the row.
    """
    here = Environment.here()._asdict()
    versions: dict[str, str | None] = {}
    explained = []
    for row in rows:
        backend = row.key.backend
        if backend not in versions:
            versions[backend] = stored_version(backend)
        version = versions[backend]
        now = {**here, "backend_version": "none here" if version is None else version, **changes}
        explained.append(Explained(row, row.key._replace(**now)))
    return explained


def summary_lines(explained: Sequence[Explained]) -> list[str]:
    """Counts: how many rows serve, and for each part how many have which other value."""
    serving = sum(not item.differences for item in explained)
    lines = [f"{serving} of {len(explained)} costs serve here and now"]
    busy = sum(item.row.cost.is_busy and not item.differences for item in explained)
    if busy:
        lines.append(
            f"{busy} of these{_WHILE_BUSY}, as it was when they were measured: a search that finds "
            "it quiet measures them again"
        )
    counts = collections.Counter(
        (name, stored, now)
        for item in explained
        for name, (stored, now) in item.differences.items()
    )
    for (name, stored, now), count in counts.most_common():
        lines.append(f"{count} differ in {name}: stored {stored!r}, now {now!r}")
    return lines
