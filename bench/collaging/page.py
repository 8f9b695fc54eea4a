# SPDX-License-Identifier: Apache-2.0
"""The generated part of docs/collaging.md, from the records. What people wrote there stays.

A record is a net and batch with what columns.trial told of it. Test: bench/test_ablation.py.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.tables import interval_text, markdown_table

# Where nets are from. What is aimed at is about the nets of two lists; one that somebody named
# beside them has its rows, and is in no mean.
PEERS, ZOO, NAMED = "the peers' benchmark", "the zoo", "those named"
# Columns that a record has only where tuning records for its net were given.
LOGS = ("tuned", "transferred")
RECORDED = tuple(f"tvm-{name}" for name in LOGS)
# The aims: the least lower bound of a net, how many nets ship a mix (own kernels counted), the
# geometric means over a base, the seconds of a net's cold search to the op-level plan, and those of
# a whole plan that is tried after the first.
LEAST = 0.97
_LEAST_MIXES = {PEERS: 8, ZOO: 10}
_LEAST_MEANS = {"over_single": 1.08, "over_peer": 1.20}
_MOST_SECONDS = {"resnet50": 60, "efficientnet_b0": 120}
_MOST_LATER_SECONDS = {"resnet50": 3}
# The phases that end with the op-level plan.
_PHASES = ("prepare", "kernels", "partition")
_ALL = "all"
_TWO_SIDED_95 = statistics.NormalDist().inv_cdf(0.975)
# What the plan that ships is compared with; the oldest records lack the second.
_BASES = {
    "over_single": "the best single backend",
    "over_without_own_kernels": "the best single backend without own kernels",
    "over_peer": "the fastest peer",
}
Record = Mapping[str, Any]
Ratio = Sequence[float | None]


def tables(records: Sequence[Record]) -> str:
    """All that the records say, as Markdown."""
    if not records:
        return "No records.\n"
    order = sorted(records, key=lambda record: (record["batch"], record["from"], record["net"]))
    done = [record for record in order if not record["failure"]]
    parts = ["### In short\n", _aims(done), _gains(done)]
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
    """Records of the lists by batch, all of them and by list, each with its first cells."""
    groups: dict[tuple[int, str], list[Record]] = {}
    for record in _of_lists(records):
        for source in (_ALL, record["from"]):
            groups.setdefault((record["batch"], source), []).append(record)
    return [([source, str(batch)], groups[batch, source]) for batch, source in sorted(groups)]


def _of_lists(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record["from"] != NAMED]


def _aims(records: Sequence[Record]) -> str:
    head = ["nets of", "batch", "what", "aim", "reached", "nets"]
    lines = []
    for cells, group in _groups(records):
        rows = _aims_of_all(group) if cells[0] == _ALL else _aims_of_mixes(cells[0], group)
        lines += [[*cells, *row] for row in rows]
    by_net = {record["net"]: record for record in records if record["batch"] == 1}
    if any(record["from"] == PEERS for record in by_net.values()):
        lines += [["-", "1", *row] for row in _aims_of_searches(by_net)]
    return markdown_table(head, lines)


def _aims_of_all(records: Sequence[Record]) -> Iterator[list[str]]:
    for field, least in _LEAST_MEANS.items():
        base = _BASES[field]
        ratios = _ratios(records, field)
        if found := mean(ratios):
            *interval, count = found
            reached = [interval_text(interval), str(count)]
            yield [f"geometric mean over {base}", f"at least {least:.2f}", *reached]
        count = str(len(ratios))
        yield [f"upper bound over {base} below 1.00", "on none", f"on {_slower(ratios)}", count]
        what = f"lower bound over {base} at {LEAST} or more"
        yield [what, "on all", f"on {_lows(ratios)}", count]


def _aims_of_searches(by_net: Mapping[str, Record]) -> Iterator[list[str]]:
    for net, most in _MOST_SECONDS.items():
        reached = f"{sum(_op_level_seconds(by_net[net])):.0f}" if net in by_net else None
        yield _aim_of(net, "to the op-level plan", most, reached)
    for net, most in _MOST_LATER_SECONDS.items():
        yield _aim_of(net, "of a later whole plan", most, _later(by_net.get(net)))


def _aim_of(net: str, what: str, most: float, reached: str | None) -> list[str]:
    line = [f"seconds {what} of {net}", f"at most {most}"]
    return [*line, "not measured", "0"] if reached is None else [*line, reached, "1"]


def _aims_of_mixes(source: str, records: Sequence[Record]) -> Iterator[list[str]]:
    mixes, own, count = _count_mixes(records), _count_mixes(records, own_kernels=True), len(records)
    aim = f"on at least {_LEAST_MIXES[source]}"
    yield ["a mix ships, own kernels counted", aim, f"on {own}", str(count)]
    yield ["a mix ships, own kernels not counted", "-", f"on {mixes}", str(count)]


def _gains(records: Sequence[Record]) -> str:
    head = ["nets of", "batch", "over", "nets", "geometric mean"]
    head += [f"lower bound at {LEAST} or more", "surely slower"]
    lines = []
    for cells, group in _groups(records):
        for field, base in _BASES.items():
            ratios = _ratios(group, field)
            if found := mean(ratios):
                *interval, count = found
                numbers = [str(count), interval_text(interval), _lows(ratios), _slower(ratios)]
                lines.append([*cells, base, *numbers])
    return markdown_table(head, lines)


def _count_mixes(records: Sequence[Record], *, own_kernels: bool = False) -> int:
    """How many ship a mix; a kernel of ours is a backend where own kernels are counted."""
    return sum(is_mix(r) or (own_kernels and r["own_kernels"] > 0) for r in records)


def _ratios(records: Sequence[Record], field: str) -> list[Ratio]:
    """Of what ships to a base, where that was measured."""
    return [r["shipped"][field] for r in records if r["shipped"].get(field)]


def _lows(ratios: Sequence[Ratio]) -> str:
    return str(sum(low is not None and low >= LEAST for _, low, _ in ratios))


def _slower(ratios: Sequence[Ratio]) -> str:
    return str(sum(high is not None and high < 1 for _, _, high in ratios))


def _shipped(records: Sequence[Record]) -> str:
    head = ["net", "batch", "ms", "what ships", "parts by backend", "mix", "own kernels"]
    head += ["best single", "over it", "best without own kernels", "over it"]
    head += ["fastest peer", "over it"]
    lines = []
    for record in records:
        rows = {row["name"]: row for row in record["rows"]}
        shipped = record["shipped"]
        row = rows.get(shipped["plan"]) or {}
        time = row.get("seconds")
        text = f"{1e3 * time:.3g}{' (noisy)' if row['noisy'] else ''}" if time else "-"
        cells = [record["net"], str(record["batch"]), text]
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
    return markdown_table(head, [*lines, *_means(_of_lists(records), names)])


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
    head = ["net", "batch", *_PHASES, "seconds to the op-level plan", "guard"]
    head += ["search of whole plans", "whole plans tried", "seconds of a later one"]
    head += ["candidates", "asked for", "columns: seconds", "costs that they added"]
    lines = []
    for record in records:
        to_op_level, phases = _op_level_seconds(record), record["phases"]
        seconds = [*to_op_level, sum(to_op_level)]
        seconds += [phases.get(name, 0) for name in ("guard", "graph search")]
        cells = [f"{each:.0f}" for each in seconds]
        whole = record.get("whole_plans") or {}
        cells += [str(whole.get("tried", "-")), _later(record) or "-"]
        cells += [str(record["candidates"]), str(record["asked"])]
        spent = record["columns_spent"]
        cells += [f"{sum(each['seconds'] for each in spent):.0f}"]
        cells += [str(sum(each["new"] for each in spent))]
        lines.append([record["net"], str(record["batch"]), *cells])
    return markdown_table(head, lines)


def _later(record: Record | None) -> str | None:
    """Seconds of a whole plan after the first batch of them, if there were any."""
    later = ((record or {}).get("whole_plans") or {}).get("later_seconds")
    return None if later is None else f"{later:.1f}"


def _op_level_seconds(record: Record) -> list[float]:
    """Of each phase up to the op-level plan."""
    return [record["phases"].get(name, 0) for name in _PHASES]


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
    given = dict(settings)  # of two for one option the last holds
    return ", ".join(f"{name} {value}" for name, value in sorted(given.items())) or "the defaults"


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
