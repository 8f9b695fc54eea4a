# SPDX-License-Identifier: Apache-2.0
"""A report as tables for a terminal or a log. Test: report/test_tables.py."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..costs.compared import ComparedPlan
from ..costs.cost import format_seconds
from ..plans.names import EXACT, OP_LEVEL, is_searched, is_single
from .facts import (
    BUSY,
    KERNEL_COLUMNS,
    agreement_line,
    by_region,
    counts_text,
    head_lines,
    plan_remarks,
    plan_time,
    ratio_text,
    reason_text,
    sum_remark,
    time_text,
    time_text_of,
    tried_text,
)
from .net import Part
from .precision import precision_lines
from .record import PartGroup, PlanSearch, Report, SearchedFunction, WantedCosts

# Rows of one table at most; the JSON has them all.
_MOST_ROWS = 25
_MOST_REASONS = 12
_NOISY = (
    "noisy: the machine was busy while it was measured, so its upper quartile counts; the option "
    "retry_failed measures it again"
)
# Counts of costs_table, each with what it counts: of what backends could run; of what the search
# asked for, and the layout transforms beside it; of these answers, each distinct one once.
_WANTED = {
    "candidates": "parts that one of the backends could run",
    "distinct": "of these, when equal ones (weights apart) are one",
    "never_needed": "distinct ones that the best plan does without, or that time_limit cut",
    "asked": "the other distinct ones, in {rounds} rounds of the search; answers below",
}
_SOURCES = {
    "measured": "now; layout transforms between parts are among these three",
    "from_store": "by an earlier search on this machine",
    "from_memory": "equal to one that this search had an answer for",
}
_QUALITIES = {
    "noisy": "known badly: the upper quartile counts",
    "busy": BUSY,
    "verified": "outputs compared with TVM's, and right",
    "not_verified": "to be compared, but TVM had nothing to compare with",
}
_SEARCH_COUNTS = (
    "The line Search counts otherwise: its candidates are also those that launch no kernel and "
    "TVM's in plain layouts, and of equal ones it asks for each."
)
_USUAL = "graph"  # executor
_NO_WIDTH = 120  # a log has no width of its own


def print_report(report: Report, console: Console | None = None, details: bool = True) -> None:
    """Print a report: three lines, and with details plans, what each part runs on, what failed,
    limits, time spent."""
    console = console or make_console()
    for line in head_lines(report):
        console.print(line, highlight=False, markup=False)
    for line in precision_lines(report.precision):
        console.print(line, highlight=False, markup=False)
    if not details:
        return
    if report.plans:
        by = "" if report.executor == _USUAL else f", by the {report.executor} executor"
        print_titled(f"Plans end to end{by}", plan_table(report.plans), console)
    elif report.decision and report.decision.plans:
        at = time_text_of(report.decision.decided_at) if report.decision.decided_at else "then"
        title = f"Plans end to end, as they were measured when it was decided ({at})"
        print_titled(title, plan_table(report.decision.plans), console)
    print_decision(report, console)


def print_decision(report: Report, console: Console) -> None:
    """Print what ships and what led to it, without the plans' latencies."""
    if report.guard_skipped:
        console.print(f"Not measured end to end: {escape(report.guard_skipped)}")
    if report.ended_early:
        console.print(f"Ended early: {escape(report.ended_early)}")
    if line := agreement_line(report):
        console.print(line, highlight=False, markup=False)
    if report.unverified:
        console.print(f"Not verified: {escape(report.unverified)}")
    if report.graph_search:
        console.print(f"Whole plans searched: {escape(search_text(report.graph_search))}")
    if report.placement:
        print_titled(f"What ships: plan {report.plan}", placement_table(report), console)
    if report.kernels:
        print_titled("Steps that have several kernels", kernels_table(report), console)
    if transfers := counts_text(report.transfers):
        console.print(f"Schedules of other kernels that were tried: {transfers}")
    for function in report.functions:
        _print_function(function, report, console)
    if report.costs or report.searched:
        print_titled("How many costs", costs_table(report), console)
        if report.searched:
            console.print(_SEARCH_COUNTS, highlight=False)
    phases = ", ".join(f"{name} {value:.1f} s" for name, value in report.seconds.items())
    if phases:
        console.print(f"Time spent: {phases}")


def search_text(search: PlanSearch) -> str:
    """Return one line on a search of whole plans."""
    trials = search.trials
    failed = sum(row.seconds is None for row in trials)
    text = f"{search.strategy}, {search.genes} genes, {len(trials)} plans, {failed} failed"
    best = trials[-1].best_seconds if trials else None
    if best is not None and search.op_level_seconds:
        flags = next((row.flags for row in trials if row.seconds == best), ())
        text += (
            f"; the best {time_text(best, flags)}, the op-level plan "
            f"{format_seconds(search.op_level_seconds)}, before the guard's own rounds"
        )
    return f"{text}; {search.ended}"


def print_titled(title: str, table: Table, console: Console) -> None:
    """Print a table under its title, which may be wider than the table."""
    console.print(f"\n[italic]{escape(title)}[/italic]", highlight=False)
    console.print(table)


def make_console() -> Console:
    """Return a console as wide as the terminal, or wide enough for the tables in a log."""
    console = Console()
    return console if console.is_terminal else Console(width=_NO_WIDTH)


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]] = (),
    most: int = _MOST_ROWS,
    bold: Sequence[bool] = (),
) -> Table:
    """Return a table of these rows, `most` at most; columns that begin with > stand to the right,
    as numbers do."""
    table = Table()
    for name in columns:
        is_right = name.startswith(">")
        table.add_column(name.removeprefix(">"), justify="right" if is_right else "left")
    styles = itertools.chain(("bold" if each else None for each in bold), itertools.repeat(None))
    for row, style in zip(rows[:most], styles):
        table.add_row(*map(escape, row), style=style)
    if len(rows) > most:
        table.add_row("...", f"{len(rows) - most} more rows")
    return table


def plan_table(
    rows: Sequence[ComparedPlan],
    what: str = "plan",
    best: str = "best backend",
    notes: Mapping[str, str] | None = None,
) -> Table:
    """Return the latency of plans with intervals and ratios to the best backend, or of others.
    `notes`: what is said of some of them, by name; else what ships is said to."""
    found = []
    for row in rows:
        if row.seconds is None:
            interval, median = str(row.status), "-"
        else:
            median = plan_time(row)
            bounds = [each for each in (row.low, row.high) if each is not None]
            interval = " .. ".join(map(format_seconds, bounds)) or "-"
        error = "-" if row.output_error is None else f"{row.output_error:.1e}"
        ships = "ships" if row.is_chosen else ""
        told = [ships if notes is None else notes.get(row.name, ""), plan_remarks(row)]
        remarks = "; ".join(filter(None, told))
        found.append((row.name, median, interval, ratio_text(row), error, remarks))
    columns = (what, ">median", "95 % interval", f"speed-up over {best}", ">output error", "")
    return _table(columns, found, len(found), bold=[row.is_chosen for row in rows])


def placement_table(report: Report) -> Table:
    """Return what the shipped module runs on each backend."""
    rows = [
        (row.backend, "" if row.parts is None else str(row.parts), str(row.operators), row.ops)
        for row in report.placement
    ]
    return _table(("backend", ">parts", ">operators", "which"), rows)


def parts_table(function: SearchedFunction) -> Table:
    """Return parts of the op-level plan with their measured time, equal parts in one row."""
    rows = []
    for row in function.parts:
        is_known = row.is_known
        each = format_seconds(row.seconds) if is_known else str(row.status)
        for flag, count in _counted_flags(row).items():
            if count:
                each += f" {flag}" if count == row.count else f" {count} {flag}"
        together = format_seconds(row.total_seconds) if is_known else "-"
        rows.append((row.backend, row.ops, str(row.count), each, together, f"{row.share:.1%}"))
    table = _table(("backend", "operators", ">count", ">each", ">together", ">share"), rows)
    table.add_section()
    for of in function.backends:
        figures = (str(of.parts), "", format_seconds(of.seconds), f"{of.share:.1%}")
        table.add_row(escape(of.backend), "all its parts", *figures, style="bold")
    return table


def _counted_flags(row: PartGroup) -> dict[str, int]:
    """Return of how many parts the time is doubtful, by why: what else makes it so is no fault of
    the time."""
    return {"estimated": row.estimated, "noisy": row.noisy, "busy": row.busy}


def _each_part(rows: Iterable[PartGroup]) -> list[Part]:
    """Return the parts that rows stand for."""
    return [
        Part(
            *(row.backend, (), row.seconds if row.is_known else None),
            flags=tuple(flag for flag, count in _counted_flags(row).items() if k < count),
        )
        for row in rows
        for k in range(row.count)
    ]


def failures_table(function: SearchedFunction) -> Table:
    """Return candidates without a cost, and why."""
    rows = [(e.backend, e.ops, str(e.count), e.status, e.message) for e in function.failures]
    return _table(("backend", "operators", ">count", "status", "message"), rows)


def unplaced_table(function: SearchedFunction) -> Table:
    """Return operators on TVM, and why each other backend did not get them, the dearest first."""
    regions = by_region(function.unplaced)
    rows = [(row.ops, row.first.backend, reason_text(row.first)) for row in regions]
    return _table(("operators", "backend", "why they are not there"), rows, _MOST_REASONS)


def kernels_table(report: Report) -> Table:
    """Return by which kernel a step runs, and what all took, first the usual one; the steps that
    another runs first."""
    steps = sorted(report.kernels, key=operator.attrgetter("is_usual"))
    rows = [(row.backend, row.step, row.kernel, tried_text(row)) for row in steps]
    return _table(KERNEL_COLUMNS, rows, bold=[not row.is_usual for row in steps])


def costs_table(report: Report) -> Table:
    """Return how many costs were wanted for all functions, where they came from, how good they
    are."""
    sections: list[list[tuple[str, int, str]]] = []
    searched = [vars(row.costs) for row in report.searched]
    if searched:
        counts = {name: sum(row[name] for row in searched) for name in searched[0]}
        sections.append([(n, counts[n], text.format(**counts)) for n, text in _WANTED.items()])
    if report.costs:
        costs = vars(report.costs)
        failed = report.costs.failed.items()
        sections.append([(name, costs[name], text) for name, text in _SOURCES.items()])
        sections.append([(status, n, "without a cost, so in no plan") for status, n in failed])
        sections[-1] += [(n, costs[n], text) for n, text in _QUALITIES.items() if costs[n]]
    table = _table(("costs", ">count", "what they are"))
    for section in sections:
        table.add_section()
        for name, count, meaning in section:
            table.add_row(name.replace("_", " "), str(count), meaning)
    return table


def costs_text(costs: WantedCosts) -> str:
    """Say how many costs the search asked for, of how many."""
    return (
        f"asked for {costs.asked} of {costs.distinct} distinct candidates ({costs.candidates} in "
        f"all) in {costs.rounds} rounds; {costs.never_needed} never needed"
    )


def _print_function(function: SearchedFunction, report: Report, console: Console) -> None:
    if function.skipped:
        text = f"Not partitioned: @{function.function}: {function.skipped}"
        console.print(escape(text), highlight=False)
        return
    name = "" if function.function == "main" else f" of @{function.function}"
    ships = "" if _ships_the_search(report) else ", which is not what ships"
    if function.parts:
        title = f"What each part{name} runs on in the op-level plan{ships}"
        print_titled(title, parts_table(function), console)
        if remark := sum_remark(report, OP_LEVEL, _each_part(function.parts)):
            console.print(remark, highlight=False, markup=False)
        if any(row.noisy for row in function.parts):
            console.print(_NOISY)
        for row in function.parts:
            if row.message:
                text = f"{row.ops} on {row.backend}: {row.message}"
                console.print(escape(text), highlight=False)
    if function.failures:
        print_titled("What failed while measuring, and why", failures_table(function), console)
    if function.unplaced:
        print_titled(f"Why operators{name} stay on TVM", unplaced_table(function), console)
    console.print(f"Search{name}: {escape(function.search)}", highlight=False)
    for line in function.cuts:
        console.print(f"Limit that cut: {escape(line)}", highlight=False)


def _ships_the_search(report: Report) -> bool:
    """Return whether the plan that ships is the op-level one, or the same module under another
    name."""
    names = {row.name for row in report.plans if row.same_as == report.plan}
    shipped = (report.plan, *names)
    return any(not (is_single(n) or is_searched(n) or n == EXACT) for n in shipped)
