# SPDX-License-Identifier: Apache-2.0
"""Tables of facts.result_to_json for a terminal, a notebook or a log.
Test: report/test_report.py."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..compile.executors import GRAPH
from ..costs.cost import format_seconds
from ..plans.competing import EXACT, OP_LEVEL
from .facts import (
    BUSY,
    COUNTED_FLAGS,
    is_searched,
    is_single,
    plan_remarks,
    ratio_text,
    result_to_json,
    transfers_text,
)
from .head import agreement_line, head_lines
from .times import plan_time, sum_remark, time_text
from .unplaced import by_region, reason_text

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
    "never_needed": "distinct ones that the best plan does without, or that search_seconds cut",
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
_NO_WIDTH = 120  # a log has no width of its own


def print_result(result: Any, console: Console | None = None, details: bool = True) -> None:
    """Print what a Result says."""
    print_report(result_to_json(result), console, details)


def print_report(
    report: dict[str, Any], console: Console | None = None, details: bool = True
) -> None:
    """Print a report: three lines, and with details plans, what each part runs on, what failed,
    limits, time spent."""
    console = console or make_console()
    for line in head_lines(report):
        console.print(line, highlight=False, markup=False)
    if not details:
        return
    if report["plans"]:
        by = "" if report["executor"] == GRAPH else f", by the {report['executor']} executor"
        print_titled(f"Plans end to end{by}", plan_table(report["plans"]), console)
    print_decision(report, console)


def print_decision(report: dict[str, Any], console: Console) -> None:
    """Print what ships and what led to it, without the plans' latencies."""
    if report["guard_skipped"]:
        console.print(f"Not measured end to end: {escape(report['guard_skipped'])}")
    if line := agreement_line(report):
        console.print(line, highlight=False, markup=False)
    if report["unverified"]:
        console.print(f"Not verified: {escape(report['unverified'])}")
    if report["graph_search"]:
        console.print(f"Whole plans searched: {escape(search_text(report['graph_search']))}")
    if report["placement"]:
        print_titled(f"What ships: plan {report['plan']}", placement_table(report), console)
    if report["kernels"]:
        print_titled("Steps that have several kernels", kernels_table(report), console)
    if transfers := transfers_text(report):
        console.print(f"Schedules of other kernels that were tried: {transfers}")
    for function in report["functions"]:
        _print_function(function, report, console)
    if report["costs"] or any(not row["skipped"] for row in report["functions"]):
        print_titled("How many costs", costs_table(report), console)
        if any(not row["skipped"] for row in report["functions"]):
            console.print(_SEARCH_COUNTS, highlight=False)
    phases = ", ".join(f"{name} {value:.1f} s" for name, value in report["seconds"].items())
    if phases:
        console.print(f"Time spent: {phases}")


def search_text(search: dict[str, Any]) -> str:
    """One line on a search of whole plans."""
    trials = search["trials"]
    failed = sum(row["seconds"] is None for row in trials)
    text = f"{search['strategy']}, {search['genes']} genes, {len(trials)} plans, {failed} failed"
    best = trials[-1]["best_seconds"] if trials else None
    if best is not None and search["op_level_seconds"]:
        flags = next((row.get("flags", ()) for row in trials if row["seconds"] == best), ())
        text += (
            f"; the best {time_text(best, flags)}, the op-level plan "
            f"{format_seconds(search['op_level_seconds'])}, before the guard's own rounds"
        )
    return f"{text}; {search['ended']}"


def print_titled(title: str, table: Table, console: Console) -> None:
    """Print a table under its title, which may be wider than the table."""
    console.print(f"\n[italic]{escape(title)}[/italic]", highlight=False)
    console.print(table)


def make_console() -> Console:
    """A console as wide as the terminal, or wide enough for the tables in a log."""
    console = Console()
    return console if console.is_terminal else Console(width=_NO_WIDTH)


def _table(*columns: str) -> Table:
    """A table with these columns; those that begin with > stand to the right, as numbers do."""
    table = Table()
    for name in columns:
        is_right = name.startswith(">")
        table.add_column(name.removeprefix(">"), justify="right" if is_right else "left")
    return table


def plan_table(rows: list[dict[str, Any]], what: str = "plan", best: str = "best backend") -> Table:
    """Latency of plans (rows of compare_plans) with intervals and ratios to the best backend, or of
    others."""
    table = _table(what, ">median", "95 % interval", f"speed-up over {best}", ">output error", "")
    for row in rows:
        if row["seconds"] is None:
            interval, median = row["status"], "-"
        else:
            median = plan_time(row)
            bounds = row["low"], row["high"]
            interval = "-" if None in bounds else " .. ".join(map(format_seconds, bounds))
        error = "-" if row["output_error"] is None else f"{row['output_error']:.1e}"
        notes = [row.get("note", "ships" if row["is_chosen"] else ""), plan_remarks(row)]
        table.add_row(
            escape(row["name"]),
            median,
            interval,
            ratio_text(row),
            error,
            escape("; ".join(note for note in notes if note)),
            style="bold" if row["is_chosen"] else None,
        )
    return table


def placement_table(report: dict[str, Any]) -> Table:
    """What the shipped module runs on each backend."""
    table = _table("backend", ">parts", ">operators", "which")
    for row in report["placement"][:_MOST_ROWS]:
        parts = "" if row["parts"] is None else str(row["parts"])
        table.add_row(escape(row["backend"]), parts, str(row["operators"]), escape(row["ops"]))
    _add_rest(table, report["placement"])
    return table


def parts_table(function: dict[str, Any]) -> Table:
    """Parts of the op-level plan with their measured time, equal parts in one row."""
    table = _table("backend", "operators", ">count", ">each", ">together", ">share")
    for row in function["parts"][:_MOST_ROWS]:
        is_known = _is_known(row)
        each = format_seconds(row["seconds"]) if is_known else row["status"]
        for flag in COUNTED_FLAGS:
            if count := row.get(flag):
                each += f" {flag}" if count == row["count"] else f" {count} {flag}"
        table.add_row(
            escape(row["backend"]),
            escape(row["ops"]),
            str(row["count"]),
            each,
            format_seconds(row["total_seconds"]) if is_known else "-",
            f"{row['share']:.1%}",
        )
    _add_rest(table, function["parts"])
    table.add_section()
    for row in function["backends"]:
        table.add_row(
            escape(row["backend"]),
            "all its parts",
            str(row["parts"]),
            "",
            format_seconds(row["seconds"]),
            f"{row['share']:.1%}",
            style="bold",
        )
    return table


def _is_known(row: dict[str, Any]) -> bool:
    return row["status"] in ("measured", "estimated")


class _Part(NamedTuple):
    """One of the parts that a row stands for; see times.Timed."""

    seconds: float | None
    flags: tuple[str, ...]


def _each_part(rows: Iterable[dict[str, Any]]) -> list[_Part]:
    return [
        _Part(
            row["seconds"] if _is_known(row) else None,
            tuple(flag for flag in COUNTED_FLAGS if k < row.get(flag, 0)),
        )
        for row in rows
        for k in range(row["count"])
    ]


def failures_table(function: dict[str, Any]) -> Table:
    """Candidates without a cost, and why."""
    table = _table("backend", "operators", ">count", "status", "message")
    for row in function["failures"][:_MOST_ROWS]:
        table.add_row(
            *(escape(str(row[k])) for k in ("backend", "ops", "count", "status", "message"))
        )
    _add_rest(table, function["failures"])
    return table


def unplaced_table(function: dict[str, Any]) -> Table:
    """Operators on TVM, and why each other backend did not get them, the dearest first."""
    table = _table("operators", "backend", "why they are not there")
    rows = by_region(function["unplaced"])
    for row in rows[:_MOST_REASONS]:
        table.add_row(*(escape(cell) for cell in (row["ops"], row["backend"], reason_text(row))))
    _add_rest(table, rows, _MOST_REASONS)
    return table


def kernels_table(report: dict[str, Any]) -> Table:
    """By which kernel a step runs, and what all took, first the usual one; the steps that another
    runs first."""
    table = Table()
    for name in ("backend", "step", "kernel", "of these, each alone"):
        table.add_column(name)
    rows = sorted(report["kernels"], key=operator.itemgetter("is_usual"))
    for row in rows[:_MOST_ROWS]:
        times = ", ".join(_tried(each) for each in row["tried"])
        cells = (row["backend"], row["step"], row["kernel"], times)
        table.add_row(*map(escape, cells), style=None if row["is_usual"] else "bold")
    _add_rest(table, rows)
    return table


def _tried(row: dict[str, Any]) -> str:
    seconds = row["seconds"]
    return f"{row['kernel']} {row['status'] if seconds is None else format_seconds(seconds)}"


def costs_table(report: dict[str, Any]) -> Table:
    """How many costs were wanted for all functions, where they came from, how good they are."""
    table = _table("costs", ">count", "what they are")
    searched = [row["costs"] for row in report["functions"] if not row["skipped"]]
    if searched:
        counts = {name: sum(row[name] for row in searched) for name in searched[0]}
        for name, meaning in _WANTED.items():
            table.add_row(name.replace("_", " "), str(counts[name]), meaning.format(**counts))
    costs = report["costs"]
    if costs:
        table.add_section()
        for name, meaning in _SOURCES.items():
            table.add_row(name.replace("_", " "), str(costs[name]), meaning)
        table.add_section()
        for status, count in costs["failed"].items():
            table.add_row(status.replace("_", " "), str(count), "without a cost, so in no plan")
        for name, meaning in _QUALITIES.items():
            if costs.get(name):
                table.add_row(name.replace("_", " "), str(costs[name]), meaning)
    return table


def costs_text(costs: dict[str, int]) -> str:
    """How many costs the search asked for, of how many."""
    return (
        "asked for {asked} of {distinct} distinct candidates ({candidates} in all) in {rounds} "
        "rounds; {never_needed} never needed"
    ).format(**costs)


def _print_function(function: dict[str, Any], report: dict[str, Any], console: Console) -> None:
    if function["skipped"]:
        text = f"Not partitioned: @{function['function']}: {function['skipped']}"
        console.print(escape(text), highlight=False)
        return
    name = "" if function["function"] == "main" else f" of @{function['function']}"
    ships = "" if _ships_the_search(report) else ", which is not what ships"
    if function["parts"]:
        title = f"What each part{name} runs on in the op-level plan{ships}"
        print_titled(title, parts_table(function), console)
        if remark := sum_remark(report, OP_LEVEL, _each_part(function["parts"])):
            console.print(remark, highlight=False, markup=False)
        if any(row["noisy"] for row in function["parts"]):
            console.print(_NOISY)
        for row in function["parts"]:
            if row["message"]:
                text = f"{row['ops']} on {row['backend']}: {row['message']}"
                console.print(escape(text), highlight=False)
    if function["failures"]:
        print_titled("What failed while measuring, and why", failures_table(function), console)
    if function["unplaced"]:
        print_titled(f"Why operators{name} stay on TVM", unplaced_table(function), console)
    console.print(f"Search{name}: {escape(function['search'])}", highlight=False)
    for line in function["cuts"]:
        console.print(f"Limit that cut: {escape(line)}", highlight=False)


def _ships_the_search(report: dict[str, Any]) -> bool:
    """Whether the plan that ships is the op-level one, or the same module under another name."""
    names = {row["name"] for row in report["plans"] if row["same_as"] == report["plan"]}
    shipped = (report["plan"], *names)
    return any(not (is_single(n) or is_searched(n) or n == EXACT) for n in shipped)


def _add_rest(table: Table, rows: list[Any], most: int = _MOST_ROWS) -> None:
    left = len(rows) - most
    if left > 0:
        table.add_row("...", f"{left} more rows")
