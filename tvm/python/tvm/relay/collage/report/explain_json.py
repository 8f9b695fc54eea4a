# SPDX-License-Identifier: Apache-2.0
"""An explanation for a file: each part, candidate, reason and refusal once, in tables of which the
rest names places. Docs: docs/explain.md. Test: report/test_explain_json.py.
"""

from __future__ import annotations

import json
from typing import Any

# By the fields that hold their rows, the tables.
_TABLE_OF = {
    **dict.fromkeys(("candidate", "candidates", "failures", "rest"), "candidates"),
    **dict.fromkeys(("here", "part", "ships", "there"), "parts"),
    "reason": "reasons",
    "refusals": "refusals",
}


def once(told: dict[str, Any]) -> dict[str, Any]:
    """What `explain` gave, with a row's place in `tables` wherever the row stood."""
    tables = _Tables()
    return {**tables.without_rows(told), "tables": tables.rows}


class _Tables:
    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {name: [] for name in _TABLE_OF.values()}
        self._place_of: dict[tuple[str, str], int] = {}

    def without_rows(self, value: Any, table: str = "") -> Any:
        if isinstance(value, list):
            return [self.without_rows(each, table) for each in value]
        if not isinstance(value, dict):
            return value
        if table:
            return self._place(value, table)
        return {
            name: self.without_rows(each, _TABLE_OF.get(name, "")) for name, each in value.items()
        }

    def _place(self, row: dict[str, Any], table: str) -> int:
        key = (table, json.dumps(row))
        if key not in self._place_of:
            self._place_of[key] = len(self.rows[table])
            self.rows[table].append(row)
        return self._place_of[key]
