# SPDX-License-Identifier: Apache-2.0
"""Tell what schedules of other nets gain, beside the paper, from the records of bench/transfer.py.

Test: bench/test_transfer.py.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.records import origin
from harness.tables import markdown_table, milliseconds

# Speed-up over untuned and minutes of search on a Xeon E5-2620 (paper, table 4 and figure 5).
PAPER = {
    "resnet18": (1.20, 1.2),
    "resnet50": (1.16, 7.6),
    "alexnet": (4.6, 1.7),
    "vgg16": (1.19, 5.2),
    "mobilenetv2": (1.20, 1.8),
    "efficientnet_b0": (1.23, 12.0),
    "efficientnet_b4": (1.13, 13.0),
    "googlenet": (1.15, 8.8),
    "mnasnet": (1.26, 4.8),
    "bert": (59.0, 0.3),
    "mobilebert": (13.0, 0.3),
}
PAPERS_SHARE, PAPERS_RATIO = 0.49, 6.5


def tables(found: Sequence[Mapping[str, Any]]) -> str:
    """Return what was gained in which time, and beside the paper, by width of vectors."""
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for each in found:
        groups.setdefault(each["vector_bits"], []).append(each)
    return "\n".join(_table_of(bits, groups[bits]) for bits in sorted(groups))


def _table_of(vector_bits: int, found: Sequence[Mapping[str, Any]]) -> str:
    head = ["net", "untuned, ms", "transferred", "Ansor, same time", "Ansor, long", "share of gain"]
    head += ["Ansor matches after", "paper"]
    trials = ", ".join(
        f"{each['net']} {each['gain']['trials']['ansor']} trials for {each['kernels']} kernels"
        for each in found
    )
    outcomes: Counter[str] = Counter()
    for each in found:
        outcomes.update(each["outcomes"])
    ended = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
    return (
        f"### TVM for vectors of {vector_bits} bits\n\n{markdown_table(head, map(_row, found))}\n"
        "Speed-ups are over untuned TVM, whole nets, with 95 % intervals. "
        f"{origin(found)}. Ansor's long search: {trials}. "
        f"How the transfers' trials ended: {ended}. {_together(found)} In the paper transferring "
        f"reaches {100 * PAPERS_SHARE:.0f} % of the gain of Ansor's searches of 20,000 trials, and "
        f"Ansor needs {PAPERS_RATIO} times as long to match.\n"
    )


def _together(found: Sequence[Mapping[str, Any]]) -> str:
    """Return both ways' geometric means over the nets that have both. A mean of the nets' shares
    would be that of the net where Ansor gained least."""
    sides = [{side["name"]: side["speedup"] for side in each["gain"]["sides"]} for each in found]
    both = [each for each in sides if each.get("transferred") and each.get("ansor")]
    if not both:
        return "No net has both."
    moved, searched = (
        statistics.geometric_mean(each[name]["value"] for each in both)
        for name in ("transferred", "ansor")
    )
    return f"Geometric mean: transferred {moved:.2f}, Ansor's long search {searched:.2f}."


def _row(found: Mapping[str, Any]) -> list[str]:
    from tvm.relay.collage.cli.tt.gain import Gain, percent

    gain = Gain.from_json(found["gain"])
    sides = {side.name: side for side in gain.sides}

    def cell(name: str) -> str:
        side = sides.get(name)
        if side is None or side.speedup is None:
            return "-"
        return f"{side.speedup.Summary('.2f')} in {side.search_seconds:.0f} s"

    share, matching = gain.share_of_gain, gain.matching_seconds
    took = sides["transferred"].search_seconds
    paper = PAPER.get(found["net"])
    ratio = f" ({matching / took:.1f} times)" if matching is not None and took else ""
    return [
        found["net"],
        milliseconds(sides["untuned"].seconds),
        cell("transferred"),
        cell("ansor same time"),
        cell("ansor"),
        "-" if share is None else percent(share),
        "not in its log" if matching is None else f"{matching:.0f} s{ratio}",
        f"{paper[0]:g} in {60 * paper[1]:.0f} s" if paper else "-",
    ]
