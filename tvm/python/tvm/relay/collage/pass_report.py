# SPDX-License-Identifier: Apache-2.0
"""What the pass tells of each function that it partitioned, as records; C++ sends rows.

Test: report/test_report.py, plan/test_unplaced.py, test_estimators.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class ReportedPart(NamedTuple):
    """A part of the plan, or one whose measuring failed.

    rule: names of the rules that made it, outermost first. label: backend and operators, for
    people. is_kernel: whether it launches one.
    """

    backend: str
    rule: str
    label: str
    status: str
    seconds: float
    message: str
    is_kernel: bool


class Unplaced(NamedTuple):
    """Equal operators that one backend did not get, for one reason.

    why: "slower", "no_better_plan", "not_measured", "refused", "device", "partitioned", "opaque",
        "no_pattern", or the status of a failed measurement.
    seconds: of the plan's parts that hold them.
    backend_seconds and instead_seconds: of each of the `regions` candidates of the backend that
        hold them, and of what the plan has in the place of each; all 0 unless why is "slower".
    """

    op: str
    backend: str
    why: str
    message: str
    rule: str
    operators: int
    seconds: float
    backend_seconds: float
    instead_seconds: float
    regions: int


class CostsAsked(NamedTuple):
    """Of `candidates` on backends `distinct` differ as computations; `asked` of those in `rounds`
    batches, wherever the answers came from."""

    candidates: int
    distinct: int
    asked: int
    rounds: int


def read_report(fields: dict[str, Any]) -> dict[str, Any]:
    """A function's report with its rows as records."""
    return {
        **fields,
        "parts": [ReportedPart(*row) for row in fields["parts"]],
        "failed": [ReportedPart(*row) for row in fields["failed"]],
        "unplaced": [Unplaced(*row) for row in fields["unplaced"]],
        "costs": CostsAsked(*fields["costs"]),
    }
