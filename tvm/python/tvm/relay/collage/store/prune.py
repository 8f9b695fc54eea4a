# SPDX-License-Identifier: Apache-2.0
"""Which rows a store can do without: old ones, and those of versions that are no more.

Test: store/test_prune.py.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

from .environment import Environment
from .row import StoredCost, utc
from .versions import stored_version


def measured_before(rows: Sequence[StoredCost], days: float) -> list[StoredCost]:
    """Rows older than so many days."""
    limit = utc(datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days))
    return [row for row in rows if row.measured_at < limit]


def of_other_versions(
    rows: Sequence[StoredCost],
    environment: Environment | None = None,
    version_of: Callable[[str], str | None] = stored_version,
) -> list[StoredCost]:
    """Rows that no search with this installation can use.

    They were measured with another TVM, in another way or, on a CPU like this one, with another
    version of their backend. Which versions other machines have is not known here (a search over
    RPC uses theirs), nor those of backends that are not known here: such rows stay.
    """
    here = environment or Environment.here()
    versions = {name: version_of(name) for name in {row.key.backend for row in rows}}

    def is_other(row: StoredCost) -> bool:
        version = versions[row.key.backend]
        return (
            row.key.tvm != here.tvm
            or _measuring_version(row.key.measuring) != _measuring_version(here.measuring)
            or (row.key.cpu == here.cpu and version not in (None, row.key.backend_version))
        )

    return [row for row in rows if is_other(row)]


def _measuring_version(text: str) -> str:
    """Without the options, which each search chooses."""
    return text.partition(" ")[0]
