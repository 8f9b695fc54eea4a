# SPDX-License-Identifier: Apache-2.0
"""Tell what mixing backends gains, from the records of bench/zoo.py at the depth hours.

Test: bench/test_mixes.py.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.records import origin
from harness.tables import interval_text, markdown_table

# Where nets are from: one that somebody named beside the lists has its rows, and is in no mean.
MODELS, ZOO, NAMED = "models", "zoo", "named"
# Columns that a record has only where tuning records for its net were given.
LOGS = ("tuned", "transferred")
LEAST = 0.97
# The phases that end with the op-level plan.
_PHASES = ("prepare", "kernels", "partition")
_ALL = "all"
_TWO_SIDED_95 = statistics.NormalDist().inv_cdf(0.975)
# What the plan that ships is compared with; the oldest records lack the second.
_BASES = {
    "over_single": "the best single backend",
    "over_without_own_kernels": "the best single backend without own kernels",
    "over_peer": "the faster library",
}
Record = Mapping[str, Any]
Ratio = Sequence[float | None]


def summary_of(found: Record) -> str:
    """Return one line of a record for who waits."""
    if found["failure"]:
        return f"{found['failure']['stage']}: {found['failure']['message'][:200]}"
    kind = "a mix" if is_mix(found) else "no mix"
    gains = [
        f"{ratio[0]:.2f} times as fast as {_BASES[base]}"
        for base in ("over_single", "over_peer")
        if (ratio := found["shipped"][base])
    ]
    return "; ".join([f"ships {found['ships']}", kind, *gains, f"{found['seconds']:.0f} s"])


def is_mix(record: Record) -> bool:
    """Return if what ships is a searched plan of two backends or more, TVM among them."""
    backends = {row["backend"] for row in record["placement"]}
    return not record["shipped"]["is_single"] and len(backends) > 1


def mean(ratios: Iterable[Ratio]) -> tuple[float, float, float, int] | None:
    """Return the geometric mean of ratios, with the 95 % interval that follows from theirs (the
    nets are taken as given, their measurements as independent), and of how many; those without an
    end of their interval are left out."""
    known = [[math.log(each) for each in ratio] for ratio in ratios if None not in ratio]
    if not known:
        return None
    middle = statistics.fmean(value for value, _, _ in known)
    errors = [(high - low) / (2 * _TWO_SIDED_95) for _, low, high in known]
    half = _TWO_SIDED_95 * math.sqrt(sum(error**2 for error in errors)) / len(known)
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half), len(known)


def tables(records: Sequence[Record]) -> str:
    """Return what ships and what that gains, and the mean of each column."""
    done = _done(records)
    parts = ["### In short\n", _gains(done), "### What ships\n", _shipped(done)]
    more = columns(records, has_nets=False)
    return "\n".join([*parts, "### One backend more in each column\n", more])


def columns(records: Sequence[Record], *, has_nets: bool = True) -> str:
    """Return the nets by column, or the columns' means alone, and where they were measured."""
    early = [f"{each['net']} at {each['failure']['stage']}" for each in records if each["failure"]]
    ended = f" Ended early: {', '.join(early)}." if early else ""
    return f"{_columns(_done(records), has_nets=has_nets)}\n{origin(records)}.{ended}\n"


def _done(records: Sequence[Record]) -> list[Record]:
    done = [record for record in records if not record["failure"]]
    return sorted(done, key=lambda record: (record["batch"], record["from"], record["net"]))


def _is_counted(record: Record) -> bool:
    return record["from"] != NAMED


def _gains(records: Sequence[Record]) -> str:
    """Return means over each base, and how many ship a mix, by batch and list of nets."""
    groups: dict[tuple[int, str], list[Record]] = {}
    for record in filter(_is_counted, records):
        for source in (_ALL, record["from"]):
            groups.setdefault((record["batch"], source), []).append(record)
    head = ["nets of", "batch", "over", "nets", "geometric mean"]
    head += [f"lower bound at {LEAST} or more", "surely slower", "ship a mix"]
    head += ["or a kernel of ours"]
    lines = []
    for batch, source in sorted(groups):
        group = groups[batch, source]
        mixes = str(sum(map(is_mix, group)))
        own = str(sum(is_mix(each) or each["own_kernels"] > 0 for each in group))
        for field, base in _BASES.items():
            ratios = [each["shipped"][field] for each in group if each["shipped"].get(field)]
            if found := mean(ratios):
                *interval, count = found
                lows = sum(low is not None and low >= LEAST for _, low, _ in ratios)
                slower = sum(high is not None and high < 1 for _, _, high in ratios)
                numbers = [str(count), interval_text(interval), str(lows), str(slower)]
                lines.append([source, str(batch), base, *numbers, mixes, own])
    return markdown_table(head, lines)


def _shipped(records: Sequence[Record]) -> str:
    head = ["net", "batch", "ms", "what ships", "operators by backend", "kernels of ours"]
    head += [f"over {base}" for base in _BASES.values()]
    head += ["seconds to the op-level plan", "costs asked for"]
    lines = []
    for record in records:
        rows = {row["name"]: row for row in record["rows"]}
        row = rows.get(record["shipped"]["plan"]) or {}
        time = row.get("seconds")
        text = f"{1e3 * time:.3g}{' (noisy)' if row['noisy'] else ''}" if time else "-"
        cells = [record["net"], str(record["batch"]), text, record["ships"]]
        cells += [_operators(record["placement"]), str(record["own_kernels"] or "")]
        cells += [interval_text(record["shipped"].get(field), ".2f") for field in _BASES]
        seconds = sum(record["phases"].get(name, 0) for name in _PHASES)
        lines.append([*cells, f"{seconds:.0f}", f"{record['asked']} of {record['candidates']}"])
    return markdown_table(head, lines)


def _operators(placement: Iterable[Record]) -> str:
    """Return how many operators each backend has, e.g. "dnnl 52, tvm 4"."""
    counts: dict[str, int] = {}
    for row in placement:
        counts[row["backend"]] = counts.get(row["backend"], 0) + row["operators"]
    return ", ".join(f"{backend} {count}" for backend, count in counts.items())


def _columns(records: Sequence[Record], *, has_nets: bool) -> str:
    """Return the time of the fastest single backend over that of what each column ships. Who is far
    slower left after a few rounds: its interval has no end, and its figure counts in the mean."""
    found = dict.fromkeys(column["name"] for each in records for column in each["columns"])
    of_logs = [f"tvm-{name}" for name in LOGS]
    names = list(dict.fromkeys([n for n in ("tvm", *of_logs) if n in found] + list(found)))
    values: list[list[float | None]] = []
    for record in records:
        columns = {column["name"]: column for column in record["columns"]}
        rows = [columns.get(name) for name in names]
        rows += [record[name] for name in ("op_level", "graph_level", "shipped")]
        ratios = [row["over_single"] if row else None for row in rows]
        values.append([ratio[0] if ratio else None for ratio in ratios])
    lines = [
        [
            record["net"],
            str(record["batch"]),
            *("-" if each is None else f"{each:.2f}" for each in row),
        ]
        for record, row in zip(records, values, strict=True)
    ]
    counted = [row for record, row in zip(records, values, strict=True) if _is_counted(record)]
    means = []
    for column in zip(*counted, strict=True):
        known = [each for each in column if each is not None]
        means.append(f"**{statistics.geometric_mean(known):.3f}**" if known else "-")
    last = [["**geometric mean**", "", *means]] if means else []
    head = ["net", "batch", *names, "op-level plan", "graph-level plan", "ships"]
    return markdown_table(head, [*lines, *last] if has_nets else last)
