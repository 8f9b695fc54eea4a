# SPDX-License-Identifier: Apache-2.0
"""The generated part of docs/zoo.md, from the records. What people wrote there stays.

Test: bench/test_zoo.py.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.tables import markdown_table

from .nets import NETS
from .record import best_of_ours

# Aims: of the best of ours beside the fastest peer, and of a library as a backend beside itself.
AIM, OWN_AIM = 0.97, 1 / 1.02
_KERNELS = 25
Records = Sequence[Mapping[str, Any]]


def tables(records: Records) -> str:
    """All that the records say, as Markdown."""
    if not records:
        return "No records.\n"
    parts = [conditions_text(records), summary_text(records)]
    by_depth: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        by_depth[record["depth"]].append(record)
    for depth, found in sorted(by_depth.items(), reverse=True):
        parts += [f"### Depth {depth}\n", latency_table(found)]
    parts += ["### Failures\n", failure_table(records)]
    parts += ["### Slow kernels\n", kernel_table(records)]
    return "\n".join(parts) + "\n"


def conditions_text(records: Records) -> str:
    """Machines, versions and days that occur, each once."""

    def all_of(text: Callable[[Mapping[str, Any]], str]) -> str:
        return "; ".join(sorted({text(record) for record in records}))

    def versions(record: Mapping[str, Any]) -> str:
        found = dict(record["conditions"]["versions"])
        found.pop("collage", None)  # the commit says it
        return ", ".join(f"{name} {version}" for name, version in sorted(found.items()))

    def machine(record: Mapping[str, Any]) -> str:
        conditions = record["conditions"]
        return f"{conditions['machine']['cpu']}, {conditions['threads']} threads"

    lines = [
        f"- Machines: {all_of(machine)}.",
        f"- Versions: {all_of(versions)}.",
        f"- Commits: {all_of(lambda record: record['conditions']['commit'])}.",
        f"- Days: {all_of(lambda record: record['date'])}.",
    ]
    return "\n".join(lines) + "\n"


def summary_text(records: Records) -> str:
    """How many ran, the geometric mean, and how many reach the aims: of ratios that are known."""
    bests = [(best, record) for record in records if (best := best_of_ours(record))]
    by_machine: dict[str, list[float]] = defaultdict(list)
    for best, record in bests:
        if _is_known(best["ratio"]):
            by_machine[record["conditions"]["machine"]["cpu"]].append(best["ratio"][0])
    ratios = [ratio for each in by_machine.values() for ratio in each]
    failed = sum(record["failure"] is not None for record in records)
    nets = {record["net"] for record in records}
    lines = [
        f"- {len(records)} records of {len(nets)} nets (the table has {len(NETS)}); "
        f"{failed} ended early."
    ]
    if ratios:
        lines.append(
            f"- Best of ours beside the fastest peer: {_ratios_text(ratios)}, "
            f"the most {max(ratios):.2f}."
        )
        if len(by_machine) > 1:
            lines += [f"  - on {cpu}: {_ratios_text(each)}." for cpu, each in by_machine.items()]
    if len(ratios) < len(bests):
        lines.append(
            f"- {len(bests) - len(ratios)} more have a ratio whose interval has no end (`~` "
            "below): too few rounds, or too much other work. They say nothing and count nowhere."
        )
    noisy = sum(any(row.get("noisy") for row in record.get("rows", [])) for record in records)
    if noisy:
        lines.append(
            f"- In {noisy} of them other work took the cores while a contestant was measured: "
            "their ratios say little, failures and kernels stand."
        )
    quickest = [found[0] for found in map(quickest_runs, records) if found]
    if quickest:
        lines.append(
            "- The same by the quickest run of each, which other work disturbs least: "
            f"{_ratios_text(quickest)}."
        )
    owns: dict[str, list[float]] = defaultdict(list)
    for record in records:
        for row in record.get("rows", []):
            if row.get("own") and _is_known(row["own"]):
                owns[row["name"]].append(row["own"][0])
    for name, values in sorted(owns.items()):
        reached = sum(value >= OWN_AIM for value in values)
        lines.append(
            f"- {name} beside the library itself on the original file: geometric mean "
            f"{statistics.geometric_mean(values):.3f} over {len(values)}; {reached} within 1.02."
        )
    return "\n".join(lines) + "\n"


def _ratios_text(ratios: Sequence[float]) -> str:
    reached = sum(ratio >= AIM for ratio in ratios)
    return (
        f"geometric mean {statistics.geometric_mean(ratios):.3f} over {len(ratios)}, of which "
        f"{reached} are at {AIM} or more; the least {min(ratios):.2f}"
    )


def quickest_runs(record: Mapping[str, Any]) -> tuple[float, str] | None:
    """The quickest run of any peer / that of the best of ours, and which that is; None without
    both."""
    runs = [row for row in record.get("rows", []) if row.get("fastest")]
    peers = [row["fastest"] for row in runs if row["is_peer"]]
    ours = [(row["fastest"], row["name"]) for row in runs if not row["is_peer"]]
    return (min(peers) / min(ours)[0], min(ours)[1]) if peers and ours else None


def latency_table(records: Records) -> str:
    """A row a net, size and batch, by family; times by the fastest peer's, above 1 is faster."""
    ours = sorted({row["name"] for r in records for row in r.get("rows", []) if not row["is_peer"]})
    head = ["family", "net", "size", "batch", "fastest peer, ms", *ours, "by quickest runs"]
    lines = []
    families = list(dict.fromkeys(row.family for row in NETS.values()))

    def order(record: Mapping[str, Any]) -> tuple[Any, ...]:
        family = _family(record)
        at = families.index(family) if family in families else len(families)
        return (at, record["net"], -record["size"], record["batch"])

    for record in sorted(records, key=order):
        rows = {row["name"]: row for row in record.get("rows", [])}
        peers = [row for row in rows.values() if row["is_peer"] and row.get("ms")]
        fastest = min(peers, key=lambda row: row["ms"], default=None)
        peer = f"{fastest['name']} {fastest['ms']:.3g}" if fastest else "-"
        size = str(record["size"] or "")
        cells = [_cell(rows.get(name)) for name in ours]
        names = [_family(record), record["net"], size, str(record["batch"]), peer]
        quickest = quickest_runs(record)
        cells.append(f"{quickest[0]:.2f} {quickest[1]}" if quickest else "")
        lines.append([*names, *cells])
    return markdown_table(head, lines)


def _is_known(ratio: Sequence[float | None]) -> bool:
    """Whether a ratio's interval has both ends: its median alone may be anything."""
    return None not in ratio


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    if row.get("ratio"):
        value = row["ratio"][0]
        if not _is_known(row["ratio"]):
            return f"~{value:.2g}"
        return f"{value:.2f}" if value >= AIM else f"**{value:.2f}**"
    return row["status"].replace("_", " ") if not row.get("ms") else f"{row['ms']:.3g} ms"


def failures_of(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where and why, of the trial and of each contestant that has no time."""
    found = []
    if record["failure"]:
        found.append((record["failure"]["stage"], record["failure"]["message"]))
    for row in record.get("rows", []):
        if row["status"] != "measured" and not row.get("ms"):
            found.append((row["name"], f"{row['status']}: {row['message']}"))
    return found


def failure_table(records: Records) -> str:
    """Equal failures in one row, with the nets."""
    nets: dict[tuple[str, str], list[str]] = defaultdict(list)
    for record in records:
        for where, why in failures_of(record):
            nets[where, why].append(record["net"])
    if not nets:
        return "None.\n"
    lines = []
    for (where, why), names in sorted(nets.items(), key=lambda item: (-len(item[1]), item[0])):
        text = why if len(why) < 240 else f"{why[:237]}..."
        lines.append([where, text, ", ".join(dict.fromkeys(names))])
    return markdown_table(["where", "why", "nets"], lines)


def kernel_table(records: Records) -> str:
    """Kernels that are a reference or far off the roofline, by the nets where they take most."""
    groups: dict[tuple[str, str], list[tuple[Mapping[str, Any], str]]] = defaultdict(list)
    for record in records:
        for kernel in record.get("slow", []):
            if "share" in kernel:
                groups[kernel["backend"], kernel["kernel"]].append((kernel, record["net"]))
    if not groups:
        return "None.\n"
    head = ["backend", "kernel", "nets", "largest share", "there", "calls", "ms", "off", "shapes"]
    lines = []
    ranked = sorted(groups.items(), key=lambda item: -sum(each["share"] for each, _ in item[1]))
    for (backend, name), found in ranked[:_KERNELS]:
        worst, net = max(found, key=lambda pair: pair[0]["share"])
        off = f"{worst['off']:g}" if worst["off"] else "-"
        marked = f"**{name}**" if worst["is_reference"] else name
        nets = len({each for _, each in found})
        cells = [backend, marked, str(nets), f"{100 * worst['share']:.0f} %", net]
        lines.append([*cells, str(worst["count"]), f"{worst['ms']:.3g}", off, worst["shapes"]])
    return markdown_table(head, lines)


def _family(record: Mapping[str, Any]) -> str:
    row = NETS.get(record["net"])
    return row.family if row else "-"
