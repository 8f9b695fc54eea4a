# SPDX-License-Identifier: Apache-2.0
"""A row of the store: its key, a cost, and when and how it came about; as lines of JSON, for moving
costs between stores and machines. Test: store/test_database.py, cli/test_store.py.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Iterable
from typing import Any

from ..costs.cost import Cost
from ..errors import CollageError
from ..files.text import parse_json
from .key import CostKey

COST_FIELDS = tuple(field.name for field in dataclasses.fields(Cost))
COLUMNS = (*CostKey._fields, *COST_FIELDS, "measured_at", "label", "allowed_seconds")


@dataclasses.dataclass(frozen=True)
class StoredCost:
    """One row. `measured_at` is UTC in ISO 8601 with microseconds, so that texts sort as times."""

    key: CostKey
    cost: Cost
    measured_at: str
    label: str = ""
    allowed_seconds: float = 0.0

    def values(self) -> tuple[Any, ...]:
        """Return the values in the order of COLUMNS."""
        cost = {name: getattr(self.cost, name) for name in COST_FIELDS}
        # What a candidate printed before it died may be any bytes.
        cost["message"] = self.cost.message.encode("utf-8", "backslashreplace").decode()
        cost["unverified"] = int(self.cost.unverified)
        return (*self.key, *cost.values(), self.measured_at, self.label, self.allowed_seconds)

    @classmethod
    def of_values(cls, values: tuple[Any, ...]) -> StoredCost:
        """Invert values(). ValueError, saying what is wrong, for what can be no row."""
        return cls.from_json(dict(zip(COLUMNS, values, strict=True)))

    def to_json(self) -> dict[str, Any]:
        return dict(zip(COLUMNS, self.values(), strict=True))

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> StoredCost:
        """Invert to_json; what later layouts have added may be missing. ValueError."""
        if "unverified" not in fields and "message" in fields:
            words = (fields.get("status"), fields["message"])
            fields = {**fields, "message": message_of(*words), "unverified": was_unverified(*words)}
        fields = {"allowed_seconds": 0.0, "label": "", "median": None, "load": 0.0, **fields}
        if set(fields) != set(COLUMNS):
            raise ValueError(f"missing or unknown columns: {sorted(set(fields) ^ set(COLUMNS))}")
        for name, value in fields.items():
            if not isinstance(value, _TYPES.get(name, str)) or isinstance(value, bool):
                raise ValueError(f"{name} is {value!r}")
        fields["unverified"] = bool(fields["unverified"])
        return cls(
            CostKey(*(fields[name] for name in CostKey._fields)),
            Cost(**{name: fields[name] for name in COST_FIELDS}),
            utc(datetime.datetime.fromisoformat(fields["measured_at"])),
            fields["label"],
            fields["allowed_seconds"],
        )


_NUMBER = (int, float)
# Columns that are no text.
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("seconds", "low", "high", "median"), (*_NUMBER, type(None))),
    **dict.fromkeys(("border_seconds", "load", "allowed_seconds"), _NUMBER),
    **dict.fromkeys(("rounds", "unverified"), int),
}

# Up to layout 4 a measured cost's flags were words of its message.
_NOISY = re.compile(
    r"^noisy: (the machine was busy|too few samples to bound the median)"
    r"(, its upper quartile counts)?(; |$)"
)
_NOT_VERIFIED = re.compile(r"(^|; )not verified: ")


def message_of(status: object, message: Any) -> Any:
    """Return the message of a row of those layouts without what its figures say as well."""
    return _NOISY.sub("", message) if _is_worded(status, message) else message


def was_unverified(status: object, message: Any) -> int:
    """Return whether the message of a row of those layouts says that nothing was compared."""
    return int(_is_worded(status, message) and bool(_NOT_VERIFIED.search(message)))


def _is_worded(status: object, message: object) -> bool:
    return status == "measured" and isinstance(message, str)


def utc(time: datetime.datetime) -> str:
    """Return the form of `measured_at`. ValueError without a time zone."""
    if time.tzinfo is None:
        raise ValueError(f"measured_at {time} has no time zone")
    return time.astimezone(datetime.UTC).isoformat(timespec="microseconds")


def now() -> str:
    return utc(datetime.datetime.now(datetime.UTC))


class ImportLineError(CollageError, ValueError):
    """A line that is no row; nothing of its file is imported."""


def to_line(row: StoredCost) -> str:
    return json.dumps(row.to_json(), allow_nan=False) + "\n"


def read_lines(lines: Iterable[str], name: str) -> list[StoredCost]:
    """Read rows of lines that are not blank. ImportLineError names the first wrong one."""
    rows, where = [], name
    try:
        for number, line in enumerate(lines, 1):
            where = f"{name}, line {number}"
            if line.strip():
                rows.append(_row(line))
    except UnicodeDecodeError as error:
        raise ImportLineError(f"{name} is no text: nothing is imported ({error})") from None
    except ValueError as error:
        raise ImportLineError(
            f"{where} is no row of `collage store export`, so nothing is imported: {error}"
        ) from None
    return rows


def _row(line: str) -> StoredCost:
    fields = parse_json(line)
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    return StoredCost.from_json(fields)
