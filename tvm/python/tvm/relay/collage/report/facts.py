# SPDX-License-Identifier: Apache-2.0
"""Statements on a report, decided once for text, page and picture: times with what makes them
doubtful, the three lines, reasons, names of operators, shapes and shares.

Test: report/test_facts.py, report/test_times.py, plan/test_unplaced.py.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from ..costs.compared import DEPENDENT_ROUNDS, ComparedPlan, Ratio
from ..costs.cost import FLAGS, UNITS, format_seconds, unit_of
from ..plans.names import ONE_THREAD
from ..views.function_report import Unplaced
from .record import Decision, Report, Step

Row = TypeVar("Row")
Key = TypeVar("Key", bound=Hashable)

MORE = (
    "All plans, parts, reasons: show(details=True), save_html(PAGE); "
    "of a file: collage report FILE --details, --html PAGE."
)
KERNEL_COLUMNS = ("backend", "step", "kernel", "of these, each alone")
NOT_MEASURED = "not measured"
# From so many times on, either way, a plan's parts are said not to add up to it.
FAR = 1.1
_BUSY = "other work left no core free; search again when `collage doctor` finds the machine quiet"
BUSY = f"{_BUSY}: these alone are measured anew"
# Names of operators in a label at most.
_MOST_OPS = 8


class Timed(Protocol):
    """A part of a plan."""

    @property
    def seconds(self) -> float | None:
        """Alone; None where nobody measured that."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Return what makes the seconds doubtful."""


# --- the three lines -----------------------------------------------------------------------------


def head_lines(report: Report) -> tuple[str, str, str]:
    """Return what ships and on what; how fast it is, beside what; what to do next."""
    how_fast, gain = _latency(report), gain_text(report) or _lost_mix(report)
    told = " ".join(filter(None, (how_fast, gain)))
    return _ships(report), told, doubt(report) or MORE


def _ships(report: Report) -> str:
    counts = operators_by_backend(report)
    places = [f"{count} on {name}" for name, count in sorted(counts.items(), key=lambda p: -p[1])]
    operators = f": operators {', '.join(places)}" if places else ""
    return f"Plan {report.plan} ships{operators}."


def _latency(report: Report) -> str:
    chosen, best = _told(report)
    if chosen is None and report.decision and report.decision.decided_at:
        then = _latency(report.measured()).removesuffix(".")
        return f"{then}: {earlier_text(report.decision)}."
    if chosen is None:
        why = report.guard_skipped or "the guard, which measures whole plans, was off"
        return f"How fast it is was not measured: {why}."
    text = f"It takes {plan_time(chosen)} a run"
    if best:
        beside = f"the best backend alone, {best.name} with {plan_time(best)}"
        return f"{text}, {ratio_text(chosen)} as fast as {beside}."
    others = _next_plans(chosen, report)
    if not others:
        return f"{text}; there was no other plan to compare with."
    second, ratio = others[0]
    return f"{text}; the next plan, {second.name}, takes {ratio.Summary('.2f', 'times that')}."


def _next_plans(chosen: ComparedPlan, report: Report) -> list[tuple[ComparedPlan, Ratio]]:
    """Return the other plans with how many times the chosen one's seconds they take, the fastest
    first: by the rounds that both ran, since the medians of each alone may be in another order."""
    same = _names_of(chosen, report)
    ratios = [
        (row, row.ratio_to_chosen)
        for row in report.plans
        if row.ratio_to_chosen and not {row.name, row.same_as or row.name} & same
    ]
    return sorted(ratios, key=lambda each: each[1].value)


def most_gain(report: Report) -> float | None:
    """Return the share of the fastest backend's time that a mix will hardly save more than, by
    profiles of each backend alone and what costs are likely to be by these; None where the search
    did not end by them."""
    rows = [row for row in report.searched if row.is_beaten]
    if len(rows) != 1 or len(report.searched) != 1:
        return None
    return max(0.0, 1 - rows[0].seconds / rows[0].rival_seconds)


def gain_text(report: Report) -> str:
    """Say what a mix can gain at most, where the search ended by that; "" where it did not."""
    gain = most_gain(report)
    if gain is None:
        return ""
    return (
        "By profiles of each backend alone a mix will hardly gain more than "
        f"{gain:.1%}, so none was built."
    )


def _lost_mix(report: Report) -> str:
    """Say how the fastest mix that was compared fell behind the backend alone that ships; "" where
    a mix ships, none was compared, or it is the next plan and told as that."""
    chosen = report.chosen
    singles = {row.name for row in report.plans if row.is_single_backend}
    if chosen is None or not _names_of(chosen, report) & singles:
        return ""
    others = _next_plans(chosen, report)
    mixes = [each for each in others if not {each[0].name, each[0].same_as} & singles]
    if not mixes or (mixes[0] == others[0] and not _told(report)[1]):
        return ""
    mix, ratio = mixes[0]
    return (
        f"No mix was clearly faster: {mix.name} takes {ratio.Summary('.2f', 'times what ships')}."
    )


def _told(report: Report) -> tuple[ComparedPlan | None, ComparedPlan | None]:
    """Return the plans whose times the second line tells: the chosen one, if it was measured, and
    the best backend alone, if it is another one that the chosen one was compared with."""
    chosen = report.chosen
    if chosen is None or chosen.seconds is None:
        return None, None
    best = best_single(report.plans) if chosen.ratio_to_best_single else None
    return chosen, best if best and best.name not in _names_of(chosen, report) else None


def best_single(plans: Sequence[ComparedPlan]) -> ComparedPlan | None:
    """Return the fastest plan of one backend alone: by the rounds that they share, as ratios
    are."""

    def speed(row: ComparedPlan) -> tuple[float, float]:
        ratio = row.ratio_to_best_single
        return (ratio.value if ratio else 0.0, -(row.seconds or 0.0))

    singles = [row for row in plans if row.is_single_backend and row.seconds]
    return max(singles, key=speed, default=None)


def _names_of(chosen: ComparedPlan, report: Report) -> set[str]:
    """Return the names of the plan that ships."""
    return {report.plan, chosen.name, chosen.same_as} - {""}


def earlier_text(decision: Decision) -> str:
    """Say whose figures those of an earlier compile are, and how to have others."""
    at = time_text_of(decision.decided_at)
    return (
        f"as an earlier compile measured that decided this ({at}); the option reuse_decision, if "
        "off, has it decided anew"
    )


def time_text_of(moment: str) -> str:
    """Return a moment of a store's row as 2026-01-31 12:00 UTC."""
    return f"{moment[:16].replace('T', ' ')} UTC"


def agreement_line(report: Report) -> str:
    """Say how outputs agree with those of the model's file; "" where none was named."""
    summary = report.original.summary if report.original else ""
    return f"{summary[0].upper()}{summary[1:]}." if summary else ""


def doubt(report: Report) -> str:
    """Say what makes the figures doubtful, and what to do next; "" for nothing."""
    if report.ended_early:
        return f"Ended early: {report.ended_early}; compile again for a plan that was searched."
    busy = busy_text(report)
    return f"Doubtful: {busy}." if busy else ""


def explained_mark(report: Report) -> str:
    """Say what "(busy)" in the second line means, and what to do; "" where no time has it."""
    if not any("busy" in row.flags for row in _told(report) if row):
        return ""
    return (
        "(busy) marks a time that was taken beside other work: run this command again when "
        "`collage doctor` finds the machine quiet; another plan may ship then"
    )


def busy_text(report: Report) -> str:
    """Say how many costs a busy machine may have spoilt, or that it may have spoilt the plans'
    times; "" for neither."""
    if report.costs.busy:
        return f"{report.costs.busy} costs measured while {BUSY}"
    is_busy = any("busy" in row.flags for row in report.plans)
    return f"the plans were measured while {_BUSY}" if is_busy else ""


def Summary(report: Report) -> str:
    """Return one line: what ships, how fast, what it runs on, the time it took to find out."""
    pieces = [f"plan {report.plan}"]
    for row in report.plans:
        if row.is_chosen and row.seconds is not None:
            pieces.append(f"{plan_time(row)} ({ratio_text(row, 'x the best backend')})")
    counts = operators_by_backend(report)
    if counts:
        pieces.append("operators: " + ", ".join(f"{n} on {name}" for name, n in counts.items()))
    if report.schedules:
        pieces.append(f"schedules: {counts_text(report.schedules)}")
    if report.seconds:
        pieces.append(f"found in {sum(report.seconds.values()):.1f} s")
    return "; ".join(pieces)


def counts_text(counts: Mapping[str, int]) -> str:
    """Return as "10 adapted, 2 invalid"."""
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def operators_by_backend(report: Report) -> dict[str, int]:
    """Return how many operators of what ships run on each backend."""
    rows = grouped(report.placement, lambda row: row.backend)
    return {name: sum(row.operators for row in of) for name, of in rows.items()}


# --- times ---------------------------------------------------------------------------------------


def time_text(seconds: float | None, flags: Iterable[str]) -> str:
    """Return as "1.23 ms (noisy, busy)", or that nobody measured it."""
    return NOT_MEASURED if seconds is None else format_seconds(seconds) + flags_text(flags)


def seconds_together(parts: Iterable[Timed]) -> float | None:
    """Return the sum of their seconds; None where nobody measured one."""
    seconds = [part.seconds for part in parts]
    return None if None in seconds else sum(seconds)  # type: ignore[arg-type]


def time_together(parts: Iterable[Timed]) -> str:
    """Return the same of several parts: the sum, and of how many it is where nobody measured the
    rest."""
    parts = list(parts)
    known = [part for part in parts if part.seconds is not None]
    flags = [flag for part in known for flag in part.flags]
    text = time_text(sum(part.seconds or 0.0 for part in known) if known else None, flags)
    return f"{text} for the {len(known)} measured" if 0 < len(known) < len(parts) else text


def tried_text(step: Step) -> str:
    """Return what each kernel of a step took alone, or why there is no time."""
    return ", ".join(
        f"{row.kernel} {row.status if row.seconds is None else format_seconds(row.seconds)}"
        for row in step.tried
    )


def plan_time(row: ComparedPlan) -> str:
    """Return the same of a plan."""
    return time_text(row.seconds, row.flags)


def flags_text(flags: Iterable[str]) -> str:
    """Return as " (noisy, busy)", to stand behind a time; "" without any."""
    told = ", ".join(in_order(flags))
    return f" ({told})" if told else ""


def in_order(flags: Iterable[str]) -> list[str]:
    """Return each once, in the order of FLAGS wherever they are told."""
    given = list(flags)
    return sorted(set(given), key=[*FLAGS, *given].index)


def times_alike(*seconds: float) -> list[str]:
    """Return times that are compared, in one unit: that which the largest has where it stands
    alone. What is under a thousandth of this unit keeps its own."""
    unit = unit_of(max(map(abs, seconds), default=0.0))
    return [format_seconds(each, "" if 0 < each < 1e-3 * UNITS[unit] else unit) for each in seconds]


def ratio_text(row: ComparedPlan, unit: str = "x") -> str:
    """Say how many times as fast a plan is as the best backend alone: 1.230 [1.200, 1.260] x; a
    dash where there is none."""
    ratio = row.ratio_to_best_single
    return ratio.Summary(unit=unit) if ratio else "-"


def plan_remarks(row: ComparedPlan) -> str:
    """Say what is to be known of a plan's figures: whose they are, what makes them doubtful."""
    same = f"same as {row.same_as}" if row.same_as else ""
    dependent = DEPENDENT_ROUNDS if row.is_dependent else ""
    return "; ".join(text for text in (same, dependent, row.message) if text)


def sum_remark(report: Report, plan: str, parts: Iterable[Timed]) -> str:
    """Return one sentence where all parts of a plan add up to something else than it takes end to
    end; "" where they do not, where nobody measured that, and where some functions run several
    times."""
    whole = report.seconds_of(plan)
    costs = list(parts)
    known = [part for part in costs if part.seconds is not None]
    total = sum(part.seconds or 0.0 for part in known)
    if not whole or not known or len(report.searched) != 1:
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
    """Say which of the parts' costs have the flag, as a subject; "" for none."""
    count = sum(flag in part.flags for part in parts)
    if not count:
        return ""
    if count == len(parts):
        return "these costs were"
    return f"{count} of these {len(parts)} costs {'was' if count == 1 else 'were'}"


# --- reasons -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class UnplacedRow:
    """Operators on TVM that one backend did not get, as a row of a table."""

    ops: str  # with their counts
    operators: int  # how many
    first: Unplaced  # of those that are told together


def by_region(rows: Iterable[Unplaced]) -> list[UnplacedRow]:
    """Return the rows for a table: those that differ in the operator alone as one."""

    def shared(row: Unplaced) -> Unplaced:
        # Other reasons than that it is slower are each about one operator.
        op = "" if row.why == "slower" else row.op
        return dataclasses.replace(row, op=op, operators=0, seconds=0.0)

    return [
        UnplacedRow(
            ", ".join(
                row.op if row.operators == 1 else f"{row.op} x{row.operators}" for row in group
            ),
            sum(row.operators for row in group),
            group[0],
        )
        for group in grouped(rows, shared).values()
    ]


def reason_text(row: Unplaced) -> str:
    """Say by how much a backend is slower, or why it has not got operators in its own words."""
    if row.why == "slower":
        there, here = row.backend_seconds, row.instead_seconds
        times = f", {there / here:.2f} x as long" if here > 0 else ""
        each = f", each of {row.regions} regions" if row.regions > 1 else ""
        return f"slower: {format_seconds(there)} there, {format_seconds(here)} here{times}{each}"
    name = why_text(row.why)
    return f"{name}: {row.message}" if row.message else name


def why_text(why: str) -> str:
    """Return a reason's name, or a status, for people."""
    return "its cost was not asked for" if why == "not_measured" else why.replace("_", " ")


# --- names, shapes, shares -----------------------------------------------------------------------


def grouped(rows: Iterable[Row], key_of: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """Return the rows of each key together, in order of appearance."""
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(key_of(row), []).append(row)
    return found


def label_of(names: Sequence[str]) -> str:
    """Return a part's operators in their order, or tallied when they are many."""
    return ", ".join(names) if len(names) <= _MOST_OPS else tally(names)


def tally(names: Iterable[str]) -> str:
    """Return each name with its count, the most frequent first, the end of a long list as a
    number."""
    counts = Counter(names).most_common()
    shown = [name if count == 1 else f"{name} x{count}" for name, count in counts[:_MOST_OPS]]
    left = sum(count for _, count in counts[_MOST_OPS:])
    return ", ".join(shown) + (f", {left} others" if left else "")


def share_text(share: float) -> str:
    """Return as 12.3%; what would round to nothing as "under 0.1%"."""
    return "under 0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def shape_text(types: str, by: str = "x") -> str:
    """Return float32[1, 64, 56, 56] as 1x64x56x56; the element type where it is another."""
    shapes = []
    for one in types.replace("] ", "]|").split("|"):
        kind, _, dims = one.rstrip("]").partition("[")
        shape = by.join(dims.split(", ")) or "scalar"
        shapes.append(shape if kind in ("float32", "") else f"{kind} {shape}")
    return " ".join(shapes) if types else ""
