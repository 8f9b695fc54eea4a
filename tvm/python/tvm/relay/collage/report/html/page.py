# SPDX-License-Identifier: Apache-2.0
"""The page beside its graph, as texts and tables, so that its scripts only draw.

A block is a title, texts above a table, `figures` for those who look into it, and the table; a cell
that names a backend is drawn with its colour. Test: report/html/test_page.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...costs.compared import DEPENDENT_ROUNDS, ComparedPlan, Ratio
from ...costs.cost import format_seconds
from ..facts import (
    KERNEL_COLUMNS,
    counts_text,
    flags_text,
    reason_text,
    time_text,
    tried_text,
    why_text,
)
from ..precision import PlacedLayer, Precisions, precision_lines
from ..record import Report, SearchedFunction

Cell = str | dict[str, str]
Block = dict[str, Any]


def block(
    title: str = "",
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[Cell]] = (),
    texts: Sequence[str] = (),
    **more: Any,
) -> Block:
    """Return a block; columns that begin with ">" stand to the right."""
    return {"title": title, "columns": columns, "rows": rows, "texts": texts, **more}


def counted(count: int, what: str) -> str:
    """Return "1 part", "2 parts"."""
    return f"{count} {what}{'s' * (count != 1)}"


# --- plans ---------------------------------------------------------------------------------------


def tiles(report: Report) -> list[dict[str, str]]:
    """Return the two figures that matter: latency and gain."""
    chosen = report.chosen
    if not chosen or chosen.seconds is None:
        return []
    time = {"value": time_text(chosen.seconds, ()), "note": flags_text(chosen.flags)}
    found = [{"label": "latency of a run", **time, "below": _bounds(chosen)}]
    ratio = chosen.ratio_to_best_single
    if ratio and not ratio.low == ratio.high == 1:
        below = (
            "too few rounds to be sure"
            if ratio.low is None or ratio.high is None
            else f"95 %: {ratio.low:.2f} to {ratio.high:.2f}"
        )
        gain = {"value": f"{ratio.value:.2f}×", "note": "", "below": below}
        found.append({"label": "vs. the best backend alone", **gain})
    return found


def plans_note(report: Report) -> str:
    """Say what the plans' figures are, and what is to be known of all of them."""
    text = (
        "Median latency of a run, with its 95 % interval. A click draws the plan below."
        if any(row.seconds is not None for row in report.plans)
        else report.guard_skipped or "No plan was measured end to end."
    )
    if report.ended_early:
        text += f" Ended early: {report.ended_early}."
    if report.unverified:
        text += f" Not verified: {report.unverified}"
    return text + (f" Of the original: {report.original.summary}." if report.original else "")


def plan_rows(report: Report) -> list[dict[str, Any]]:
    """Return the plans, the fastest first, each with its bar's ends as shares of the longest."""
    ran = [row for row in report.plans if row.seconds is not None]
    longest = max((row.high or row.seconds or 0.0 for row in ran), default=0.0) or 1.0
    order = sorted(report.plans, key=lambda row: math.inf if row.seconds is None else row.seconds)
    return [_plan(row, longest) for row in order]


def _plan(row: ComparedPlan, longest: float) -> dict[str, Any]:
    same = f"same as {row.same_as}" if row.same_as else ""
    found: dict[str, Any] = {
        "name": row.name,
        "is_chosen": row.is_chosen,
        "tags": [*filter(None, (same, "one backend" if row.is_single_backend else ""))],
    }
    if row.seconds is None:
        return {**found, "failed": ": ".join(filter(None, (why_text(row.status), row.message)))}
    dependent = DEPENDENT_ROUNDS if row.is_dependent else ""
    bounds = [None if each is None else each / longest for each in (row.low, row.high)]
    return {
        **found,
        "bar": [row.seconds / longest, *bounds],
        "time": time_text(row.seconds, ()),
        "note": flags_text(row.flags),
        "bounds": _bounds(row),
        "speed": _speed(row.ratio_to_best_single),
        "memory": f"{row.memory_bytes / 1e6:.3g} MB" if row.memory_bytes else "",
        "remarks": "; ".join(filter(None, (dependent, row.message))),
    }


def _bounds(row: ComparedPlan) -> str:
    if row.low is None or row.high is None:
        return ""
    return f"95 %: {format_seconds(row.low)} to {format_seconds(row.high)}"


def _speed(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    text = f"{ratio.value:.2f}×"
    if ratio.low is None or ratio.high is None or ratio.low == ratio.high:
        return text
    return f"{text} [{ratio.low:.2f}, {ratio.high:.2f}]"


# --- precision -----------------------------------------------------------------------------------


def precision_blocks(told: Precisions | None) -> list[Block]:
    """Return what ships beside what else was built, the front, and the layers; nothing where nobody
    chose precisions."""
    if told is None:
        return []
    kinds = list(dict.fromkeys(other.precision for row in told.layers for other in row.others))
    heads = [head for kind in kinds for head in (f">{kind} saves", f">error in {kind}")]
    blocks = [block(texts=precision_lines(told), front=True)]
    if not told.layers:
        return blocks
    about = (
        "What each layer alone would save in fewer bits, by profiles, and its error by rms. To "
        "build another point of the front, compile again with its error as the budget."
    )
    rows = [_layer(row, kinds) for row in told.layers]
    columns = ("layer", "operator", "precision", *heads)
    return [*blocks, block("Layers", columns, rows, texts=[about])]


def _layer(row: PlacedLayer, kinds: Sequence[str]) -> list[str]:
    others = {other.precision: other for other in row.others}
    found = [row.name, row.op, row.precision]
    for kind in kinds:
        other = others.get(kind)
        found += ["", ""] if other is None else [_saved(other.saves_seconds), _error(other.error)]
    return found


def _saved(seconds: float | None) -> str:
    if seconds is None:
        return "not known"
    return format_seconds(seconds) if seconds >= 0 else f"−{format_seconds(-seconds)}"


def _error(error: float | None) -> str:
    return "no number" if error is None else f"{error:.2%}"


# --- how it was found ----------------------------------------------------------------------------


def search_blocks(report: Report) -> list[Block]:
    """Return the search: its words and figures, then what it spent and counted."""
    blocks = [_searched(row, len(report.functions)) for row in report.functions]
    if report.seconds:
        rows = [(name, f"{value:.1f}") for name, value in report.seconds.items()]
        blocks.append(block("Time spent", ("phase", ">seconds"), rows, kind="narrow"))
    if report.graph_search:
        blocks.append(block("Whole plans that were tried", texts=[_trials(report)], history=True))
    if report.costs:
        counts = {**vars(report.costs)}
        counts |= counts.pop("failed")
        rows = [(name.replace("_", " "), str(value)) for name, value in counts.items()]
        blocks.append(block("Costs", ("what", ">count"), rows, kind="narrow"))
    if report.kernels:
        steps = [
            ({"backend": row.backend}, row.step, row.kernel, tried_text(row))
            for row in report.kernels
        ]
        blocks.append(block("Steps that have several kernels", KERNEL_COLUMNS, steps))
    return blocks


def _searched(row: SearchedFunction, functions: int) -> Block:
    """Say what the search of a function found, for people; its own figures apart."""
    if row.skipped:
        return block(texts=[f"@{row.function} was left as it was: {row.skipped}"])
    where = f" of @{row.function}" if functions > 1 else ""
    found = (
        "No other choice among them has a smaller sum of times."
        if row.is_optimal
        else "A limit ended the search: another choice among them may have a smaller sum of times."
    )
    choice = f"{counted(row.candidates, 'part')} that a backend could run"
    text = (
        f"The op-level plan{where} was chosen among {choice}, over {counted(row.nodes, 'node')}. "
        f"{found}"
    )
    return block(texts=[text], figures=[row.search, *(f"Limit that cut: {e}" for e in row.cuts)])


def _trials(report: Report) -> str:
    search = report.graph_search
    if search is None:
        return ""
    failed = sum(row.seconds is None for row in search.trials)
    plans, genes = counted(len(search.trials), "plan"), counted(search.genes, "gene")
    return f"{search.strategy}, {genes}, {plans}, {failed} failed; {search.ended}."


# --- what failed, and what it was made with ------------------------------------------------------


def reason_blocks(report: Report) -> list[Block]:
    """Return what failed while measuring, and why operators are on no backend."""
    blocks = []
    for function in report.functions:
        name = f" of @{function.function}" if len(report.functions) > 1 else ""
        if function.failures:
            failures = [
                ({"backend": e.backend}, e.ops, str(e.count), why_text(e.status), e.message)
                for e in function.failures
            ]
            heads = ("backend", "operators", ">count", "status", "message")
            blocks.append(block(f"Failed while measuring{name}", heads, failures))
        if function.unplaced:
            unplaced = [
                (e.op, str(e.operators), {"backend": e.backend}, reason_text(e))
                for e in function.unplaced
            ]
            columns = ("operator", ">count", "backend", "why")
            blocks.append(block(f"Why operators{name} stay on TVM", columns, unplaced))
    nothing = "Nothing failed, and no operator stays on TVM for want of a backend."
    return blocks or [block(texts=[nothing])]


def environment(report: Report) -> list[tuple[str, str]]:
    """Return what the plan was made with, as names and values."""
    rows = [("host target", report.host), ("executor", report.executor)]
    plans = report.placements.plans if report.placements else ()
    seen = next((row for row in plans if row.plan == report.plan), next(iter(plans), None))
    if seen:
        made, machine = seen.made_with, seen.made_with.machine
        rows += [("tvm-collage", made.collage), ("TVM", made.tvm)]
        rows += [("opt level", str(made.opt_level)), ("CPU", machine.cpu)]
        rows += [("threads", str(machine.threads))]
        rows += [("vector instructions", ", ".join(machine.features))]
        rows += [(name, version or "no version") for name, version in made.backends.items()]
    for name, counts in (("schedules", report.schedules), ("schedules tried", report.transfers)):
        if counts:
            rows.append((name, counts_text(counts)))
    return rows
