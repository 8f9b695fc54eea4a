# SPDX-License-Identifier: Apache-2.0
"""A decision in a store: its key, which is all that decides which plan of a model ships, and the
report of the compile that decided, with the placement of what ships and the guard's figures.
Test: store/test_decisions.py.
"""

from __future__ import annotations

import dataclasses
import datetime
import zlib
from typing import Any, NamedTuple

import tvm_collage

from ..measure.options import MEASURING_VERSION
from .row import utc

# It goes up when the same costs may lead to another plan.
DECIDING_VERSION = 1
# Of a report what takes most room are its nodes, which are much alike.
_LEVEL = 6


class DecisionKey(NamedTuple):
    """The key that must be equal for a decision to be used again; meanings in schema.CREATE."""

    model: str
    weights: str
    backends: str
    target: str
    cpu: str
    threads: str
    options: str
    given: str
    tvm: str
    collage: str

    def differences(self, other: DecisionKey) -> list[str]:
        """Return the names of the parts that differ."""
        return [name for name in self._fields if getattr(self, name) != getattr(other, name)]


DECISION_COLUMNS = (*DecisionKey._fields, "report", "decided_at", "label")


def deciding_version() -> str:
    """Return the versions of this tool, of how it measures and of how it decides."""
    return f"{tvm_collage.__version__} {MEASURING_VERSION} {DECIDING_VERSION}"


@dataclasses.dataclass(frozen=True)
class StoredDecision:
    """One row. `decided_at` is as a cost's `measured_at`."""

    key: DecisionKey
    report: str = dataclasses.field(repr=False)  # JSON
    decided_at: str
    label: str = ""  # for people

    @classmethod
    def of_values(cls, values: tuple[Any, ...]) -> StoredDecision:
        """Return the row of the values in the order of DECISION_COLUMNS. ValueError, saying what is
        wrong, for what can be no row."""
        *key, packed, decided_at, label = values
        if not all(isinstance(each, str) for each in (*key, decided_at, label)):
            raise ValueError("a column is no text")
        try:
            report = zlib.decompress(packed).decode()
        except (TypeError, zlib.error) as error:
            raise ValueError(f"its report cannot be unpacked ({error})") from None
        at = utc(datetime.datetime.fromisoformat(decided_at))
        return cls(DecisionKey(*key), report, at, label)

    def values(self) -> tuple[Any, ...]:
        """Return the values in the order of DECISION_COLUMNS."""
        packed = zlib.compress(self.report.encode(), _LEVEL)
        return (*self.key, packed, self.decided_at, self.label)

    def to_json(self) -> dict[str, Any]:
        """Return all but the report, which `collage report` shows of the library itself."""
        return {**self.key._asdict(), "decided_at": self.decided_at, "label": self.label}

    def Summary(self) -> str:
        return f"{self.key.model}  {self.decided_at[:19]}  {self.label}"
