# SPDX-License-Identifier: Apache-2.0
"""Rows that serve a search here and now, which part of the key keeps others from it, and which ones
a store can do without. Test: cli/test_store.py, store/test_prune.py.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from .decision_row import StoredDecision, deciding_version
from .key import CostKey, Environment, default_text, stored_version
from .row import StoredCost, utc

# Parts of the key as people call them.
_PARTS = {name: name for name in CostKey._fields} | {
    "backend_version": "version of the backend",
    "cpu": "CPU",
    "threads": "number of threads",
    "tvm": "build of TVM",
    "measuring": "way of measuring",
}
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
        """Return one line a part that differs."""
        row = self.row
        serves = f"serves{_WHILE_BUSY if row.cost.is_busy else ''}"
        lines = [
            f"{row.key.candidate}  {row.key.backend}  {row.label}: {row.cost.Summary()}, "
            f"{row.measured_at[:19]}, {'does not serve' if self.differences else serves}"
        ]
        for name, (stored, now) in self.differences.items():
            lines.append(f"  {name}: stored {stored!r}, now {now!r}")
        return "\n".join(lines)


def explain(rows: Sequence[StoredCost], changes: Mapping[str, str]) -> list[Explained]:
    """Show each row beside what its key is in this process, but for `changes` by part.

    The model's parts of the key (candidate, backend, target, options, and how many bytes
    its network touches in turn) are taken from the row.
    """
    here = Environment.here()._asdict()
    versions = _versions(rows)
    explained = []
    for row in rows:
        version = versions[row.key.backend]
        now = {
            **here,
            "measuring": default_text(row.key.measuring),
            "backend_version": "none here" if version is None else version,
            **changes,
        }
        explained.append(Explained(row, row.key._replace(**now)))
    return explained


def summary_lines(explained: Sequence[Explained]) -> list[str]:
    """Counts: how many rows serve, and for each part how many have which other value."""
    serving = sum(not item.differences for item in explained)
    lines = [f"{serving} of {len(explained)} costs serve searches of their models here and now"]
    busy = sum(item.row.cost.is_busy and not item.differences for item in explained)
    if busy:
        lines.append(
            f"{busy} of these{_WHILE_BUSY}, as it was when they were measured: a search that finds "
            "it quiet measures them again"
        )
    counts = collections.Counter(
        (name, *values) for item in explained for name, values in item.differences.items()
    )
    for (name, stored, now), count in counts.most_common():
        were = "was" if count == 1 else "were"
        lines.append(f"{count} {were} measured with another {_PARTS[name]}: {stored}, now {now}")
    return lines


def measured_before(rows: Sequence[StoredCost], days: float) -> list[StoredCost]:
    """Return the rows older than so many days."""
    limit = _before(days)
    return [row for row in rows if row.measured_at < limit]


def decided_before(rows: Sequence[StoredDecision], days: float) -> list[StoredDecision]:
    """Return the rows older than so many days."""
    limit = _before(days)
    return [row for row in rows if row.decided_at < limit]


def _before(days: float) -> str:
    return utc(datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days))


def decided_by_other_versions(rows: Sequence[StoredDecision]) -> list[StoredDecision]:
    """Return the rows that no compile with this installation can use: of another TVM, or of another
    version of this tool."""
    tvm = Environment.here().tvm
    return [row for row in rows if row.key.tvm != tvm or row.key.collage != deciding_version()]


def of_other_versions(rows: Sequence[StoredCost]) -> list[StoredCost]:
    """Return the rows that no search with this installation can use.

    They were measured with another TVM, in another way or, on a CPU like this one, with another
    version of their backend. Which versions other machines have is not known here (a search over
    RPC uses theirs), nor those of backends that are not known here: such rows stay.
    """
    here, versions = Environment.here(), _versions(rows)
    return [
        row
        for row in rows
        if row.key.tvm != here.tvm
        or _measuring_version(row.key.measuring) != _measuring_version(here.measuring)
        or (
            row.key.cpu == here.cpu
            and versions[row.key.backend] not in (None, row.key.backend_version)
        )
    ]


def _versions(rows: Sequence[StoredCost]) -> dict[str, str | None]:
    """Return the versions that backends of rows have here."""
    return {name: stored_version(name) for name in {row.key.backend for row in rows}}


def _measuring_version(text: str) -> str:
    """Without the options, which each search chooses."""
    return text.partition(" ")[0]
