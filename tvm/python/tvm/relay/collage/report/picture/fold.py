# SPDX-License-Identifier: Apache-2.0
"""A plan's boxes folded into few, so that people can read the picture of a large net.

Boxes that run one after the other become one: time and again the two neighbours that together take
the least, until there are few enough. Boxes are in an order in which each comes after what it
reads, and what is folded is a run of that order, so that edges among folded boxes still lead to
later ones and have no cycle. Test: report/picture/test_fold.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tvm_collage.words import MOST_BOXES

from ..boxes import Box, BoxGraph, Edge
from ..facts import grouped
from ..net import Net

_FEWEST_INPUTS = 4


@dataclasses.dataclass(frozen=True)
class Fold(Box):
    """Several parts, or several inputs, as one box. Its backend and precision are "" where its
    parts have several, its type "" where others read what several of them give, its seconds the sum
    of those that are known."""

    boxes: tuple[Box, ...] = ()  # that it holds

    @property
    def count(self) -> str:
        """Say how many parts it has, and of how many of them its time is."""
        known = sum(box.seconds is not None for box in self.boxes)
        total = len(self.boxes)
        return f"{known} of {total} parts measured" if 0 < known < total else f"{total} parts"

    def by_backend(self) -> dict[str, list[Box]]:
        """Return its parts, those of the backend with the most time first."""
        found = grouped(self.boxes, lambda box: box.backend).items()
        return dict(sorted(found, key=lambda item: (-_seconds(item[1]), -len(item[1]))))


def fold(graph: BoxGraph, net: Net, most: int = MOST_BOXES) -> BoxGraph:
    """Return the graph with at most so many boxes of parts; inputs have the boxes that parts leave,
    and four at least. The graph itself where nothing is folded."""
    order = graph.order()
    inputs = [k for k in order if graph.boxes[k].kind == "input"]
    parts = [k for k in order if graph.boxes[k].kind in ("part", "rest")]
    outputs = [k for k in order if graph.boxes[k].kind == "output"]
    room = max(_FEWEST_INPUTS, most - len(parts))
    if len(inputs) <= room and len(parts) <= most:
        return graph
    runs = [
        *_runs(graph.boxes, inputs, room),
        *_runs(graph.boxes, parts, most),
        *([k] for k in outputs),
    ]
    place = {k: at for at, run in enumerate(runs) for k in run}
    values: dict[tuple[int, int], dict[int, None]] = {}
    for edge in graph.edges:
        pair = place[edge.source], place[edge.target]
        if pair[0] != pair[1]:
            values.setdefault(pair, {}).update(dict.fromkeys(edge.values))
    edges = [Edge(*pair, tuple(found)) for pair, found in values.items()]
    read = {edge.source for edge in graph.edges if place[edge.source] != place[edge.target]}
    boxes = []
    for run in runs:
        gives = [graph.boxes[k].type for k in run if k in read]
        boxes.append(_one([graph.boxes[k] for k in run], net, gives[0] if len(gives) == 1 else ""))
    return BoxGraph(boxes, edges)


def _runs(boxes: Sequence[Box], order: Sequence[int], most: int) -> list[list[int]]:
    """Return at most so many runs of the order. Of pairs that take equally long, such as what
    nobody measured, the one of the fewest boxes is folded first."""
    runs = [[k] for k in order]
    sizes = [(boxes[k].seconds or 0.0, 1) for k in order]
    while len(runs) > most:
        pairs = [(a + b, m + n) for (a, m), (b, n) in zip(sizes, sizes[1:])]
        at = pairs.index(min(pairs))
        runs[at : at + 2] = [runs[at] + runs[at + 1]]
        sizes[at : at + 2] = [pairs[at]]
    return runs


def _one(boxes: Sequence[Box], net: Net, gives: str) -> Box:
    """Return what boxes that are folded look like; `gives`: the type of what others read of
    them."""
    if len(boxes) == 1:
        return boxes[0]
    nodes = tuple(node for box in boxes for node in box.nodes)
    is_input = boxes[0].kind == "input"
    backends = {box.backend for box in boxes}
    precisions = {box.precision for box in boxes}
    return Fold(
        kind=boxes[0].kind if is_input else "part",
        backend=backends.pop() if len(backends) == 1 else "",
        nodes=nodes,
        label=f"{len(boxes)} inputs" if is_input else net.label(nodes),
        type=gives,
        seconds=_seconds(boxes) if any(box.seconds is not None for box in boxes) else None,
        flags=tuple(dict.fromkeys(flag for box in boxes for flag in box.flags)),
        precision=precisions.pop() if len(precisions) == 1 else "",
        boxes=tuple(boxes),
    )


def _seconds(boxes: Sequence[Box]) -> float:
    return sum(box.seconds or 0.0 for box in boxes)
