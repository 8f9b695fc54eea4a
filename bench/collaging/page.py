# SPDX-License-Identifier: Apache-2.0
"""The generated part of docs/collaging.md, from the records. What people wrote there stays.

A record is a net and batch with what columns.trial told of it. Test: bench/test_ablation.py.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from harness.tables import interval_text, markdown_table

# Where nets are from.
PEERS, ZOO = "the peers' benchmark", "the zoo"
# Columns that a record has only where tuning records for its net were given.
LOGS = ("tuned", "transferred")
RECORDED = tuple(f"tvm-{name}" for name in LOGS)
# The least lower bound that is aimed at; how many reach it is said.
LEAST = 0.97
_TWO_SIDED_95 = statistics.NormalDist().inv_cdf(0.975)
# What the plan that ships is compared with; the oldest records lack the second.
_BASES = (
    ("over_single", "best single backend"),
    ("over_without_own_kernels", "best single backend without own kernels"),
    ("over_peer", "fastest peer"),
)
Record = Mapping[str, Any]
Ratio = Sequence[float | None]


def tables(records: Sequence[Record]) -> str:
    """All that the records say, as Markdown."""
    if not records:
        return "No records.\n"
    order = sorted(records, key=lambda record: (record["batch"], record["from"], record["net"]))
    done = [record for record in order if not record["failure"]]
    parts = ["### In short\n", _mixes(done), _gains(done)]
    parts += ["### How it was measured\n", _conditions(order)]
    parts += ["### What ships\n", _shipped(done)]
    parts += ["### One backend more in each column\n", _columns(done)]
    parts += ["### The cold search\n", _search(done), "### Failures\n", _failures(order)]
    return "\n".join(parts) + "\n"


def is_mix(record: Record) -> bool:
    """Whether what ships is a searched plan of two backends or more, TVM among them."""
    backends = {row["backend"] for row in record["placement"]}
    return not record["shipped"]["is_single"] and len(backends) > 1


def mean(ratios: Iterable[Ratio]) -> tuple[float, float, float, int] | None:
    """Geometric mean of ratios, with the 95 % interval that follows from theirs (the nets are
    taken as given, their measurements as independent), and of how many; those without an end of
    their interval are left out."""
    known = [[math.log(each) for each in ratio] for ratio in ratios if None not in ratio]
    if not known:
        return None
    middle = statistics.fmean(value for value, _, _ in known)
    errors = [(high - low) / (2 * _TWO_SIDED_95) for _, low, high in known]
    half = _TWO_SIDED_95 * math.sqrt(sum(error**2 for error in errors)) / len(known)
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half), len(known)


def _groups(records: Sequence[Record]) -> list[tuple[list[str], list[Record]]]:
    """Records by batch and where their nets are from, each group with its first cells."""
    keys = sorted({(record["batch"], record["from"]) for record in records})
    return [
        ([source, str(batch)], [r for r in records if (r["batch"], r["from"]) == (batch, source)])
        for batch, source in keys
    ]


def _mixes(records: Sequence[Record]) -> str:
    head = ["nets of", "batch", "nets", "a mix of parts ships on", "with own kernels counted, on"]
    lines = []
    for cells, group in _groups(records):
        own = sum(is_mix(record) or record["own_kernels"] > 0 for record in group)
        lines.append([*cells, str(len(group)), str(sum(map(is_mix, group))), str(own)])
    return markdown_table(head, lines)


def _gains(records: Sequence[Record]) -> str:
    head = ["nets of", "batch", "over", "nets", "geometric mean"]
    head += [f"lower bound at {LEAST} or more", "surely slower"]
    lines = []
    for cells, group in _groups(records):
        for field, what in _BASES:
            ratios = [r["shipped"][field] for r in group if r["shipped"].get(field)]
            found = mean(ratios)
            if found:
                *interval, count = found
                lows = sum(ratio[1] >= LEAST for ratio in ratios)
                slower = sum(ratio[2] is not None and ratio[2] < 1 for ratio in ratios)
                numbers = [str(count), interval_text(interval), str(lows), str(slower)]
                lines.append([*cells, f"the {what}", *numbers])
    return markdown_table(head, lines)


def _shipped(records: Sequence[Record]) -> str:
    head = ["net", "batch", "ms", "what ships", "parts by backend", "mix", "own kernels"]
    head += ["best single", "over it", "best without own kernels", "over it"]
    head += ["fastest peer", "over it"]
    lines = []
    for record in records:
        rows = {row["name"]: row for row in record["rows"]}
        shipped = record["shipped"]
        time = (rows.get(shipped["plan"]) or {}).get("seconds")
        cells = [record["net"], str(record["batch"]), f"{1e3 * time:.3g}" if time else "-"]
        cells += [record["ships"], _parts(record["placement"]), "yes" if is_mix(record) else ""]
        cells += [str(record["own_kernels"] or "")]
        cells += [_short(record["best_single"]), interval_text(shipped["over_single"], ".2f")]
        cells += [
            _short(record.get("best_without_own_kernels")),
            interval_text(shipped.get("over_without_own_kernels"), ".2f"),
        ]
        cells += [record["fastest_peer"] or "-", interval_text(shipped["over_peer"], ".2f")]
        lines.append(cells)
    return markdown_table(head, lines)


def _columns(records: Sequence[Record]) -> str:
    """The time of the fastest of all single backends over that of what each column ships."""
    found = dict.fromkeys(column["name"] for r in records for column in r["columns"])
    names = list(dict.fromkeys([*(name for name in ("tvm", *RECORDED) if name in found), *found]))
    head = ["net", "batch", *names, "op-level plan", "graph-level plan", "ships"]
    lines = []
    for record in records:
        columns = {column["name"]: column for column in record["columns"]}
        rows = [columns.get(name) for name in names]
        rows += [record[name] for name in ("op_level", "graph_level", "shipped")]
        lines.append([record["net"], str(record["batch"]), *map(_value, rows)])
    return markdown_table(head, [*lines, *_means(records, names)])


def _means(records: Sequence[Record], names: Sequence[str]) -> list[list[str]]:
    """A last row: the geometric mean of each column, over the nets that have a figure there. Who is
    far slower left after a few rounds: its interval has no end, and its figure counts."""

    def of(get: Callable[[Record], Any]) -> str:
        rows = [row for record in records if (row := get(record)) and row["over_single"]]
        values = [row["over_single"][0] for row in rows]
        return f"**{statistics.geometric_mean(values):.3f}**" if values else "-"

    def column(name: str) -> Callable[[Record], Any]:
        return lambda record: next((c for c in record["columns"] if c["name"] == name), None)

    cells = [of(column(name)) for name in names]
    fields = ("op_level", "graph_level", "shipped")
    cells += [of(lambda record, field=field: record[field]) for field in fields]
    return [["**geometric mean**", "", *cells]]


def _search(records: Sequence[Record]) -> str:
    head = ["net", "batch", "seconds to the op-level plan", "guard", "search of whole plans"]
    head += ["candidates", "asked for", "columns: seconds", "costs that they added"]
    lines = []
    for record in records:
        seconds = record["phases"]
        later = {"guard", "graph search"}
        op_level = sum(value for name, value in seconds.items() if name not in later)
        cells = [f"{op_level:.0f}", f"{seconds.get('guard', 0):.0f}"]
        cells += [f"{seconds.get('graph search', 0):.0f}"]
        cells += [str(record["candidates"]), str(record["asked"])]
        spent = record["columns_spent"]
        cells += [f"{sum(each['seconds'] for each in spent):.0f}"]
        cells += [str(sum(each["new"] for each in spent))]
        lines.append([record["net"], str(record["batch"]), *cells])
    return markdown_table(head, lines)


def _failures(records: Sequence[Record]) -> str:
    lines = []
    for record in records:
        where = [record["net"], str(record["batch"])]
        if record["failure"]:
            lines.append([*where, record["failure"]["stage"], record["failure"]["message"]])
        lines += [[*where, name, why] for name, why in record.get("not_built", {}).items()]
        for row in record.get("rows", []):
            if row["status"] != "measured":
                lines.append([*where, row["name"], f"{row['status']}: {row['message']}"])
    return markdown_table(["net", "batch", "where", "why"], lines) if lines else "None.\n"


def _conditions(records: Sequence[Record]) -> str:
    """A line for all nets that were measured alike."""
    nets: dict[tuple[str, ...], dict[str, None]] = {}
    for record in records:
        told = record["conditions"]
        machine = f"{told['machine']['cpu']}, {told['threads']} threads"
        how = (machine, ", ".join(told["backends"]), str(told["rounds"]), _options(told["collage"]))
        how += (_logs(told), record["date"], told["commit"][:9])
        nets.setdefault(how, {})[record["net"]] = None
    head = ["nets", "machine", "backends", "rounds", "options", "tuning records", "day", "commit"]
    return markdown_table(head, [[", ".join(of), *how] for how, of in nets.items()])


def _logs(conditions: Record) -> str:
    given = [f"{name} {conditions[name]}" for name in LOGS if conditions.get(name)]
    return ", ".join(given) or "none"


def _options(settings: Sequence[Sequence[Any]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(settings)) or "the defaults"


def _parts(placement: Iterable[Record]) -> str:
    """e.g. "dnnl 3 parts (52 operators), tvm 4 operators"."""
    counts: dict[str, list[int]] = {}
    for row in placement:
        count = counts.setdefault(row["backend"], [0, 0])
        count[0] += row["parts"] or 0
        count[1] += row["operators"]
    texts = []
    for backend, (parts, operators) in counts.items():
        inside = f"{operators} operator{'s' * (operators != 1)}"
        many = f"{parts} part{'s' * (parts != 1)}"
        texts.append(f"{backend} {many} ({inside})" if parts else f"{backend} {inside}")
    return ", ".join(texts)


def _value(row: Record | None) -> str:
    return f"{row['over_single'][0]:.2f}" if row and row["over_single"] else "-"


def _short(plan: str | None) -> str:
    """A library's name without its column."""
    return plan.partition(" of ")[0] if plan else "-"
