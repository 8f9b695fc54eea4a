# SPDX-License-Identifier: Apache-2.0
"""A Result as JSON values: plans, parts, failures, limits, time spent; times in seconds.

Test: report/test_report.py.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from ..costs.kernel import KernelChoice
from ..costs.statistics import Interval
from ..measure.race.comparison import DEPENDENT_ROUNDS
from ..plans.competing import EXACT, MERGED, ONE_THREAD, OP_LEVEL, SEARCHED, TVM_ALONE, UNTUNED
from ..plans.graph_search.coarse import SLACK
from ..plans.original import Agreement
from ..views.function_report import FunctionReport, ReportedPart
from .placement import placement_of
from .plans import compare_plans
from .times import plan_time
from .unplaced import unplaced_to_json

# What equal parts agree in, and what equal failures agree in.
_WHAT = ("backend", "rule", "ops", "cost.status")
_WHY = (*_WHAT, "cost.message")

# Marks of which the rows of equal parts have counts: what else makes a time doubtful is no fault of
# the time.
COUNTED_FLAGS = ("estimated", "noisy", "busy")

_BUSY = "other work left no core free; search again when `collage doctor` finds the machine quiet"
BUSY = f"{_BUSY}: these alone are measured anew"


def result_to_json(result: Any) -> dict[str, Any]:
    """All that is known of a Result.

    plan: what ships. executor: by which TVM runs it, and ran the plans. plans: rows of
    compare_plans from the guard, [] without one. guard_skipped and unverified: why nothing was
    measured end to end, or compared with TVM's outputs. placement: what the shipped module runs
    where. functions: the op-level search by function; its parts are those of the plan "collage"
    whether that ships or not, `unplaced` says why its operators on TVM are on no other backend,
    `skipped` why a function was left as it was ("" when it was not). seconds: time by phase. costs:
    how many the measuring found and where, {} when nothing was asked for: `measured` just now,
    `from_store`, `from_memory` (an equal candidate was answered before), of the distinct ones
    `failed` by status, how many are `noisy`, `verified` (outputs compared with TVM's) and
    `not_verified` (asked for, but there was nothing to compare with). kernels: by which of its
    kernels each step runs that has several, and what each took. schedules: how many tuning records
    TVM's kernels may have of whom, {} without any. transfers: how many schedules of other kernels
    came to what when they were tried, {} for none. original: how outputs agree with those of the
    model's file (Agreement), null where none was named. graph_search: what the search of whole
    plans tried, in that order (GraphSearch.to_json), null without one. summary: one line.
    """
    host = result.host.kind.name
    comparisons = result.guard.comparisons if result.guard else []
    singles = [item.name for item in comparisons if is_single(item.name)]
    failed = {item.name: item.cost.Summary() for item in comparisons if item.cost.is_failure}
    report = {
        "plan": result.plan,
        "host": str(result.host),
        "executor": result.executor,
        "guard_skipped": result.guard_skipped,
        "unverified": result.guard.unverified if result.guard else "",
        "original": _original(result.original),
        "plans": compare_plans(comparisons, singles, result.plan),
        "placement": placement_of(result.mod, TVM_ALONE),
        "functions": [_function(row, host, failed) for row in result.partitioned],
        "seconds": dict(result.seconds),
        "costs": dict(result.costs),
        "kernels": [_step(choice) for choice in result.kernels],
        "schedules": result.records.origins(),
        "transfers": dict(result.transfers),
        "graph_search": result.search.to_json() if result.search else None,
    }
    return {"summary": Summary(report), **report}


def _original(agreement: Agreement | None) -> dict[str, Any] | None:
    if agreement is None:
        return None
    return {**dataclasses.asdict(agreement), "summary": agreement.Summary()}


def costs_asked(report: FunctionReport) -> dict[str, int]:
    """How many costs the search of one function asked for: of `candidates` on backends, `distinct`
    differ as computations; `asked` of those in `rounds` batches, wherever the answers came from,
    and `never_needed`, since no plan with them could win, or the option search_seconds cut them."""
    costs = report.costs
    return {**dataclasses.asdict(costs), "never_needed": costs.distinct - costs.asked}


def is_single(plan: str) -> bool:
    """Whether a plan is one backend (and TVM for what it cannot take), nothing searched."""
    plan = plan.removesuffix(ONE_THREAD)
    is_op_level = plan in (OP_LEVEL, MERGED, EXACT, UNTUNED[OP_LEVEL], *SLACK)
    return not is_op_level and not is_searched(plan)


def is_searched(plan: str) -> bool:
    """Whether a plan comes of a search of whole plans."""
    return plan.startswith(SEARCHED)


def Summary(report: dict[str, Any]) -> str:
    """One line: what ships, how fast, what it runs on, the time it took to find out."""
    pieces = [f"plan {report['plan']}"]
    for row in report["plans"]:
        if row["is_chosen"] and row["seconds"] is not None:
            pieces.append(f"{plan_time(row)} ({ratio_text(row, 'x the best backend')})")
    counts = operators_by_backend(report)
    if counts:
        pieces.append("operators: " + ", ".join(f"{n} on {name}" for name, n in counts.items()))
    if report.get("schedules"):
        pieces.append(f"schedules: {_counts_text(report['schedules'])}")
    if report["seconds"]:
        pieces.append(f"found in {sum(report['seconds'].values()):.1f} s")
    return "; ".join(pieces)


def transfers_text(report: dict[str, Any]) -> str:
    """How schedules of other kernels did; "" where none was tried."""
    return _counts_text(report.get("transfers", {}))


def _counts_text(counts: Mapping[str, int]) -> str:
    """As "10 adapted, 2 invalid"."""
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def operators_by_backend(report: dict[str, Any]) -> dict[str, int]:
    """How many operators of what ships run on each backend."""
    counts: dict[str, int] = {}
    for row in report["placement"]:
        counts[row["backend"]] = counts.get(row["backend"], 0) + row["operators"]
    return counts


def ratio_text(row: dict[str, Any], unit: str = "x") -> str:
    """How many times as fast as the best backend alone: 1.230 [1.200, 1.260] x; a dash where there
    is none."""
    ratio = row["ratio_to_best_single"]
    return Interval.from_json(ratio).Summary(unit=unit) if ratio else "-"


def plan_remarks(row: dict[str, Any]) -> str:
    """What is to be known of a plan's figures: whose they are, and what makes them doubtful."""
    same = f"same as {row['same_as']}" if row["same_as"] else ""
    dependent = DEPENDENT_ROUNDS if row["is_dependent"] else ""
    return "; ".join(text for text in (same, dependent, row["message"]) if text)


def busy_text(report: dict[str, Any]) -> str:
    """How many costs a busy machine may have spoilt, or that it may have spoilt the plans' times;
    "" for neither."""
    if busy := report["costs"].get("busy", 0):
        return f"{busy} costs measured while {BUSY}"
    is_busy = any("busy" in row.get("flags", ()) for row in report["plans"])
    return f"the plans were measured while {_BUSY}" if is_busy else ""


def _function(report: FunctionReport, host: str, failed_plans: Mapping[str, str]) -> dict[str, Any]:
    """One partitioned function: its parts and failures grouped."""
    kernels = [part for part in report.parts if part.is_kernel]
    total = sum(part.cost.seconds or 0.0 for part in kernels)
    parts = [_part(group, host, total) for group in _groups(kernels, _WHAT)]
    parts.sort(key=lambda part: -part["total_seconds"])
    return {
        "function": report.function,
        "nodes": report.nodes,
        "candidates": report.candidates,
        "costs": costs_asked(report),
        "seconds": report.seconds,
        "transitions": [dataclasses.asdict(each) for each in report.transitions],
        "is_optimal": report.is_optimal,
        "search": report.search,
        "cuts": list(report.cuts),
        "parts": parts,
        "backends": _backends(parts),
        "failures": [_failure(group, host) for group in _groups(report.failed, _WHY)],
        "unplaced": unplaced_to_json(report, failed_plans),
        "skipped": report.skipped,
    }


def _step(choice: KernelChoice) -> dict[str, Any]:
    """A step that has several kernels; `tried` begins with the usual one."""
    return {
        "backend": choice.backend,
        "step": choice.label,
        "kernel": choice.kernel,
        "is_usual": choice.is_usual,
        "tried": [
            {
                "kernel": tried.name,
                "status": tried.cost.status,
                "seconds": tried.cost.seconds,
                "message": tried.cost.message,
            }
            for tried in choice.tried
        ],
    }


def _groups(rows: Iterable[ReportedPart], fields: tuple[str, ...]) -> list[list[ReportedPart]]:
    """Rows that agree in the fields together, in order of appearance."""
    groups: dict[tuple, list[ReportedPart]] = {}
    key_of = operator.attrgetter(*fields)
    for row in rows:
        groups.setdefault(key_of(row), []).append(row)
    return list(groups.values())


def _part(group: list[ReportedPart], host: str, total: float) -> dict[str, Any]:
    seconds = [row.cost.seconds or 0.0 for row in group]
    remarks = dict.fromkeys(row.cost.message for row in group if row.cost.message)
    return {
        **_named(group, host),
        "message": "; ".join(remarks),
        "count": len(group),
        "seconds": sum(seconds) / len(seconds),
        "total_seconds": sum(seconds),
        "share": sum(seconds) / total if total > 0 else 0.0,
        **{flag: sum(flag in row.cost.flags for row in group) for flag in COUNTED_FLAGS},
    }


def _failure(group: list[ReportedPart], host: str) -> dict[str, Any]:
    return {**_named(group, host), "count": len(group)}


def _named(group: list[ReportedPart], host: str) -> dict[str, Any]:
    """What the rows of a group share. The host's kind is TVM, whatever it compiles for."""
    first = group[0]
    return {
        "backend": TVM_ALONE if first.backend == host else first.backend,
        "ops": first.ops,
        "rule": first.rule,
        "status": first.cost.status,
        "message": first.cost.message,
    }


def _backends(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parts, seconds and share by backend, the largest first."""
    rows: dict[str, dict[str, Any]] = {}
    for part in parts:
        row = rows.setdefault(
            part["backend"], {"backend": part["backend"], "parts": 0, "seconds": 0.0, "share": 0.0}
        )
        row["parts"] += part["count"]
        row["seconds"] += part["total_seconds"]
        row["share"] += part["share"]
    return sorted(rows.values(), key=lambda row: -row["seconds"])
