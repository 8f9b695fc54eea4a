# SPDX-License-Identifier: Apache-2.0
"""A layered layout of a graph without cycles: boxes in layers, edges downward through bends.

The usual four steps: layers by longest paths, long edges as chains of bends, an order in each layer
by barycentres, places by least squares. A box's long edges share one chain. Preconditions: boxes
are numbered from 0; edges have no cycle. Test: report/picture/test_layout.py.
"""

from __future__ import annotations

import bisect
import dataclasses
import graphlib
import itertools
from collections.abc import Collection, Iterable, Sequence

from ..boxes import Box, BoxGraph

BOX_WIDTH = 248.0
_NAMED_WIDTH = 132.0  # of inputs and outputs
GAP = 28.0  # between boxes of a layer
BEND_WIDTH = 6.0
_BEND_GAP = 12.0
_ORDER_SWEEPS = 6
_PLACE_SWEEPS = 8
# How much an edge wants to be straight, by the number of its ends that are bends.
_PULL = (4.0, 1.0, 8.0)
_BOX_WEIGHT = 1e4  # bends make room for boxes


@dataclasses.dataclass(frozen=True)
class PictureLayout:
    """The places of boxes and bends: items, the boxes first."""

    layers: list[list[int]]  # items from left to right
    x: list[float]  # each item's middle
    widths: list[float]  # each item's
    routes: list[list[int]]  # for each edge that was given the bends on its way, downward

    @property
    def width(self) -> float:
        return max((x + w / 2 for x, w in zip(self.x, self.widths)), default=0.0)


def lay_out(
    widths: Sequence[float],
    edges: Sequence[tuple[int, int]],
    top: Collection[int] = (),
    bottom: Collection[int] = (),
) -> PictureLayout:
    """Place boxes of these widths; those of `top` stand in the first layer, those of `bottom` in
    the last, whatever is between them and their neighbours."""
    depth = _layers_of(len(widths), edges, top, bottom=bottom)
    bends = _Bends(depth, edges)
    all_widths = [*widths, *[BEND_WIDTH] * len(bends.layer)]
    depth = [*depth, *bends.layer]
    order = _ordered(depth, bends.links)
    x = _placed(order, all_widths, bends.links, boxes=len(widths))
    return PictureLayout(order, x, all_widths, routes=bends.routes)


def box_width(box: Box) -> float:
    """Return how wide the page has a box, and a picture at least."""
    return _NAMED_WIDTH if box.is_named else BOX_WIDTH


def lay_out_boxes(graph: BoxGraph, widths: Sequence[float] | None = None) -> PictureLayout:
    """Place the boxes, which are as wide as given, or as the page has them; edges in the graph's
    order."""
    widths = widths or [box_width(box) for box in graph.boxes]
    return lay_out(widths, [(edge.source, edge.target) for edge in graph.edges])


def _layers_of(
    count: int, edges: Sequence[tuple[int, int]], top: Collection[int], bottom: Collection[int]
) -> list[int]:
    """Return the longest path to each box; what nothing leads to stands right above its first
    reader."""
    after, before = _neighbours(count, edges)
    depth = [0] * count
    for box in graphlib.TopologicalSorter(dict(enumerate(before))).static_order():
        depth[box] = max((depth[source] + 1 for source in before[box]), default=0)
    last = max(depth, default=0)
    for box in range(count):
        if box in bottom:
            depth[box] = last
        elif not before[box] and after[box] and box not in top:
            depth[box] = min(depth[reader] for reader in after[box]) - 1
    return depth


def _neighbours(
    count: int, edges: Iterable[tuple[int, int]]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return what each item leads to, and what leads to it."""
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        after[source].append(target)
        before[target].append(source)
    return after, before


class _Bends:
    """The bends of long edges."""

    def __init__(self, depth: Sequence[int], edges: Sequence[tuple[int, int]]) -> None:
        self.layer: list[int] = []  # of each bend
        self.routes: list[list[int]] = []
        links: dict[tuple[int, int], None] = {}
        chains: dict[int, list[int]] = {}
        for source, target in edges:
            chain = chains.setdefault(source, [])
            span = depth[target] - depth[source]
            while len(chain) < span - 1:
                chain.append(len(depth) + len(self.layer))
                self.layer.append(depth[source] + len(chain))
            route = chain[: span - 1]
            self.routes.append(route)
            links.update(dict.fromkeys(itertools.pairwise([source, *route, target])))
        self.links = list(links)  # edges between items of neighbouring layers, each once


def _ordered(depth: Sequence[int], links: list[tuple[int, int]]) -> list[list[int]]:
    """Return items of each layer from left to right, with few crossings."""
    after, before = _neighbours(len(depth), links)
    layers = _by_depth_first(depth, after, before)
    best, fewest = [list(layer) for layer in layers], _crossings(layers, after)
    for sweep in range(_ORDER_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        near = before if down else after
        place = {item: i for layer in layers for i, item in enumerate(layer)}
        for layer in layers if down else reversed(layers):
            middle = {
                item: sum(place[other] for other in near[item]) / len(near[item])
                if near[item]
                else place[item]
                for item in layer
            }
            layer.sort(key=middle.__getitem__)
            place.update((item, i) for i, item in enumerate(layer))
        crossings = _crossings(layers, after)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    return best


def _by_depth_first(
    depth: Sequence[int], after: list[list[int]], before: list[list[int]]
) -> list[list[int]]:
    """Return each layer in the order in which a walk from the inputs, depth first, comes by."""
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    seen = [False] * len(depth)
    for start in range(len(depth)):
        stack = [start] if not before[start] else []
        while stack:
            item = stack.pop()
            if not seen[item]:
                seen[item] = True
                layers[depth[item]].append(item)
                stack += reversed(after[item])
    return layers


def _crossings(layers: list[list[int]], after: list[list[int]]) -> int:
    """Count the pairs of links that cross."""
    total = 0
    for layer, below in itertools.pairwise(layers):
        place = {item: i for i, item in enumerate(below)}
        seen: list[int] = []  # where links of the items before end, sorted
        for item in layer:
            ends = [place[other] for other in after[item]]
            total += sum(len(seen) - bisect.bisect_right(seen, end) for end in ends)
            seen = sorted([*seen, *ends])
    return total


def _placed(
    layers: list[list[int]], widths: Sequence[float], links: list[tuple[int, int]], boxes: int
) -> list[float]:
    """Return the middle of each item: near its neighbours', no two of a layer too close."""
    near: list[list[list[tuple[int, float]]]] = [[[] for _ in widths] for _ in range(2)]
    for source, target in links:
        pull = _PULL[(source >= boxes) + (target >= boxes)]
        near[0][target].append((source, pull))
        near[1][source].append((target, pull))
    x = [0.0] * len(widths)
    offsets = [_offsets(layer, widths, boxes) for layer in layers]
    for layer, offset in zip(layers, offsets):
        middle = offset[-1] / 2
        for item, place in zip(layer, offset):
            x[item] = place - middle
    for sweep in range(_PLACE_SWEEPS + 1):
        sides = near[:1] if sweep % 2 == 0 else near[1:]
        if sweep == _PLACE_SWEEPS:
            sides = near
        order = range(len(layers)) if sweep % 2 == 0 else reversed(range(len(layers)))
        for k in order:
            wanted, weights = [], []
            for item in layers[k]:
                pulls = [pull for side in sides for pull in side[item]]
                wanted.append(_median([(x[other], pull) for other, pull in pulls], x[item]))
                weight = sum(pull for _, pull in pulls) or 0.1
                weights.append(weight if item >= boxes else _BOX_WEIGHT * weight)
            for item, place in zip(layers[k], _spread(wanted, weights, offsets[k])):
                x[item] = place
    left = min((place - width / 2 for place, width in zip(x, widths)), default=0.0)
    return [place - left for place in x]


def _median(places: list[tuple[float, float]], usual: float) -> float:
    """Return the weighted median, so that what most want is had exactly: a trunk is straight."""
    if not places:
        return usual
    half = sum(weight for _, weight in places) / 2
    passed = 0.0
    places.sort()
    for k, (place, weight) in enumerate(places):
        passed += weight
        if passed > half:
            return place
        if passed == half:
            return (place + places[k + 1][0]) / 2
    return places[-1][0]


def _offsets(layer: Sequence[int], widths: Sequence[float], boxes: int) -> list[float]:
    """Return the middles of a layer's items packed as closely as may be, the first at 0."""
    places = [0.0]
    for one, two in itertools.pairwise(layer):
        gap = GAP if one < boxes and two < boxes else _BEND_GAP
        places.append(places[-1] + (widths[one] + widths[two]) / 2 + gap)
    return places


def _spread(wanted: list[float], weights: list[float], offsets: list[float]) -> list[float]:
    """Return the places nearest to those wanted, by weighted squares, that are as far apart as
    `offsets` at least: what is too close is pooled (isotonic regression)."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for want, weight, offset in zip(wanted, weights, offsets):
        mean, count = want - offset, 1
        while pools and pools[-1][0] > mean:
            other, other_weight, other_count = pools.pop()
            mean = (mean * weight + other * other_weight) / (weight + other_weight)
            weight += other_weight
            count += other_count
        pools.append((mean, weight, count))
    means = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets)]
