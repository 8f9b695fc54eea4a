# SPDX-License-Identifier: Apache-2.0
"""The times of parts and plans as people read them: with what makes them doubtful, and with a
sentence where those of parts contradict what the whole plan takes. Test: report/test_times.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ..costs.cost import FLAGS, UNITS, format_seconds, unit_of
from ..plans.competing import ONE_THREAD

NOT_MEASURED = "not measured"
# From so many times on, either way, a plan's parts are said not to add up to it.
FAR = 1.1


class Timed(Protocol):
    """A part of a plan: seconds alone, None where nobody measured that, and its cost's flags."""

    @property
    def seconds(self) -> float | None: ...

    @property
    def flags(self) -> tuple[str, ...]: ...


def time_text(seconds: float | None, flags: Iterable[str]) -> str:
    """As "1.23 ms (noisy, busy)", or that nobody measured it."""
    if seconds is None:
        return NOT_MEASURED
    return format_seconds(seconds) + flags_text(flags)


def time_together(parts: Iterable[Timed]) -> str:
    """The same of several parts: the sum, and of how many it is where nobody measured the rest."""
    parts = list(parts)
    known = [part for part in parts if part.seconds is not None]
    flags = [flag for part in known for flag in part.flags]
    text = time_text(sum(part.seconds or 0.0 for part in known) if known else None, flags)
    return f"{text} for the {len(known)} measured" if 0 < len(known) < len(parts) else text


def plan_time(row: dict[str, Any]) -> str:
    """The same of a row of compare_plans; those of earlier versions have no flags."""
    return time_text(row["seconds"], row.get("flags", ()))


def flags_text(flags: Iterable[str]) -> str:
    """As " (noisy, busy)", to stand behind a time; "" without any."""
    told = ", ".join(in_order(flags))
    return f" ({told})" if told else ""


def in_order(flags: Iterable[str]) -> list[str]:
    """Each once, in the order of FLAGS wherever they are told."""
    given = list(flags)
    return sorted(set(given), key=[*FLAGS, *given].index)


def times_alike(*seconds: float) -> list[str]:
    """Times that are compared, in one unit: that which the largest has where it stands alone. What
    is under a thousandth of this unit keeps its own."""
    unit = unit_of(max(map(abs, seconds), default=0.0))
    return [format_seconds(each, "" if 0 < each < 1e-3 * UNITS[unit] else unit) for each in seconds]


def sum_remark(report: dict[str, Any], plan: str, parts: Iterable[Timed]) -> str:
    """One sentence where all parts of a plan add up to something else than it takes end to end; ""
    where they do not, where nobody measured that, and where some functions run several times."""
    whole = next((row["seconds"] for row in report["plans"] if row["name"] == plan), None)
    costs = list(parts)
    known = [part for part in costs if part.seconds is not None]
    total = sum(part.seconds or 0.0 for part in known)
    searched = [row for row in report["functions"] if not row["skipped"]]
    if not whole or not known or len(searched) != 1:
        return ""
    is_less = total * FAR < whole and len(known) == len(costs)
    if not is_less and total <= whole * FAR:
        return ""
    estimated, busy = (_those_with(flag, known) for flag in ("estimated", "busy"))
    why = (
        f"{estimated} computed by a cost function, and nobody measured them"
        if estimated
        else "each part alone was timed on all threads, and the plan runs on one"
        if plan.endswith(ONE_THREAD)
        else f"{busy} measured beside other work; search again on a quiet machine "
        "(`collage doctor`)"
        if busy
        else "alone it is timed as a part of a larger net, with cold caches and its threads "
        "asleep, and the plan in runs that follow each other"
        if len(costs) == 1
        else "a part takes another time alone than between its neighbours, so that the times of "
        "parts tell which is dear, and not what the plan takes"
    )
    alone, takes = times_alike(total, whole)
    what = "only part takes" if len(costs) == 1 else "parts add up to"
    return f"Plan {plan}'s {what} {alone} alone, and it takes {takes} end to end: {why}."


def _those_with(flag: str, parts: list[Timed]) -> str:
    """Which of the parts' costs have the flag, as a subject; "" for none."""
    count = sum(flag in part.flags for part in parts)
    if not count:
        return ""
    if count == len(parts):
        return "these costs were"
    return f"{count} of these {len(parts)} costs {'was' if count == 1 else 'were'}"
