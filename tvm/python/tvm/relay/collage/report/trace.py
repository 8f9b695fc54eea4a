# SPDX-License-Identifier: Apache-2.0
"""A plan's parts on a time line, as Chrome's trace events: chrome://tracing and Perfetto open it.

A run is not watched: each part stands for the time that it was measured at alone, one after the
other, in an order in which they can run, beside the whole as it was measured end to end.
Test: report/test_trace.py.
"""

from __future__ import annotations

from typing import Any

from ..errors import CollageError
from .boxes import Box, BoxGraph, box_graph, functions_of, nothing_to_draw, plan_names
from .facts import sum_remark
from .record import Report

_MICRO = 1e6
_WHOLE = "end to end"


def to_trace(report: Report, plan: str | None = None, function: str = "") -> dict[str, Any]:
    """Return the JSON values of a trace: a process for each function, or for the one that is named,
    a thread for each backend, and the whole run; of what ships unless a plan is named."""
    rows = [row for row in functions_of(report) if function in ("", row.function)]
    if not rows or not plan_names(report):
        raise CollageError(nothing_to_draw(report))
    name = plan or plan_names(report)[0]
    events: list[dict[str, Any]] = []
    boxes: list[Box] = []
    for number, row in enumerate(rows, 1):
        graph = box_graph(report, row, name)
        boxes += graph.boxes
        events += _function(number, f"{name}: @{row.function}", graph)
    whole = next((row for row in report.plans if row.name == name and row.seconds), None)
    if whole and whole.seconds:
        interval: dict[str, Any] = {"low_us": _micro(whole.low), "high_us": _micro(whole.high)}
        if remark := sum_remark(report, name, [box for box in boxes if box.backend]):
            interval["parts"] = remark
        events += _named(0, f"{name}: {_WHOLE}", {_WHOLE: 0})
        span = {"start": 0.0, "length": whole.seconds}
        events.append(_event(f"plan {name}", process=0, thread=0, **span, about=interval))
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"plan": name, "host": report.host, "executor": report.executor},
    }


def _function(process: int, title: str, graph: BoxGraph) -> list[dict[str, Any]]:
    backends = sorted({box.backend for box in graph.boxes if box.backend})
    threads = {name: k for k, name in enumerate(backends)}
    events = _named(process, title, threads)
    now = 0.0
    for k in graph.order():
        box = graph.boxes[k]
        if box.backend:
            about = {"operators": list(box.nodes), "gives": box.type, "rule": box.rule}
            if box.seconds is None or box.flags:
                about["time"] = box.time
            length = box.seconds or 0.0
            place = {"process": process, "thread": threads[box.backend]}
            events.append(_event(box.label, **place, start=now, length=length, about=about))
            now += length
    return events


def _named(process: int, title: str, threads: dict[str, int]) -> list[dict[str, Any]]:
    """Return what the process and its threads are called."""
    base = {"ph": "M", "pid": process}
    names = [{**base, "name": "process_name", "args": {"name": title}}]
    return names + [
        {**base, "name": "thread_name", "tid": thread, "args": {"name": name}}
        for name, thread in threads.items()
    ]


def _event(
    name: str, *, process: int, thread: int, start: float, length: float, about: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": _micro(start),
        "dur": _micro(length),
        "args": about,
    }


def _micro(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * _MICRO, 3)
