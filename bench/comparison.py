#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How Collage's backends stand beside onnxruntime and OpenVINO: tables from docs/zoo.jsonl.

    python bench/comparison.py            # prints both tables
    python bench/comparison.py --write    # writes them into docs/comparison.md and README.md

Nothing is measured: bench/zoo.py makes the records. A ratio is the library's time over the time of
the fastest of our backends in the same rounds, so above 1 ours is faster. Test:
bench/test_comparison.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from architectures import record
from architectures.nets import NETS
from architectures.trial import SECONDS
from harness import arguments, records
from harness.tables import markdown_table, with_part

RECORDS = arguments.ROOT / "docs/zoo.jsonl"
PAGES = {"docs/comparison.md": "comparison", "README.md": "summary"}
BEGIN, END = "<!-- comparison: begin -->\n", "<!-- comparison: end -->\n"
LIBRARIES = ("onnxruntime", "openvino")
FASTEST = "the faster of the two"
# Two processes that run the same differ by so much.
_LEVEL = 0.97
Record = Mapping[str, Any]
Ratios = dict[str, float]


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the tables into the pages")
    parser.add_argument("--record", type=Path, default=RECORDS, help="records of bench/zoo.py")
    options = parser.parse_args(given)
    try:
        found = list(records.load(options.record, record.KEY).values())
        texts = {"comparison": comparison(found), "summary": summary(found)}
        for page, part in PAGES.items():
            if options.write:
                file = arguments.ROOT / page
                file.write_text(with_part(file.read_text(), BEGIN, END, texts[part]))
            else:
                print(texts[part])
    except (OSError, ValueError) as error:
        print(f"comparison: {error}", file=sys.stderr)
        return 1
    return 0


def ratios_of(one: Record) -> Ratios:
    """Library -> its time / the time of our fastest backend; none where one of the ratios is not
    there, or its interval has no end: its median may then be anything."""
    best = record.best_of_ours(one)
    peers = {row["name"]: row.get("ratio") for row in one.get("rows", []) if row["is_peer"]}
    wanted = [best and best["ratio"], *(peers.get(name) for name in LIBRARIES)]
    if one["depth"] != SECONDS or any(ratio is None or None in ratio for ratio in wanted):
        return {}
    ours, *theirs = [ratio[0] for ratio in wanted]
    return {name: ours / ratio for name, ratio in zip(LIBRARIES, theirs)} | {FASTEST: ours}


def summary(found: Sequence[Record]) -> str:
    """One line a library, over all nets of the newest machine: for README.md."""
    machine = _newest_machine(found)
    here = [one for one in found if _machine(one) == machine]
    lines = [[name, *_figures(_column(here, name))] for name in (*LIBRARIES, FASTEST)]
    head = ["library", "models", "geometric mean", "least", "most", "Collage is level or faster on"]
    days = " and ".join(sorted({one["date"] for one in here}))
    noisy = sum(any(row.get("noisy") for row in one["rows"]) for one in here)
    unknown = sum(not ratios_of(one) for one in here)
    return (
        f"{markdown_table(head, lines)}\nMeasured on {machine}, on {days}. {_LEVEL} or more counts "
        f"as level: two runs of the same program differ by so much. Of the {len(here)} models "
        f"{unknown} are left out, since no ratio could be measured for them. While {noisy} were "
        "measured, other programs used the processor too.\n"
    )


def comparison(found: Sequence[Record]) -> str:
    """A table a machine, by family of nets: for docs/comparison.md."""
    parts = []
    for machine in sorted({_machine(one) for one in found}):
        families: dict[str, list[Record]] = defaultdict(list)
        for one in found:
            if _machine(one) == machine and ratios_of(one):
                families[NETS[one["net"]].family].append(one)
        order = [row.family for row in NETS.values()]
        lines = [
            [family, str(len(families[family])), *map(_interval, _columns(families[family]))]
            for family in dict.fromkeys(order)
            if family in families
        ]
        everything = [one for ones in families.values() for one in ones]
        lines.append(["**all**", str(len(everything)), *map(_interval, _columns(everything))])
        head = ["family", "records", *(f"beside {name}" for name in (*LIBRARIES, FASTEST))]
        parts.append(f"## {machine}\n\n{markdown_table(head, lines)}")
    noisy = sum(any(row.get("noisy") for row in one.get("rows", [])) for one in found)
    unknown = sum(not ratios_of(one) for one in found)
    parts.append(
        f"Of {len(found)} records, {noisy} were made while other work took a part of the "
        f"processor, which widens their intervals. {unknown} have no ratio that is known on both "
        "sides and count nowhere.\n"
    )
    return "\n".join(parts)


def _machine(one: Record) -> str:
    conditions = one["conditions"]
    return f"{conditions['machine']['cpu']}, {conditions['threads']} threads"


def _newest_machine(found: Sequence[Record]) -> str:
    if not found:
        raise ValueError("there are no records: bench/zoo.py makes them")
    return _machine(max(found, key=lambda one: one["date"]))


def _column(found: Sequence[Record], name: str) -> list[float]:
    return [ratios[name] for one in found if name in (ratios := ratios_of(one))]


def _columns(found: Sequence[Record]) -> list[list[float]]:
    return [_column(found, name) for name in (*LIBRARIES, FASTEST)]


def _figures(ratios: Sequence[float]) -> list[str]:
    level = sum(ratio >= _LEVEL for ratio in ratios)
    mean = f"{statistics.geometric_mean(ratios):.2f}"
    return [str(len(ratios)), mean, f"{min(ratios):.2f}", f"{max(ratios):.2f}", str(level)]


def _interval(ratios: Sequence[float]) -> str:
    """The geometric mean, and the least and the most."""
    if not ratios:
        return "-"
    return f"{statistics.geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    sys.exit(main())
