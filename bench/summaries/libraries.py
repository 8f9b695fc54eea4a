# SPDX-License-Identifier: Apache-2.0
"""Tell how Collage's backends stand beside onnxruntime and OpenVINO, from the zoo's records.

A ratio is the library's time over the time of the fastest of our backends in the same rounds, so
above 1 ours is faster. Test: bench/test_libraries.py.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from architectures.nets import NETS
from harness.tables import markdown_table

LIBRARIES = ("onnxruntime", "openvino")
FASTEST = "the faster of the two"
# Two processes that run the same differ by so much.
_LEVEL = 0.97
Record = Mapping[str, Any]
Ratios = dict[str, float]


def summary_of(found: Record) -> str:
    """Return one line of a record for who waits."""
    parts = [f"{where} {why[:200]}" for where, why in failures_of(found)]
    if best := best_of_ours(found):
        parts.insert(0, f"{best['name']} {best['ratio'][0]:.2f} of the fastest peer's speed")
    return "; ".join([*parts, f"{found['seconds']:.0f} s"])


def failures_of(found: Record) -> list[tuple[str, str]]:
    """Return where and why, of the trial and of each side that has no time."""
    rows = [row for row in found.get("rows", []) if row["seconds"] is None]
    early = found["failure"]
    of_rows = [(row["name"], f"{row['status']}: {row['message']}") for row in rows]
    return [*([(early["stage"], early["message"])] if early else []), *of_rows]


def best_of_ours(found: Record) -> dict[str, Any] | None:
    """Return the row of the fastest backend alone."""
    ours = [row for row in found.get("rows", []) if not row["is_peer"] and row.get("ratio")]
    return max(ours, key=lambda row: row["ratio"][0], default=None)


def ratios_of(found: Record) -> Ratios:
    """Return the ratio of each library; none where one of the times is not known, or the interval
    of its ratio has no end: its median may then be anything."""
    best = best_of_ours(found)
    peers = {row["name"]: row.get("ratio") for row in found.get("rows", []) if row["is_peer"]}
    wanted = [best and best["ratio"], *(peers.get(name) for name in LIBRARIES)]
    if any(ratio is None or None in ratio for ratio in wanted):
        return {}
    ours, *theirs = [ratio[0] for ratio in wanted]
    return {name: ours / ratio for name, ratio in zip(LIBRARIES, theirs)} | {FASTEST: ours}


def summary(found: Sequence[Record]) -> str:
    """Return one line a library, over all nets of the newest machine: for README.md."""
    machine = _newest_machine(found)
    here = [one for one in found if _machine(one) == machine]
    lines = [[name, *_figures(_column(here, name))] for name in (*LIBRARIES, FASTEST)]
    head = ["library", "models", "geometric mean", "least", "most", "Collage is level or faster on"]
    days = " and ".join(sorted({one["date"] for one in here}))
    unknown = sum(not ratios_of(one) for one in here)
    left_out = f"Of the {len(here)} models {unknown} have no known ratio. " if unknown else ""
    return (
        f"{markdown_table(head, lines)}\nMeasured on {machine}, on {days}. {_LEVEL} or more counts "
        f"as level: two runs of the same program differ by so much. {left_out}While "
        f"{_count_noisy(here)} were measured, other programs used the processor too.\n"
    )


def by_family(found: Sequence[Record]) -> str:
    """Return a table a machine, by family of nets: for docs/results.md."""
    parts = []
    families = list(dict.fromkeys(row.family for row in NETS.values()))
    columns = (*LIBRARIES, FASTEST)
    for machine in sorted({_machine(one) for one in found}):
        groups: dict[str, list[Record]] = defaultdict(list)
        for one in found:
            if _machine(one) == machine and ratios_of(one):
                groups[NETS[one["net"]].family].append(one)
        everything = [one for group in groups.values() for one in group]
        named = [(each, groups[each]) for each in families if each in groups]
        lines = [
            [title, str(len(group)), *(_interval(_column(group, name)) for name in columns)]
            for title, group in [*named, ("**all**", everything)]
        ]
        head = ["family", "records", *(f"beside {name}" for name in columns)]
        parts.append(f"### {machine}\n\n{markdown_table(head, lines)}")
    unknown = sum(not ratios_of(one) for one in found)
    parts.append(
        f"Of {len(found)} records, {_count_noisy(found)} were made while other work took a part of "
        f"the processor, which widens their intervals. {unknown} have no ratio that is known on "
        "both sides and count nowhere.\n"
    )
    return "\n".join(parts)


def _count_noisy(found: Sequence[Record]) -> int:
    return sum(any(row.get("noisy") for row in one.get("rows", [])) for one in found)


def _machine(one: Record) -> str:
    conditions = one["conditions"]
    return f"{conditions['machine']['cpu']}, {conditions['threads']} threads"


def _newest_machine(found: Sequence[Record]) -> str:
    if not found:
        raise ValueError("there are no records: bench/zoo.py makes them")
    return _machine(max(found, key=lambda one: one["date"]))


def _column(found: Sequence[Record], name: str) -> list[float]:
    return [ratios[name] for one in found if name in (ratios := ratios_of(one))]


def _figures(ratios: Sequence[float]) -> list[str]:
    if not ratios:
        return ["0", *["-"] * 4]
    level = sum(ratio >= _LEVEL for ratio in ratios)
    mean = f"{statistics.geometric_mean(ratios):.2f}"
    return [str(len(ratios)), mean, f"{min(ratios):.2f}", f"{max(ratios):.2f}", str(level)]


def _interval(ratios: Sequence[float]) -> str:
    """Return the geometric mean, and the least and the most."""
    if not ratios:
        return "-"
    return f"{statistics.geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
