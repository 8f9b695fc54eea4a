# SPDX-License-Identifier: Apache-2.0
"""A plan's boxes with their places, and the operators inside each box with theirs, as JSON values:
what the page draws. Test: report/html/test_arranged.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from typing import Any

from ..boxes import Box, BoxGraph, box_graph, functions_of, graph_of, plan_names
from ..facts import grouped, shape_text, share_text, sum_remark, time_text, time_together
from ..net import Net, short_name
from ..picture.layout import PictureLayout, lay_out, lay_out_boxes
from ..record import Report, SearchedFunction
from .page import counted

_OPERATOR_WIDTH = 156.0
_PORT_WIDTH = 2.0
_MOST_PLANS = 16  # half a megabyte each, of a net of 2,000 operators


def arrange(report: Report, first: str | None = None) -> list[dict[str, Any]]:
    """Return for each function that can be drawn its name, the graph of each plan of `page_plans`,
    and the insides of boxes, which plans share."""
    plans = page_plans(report, first)
    return [_function(report, function, plans) for function in functions_of(report)]


def page_plans(report: Report, first: str | None = None) -> list[str]:
    """Return the plans that a page holds: `first`, those that were compared end to end, and of
    those that a search of whole plans tried the fastest, as many as a page may have."""
    trials = report.graph_search.trials if report.graph_search else ()
    seconds = {row.name: row.seconds or math.inf for row in trials}
    names = sorted(plan_names(report), key=lambda name: (name != first, seconds.get(name, 0.0)))
    compared = [name for name in names if name not in seconds or name == first]
    tried = [name for name in names if name not in compared]
    return [*compared, *tried[: max(0, _MOST_PLANS - len(compared))]]


def _function(report: Report, function: SearchedFunction, names: list[str]) -> dict[str, Any]:
    net = Net(graph_of(function))
    insides = _Insides(net)
    plans = {}
    for name in names:
        graph = box_graph(report, function, name)
        layout = lay_out_boxes(graph)
        plans[name] = {
            "boxes": [
                {**_box(box, graph), "inside": insides.place(graph, k)}
                for k, box in enumerate(graph.boxes)
            ],
            "edges": [
                {**vars(edge), "bends": bends} for edge, bends in zip(graph.edges, layout.routes)
            ],
            **_places(layout),
            "backends": _backends(graph),
            "time_note": _time_note(report, name, graph),
        }
    return {
        "function": function.function,
        "nodes": _nodes(net),
        "plans": plans,
        "insides": insides.found,
    }


def _box(box: Box, graph: BoxGraph) -> dict[str, Any]:
    """Return a box with what is said of it; `plain` is its time without what makes it doubtful."""
    return {
        **dataclasses.asdict(box),
        "time": box.time,
        "plain": time_text(box.seconds, ()),
        "share": _share((box.seconds or 0.0) / (graph.seconds or 1.0)),
        "shape": shape_text(box.type, "×"),
    }


def _backends(graph: BoxGraph) -> list[dict[str, Any]]:
    """Return the backends that have parts, the one with the most time first, each with its boxes,
    the dearest first."""
    rows = []
    parts = [k for k, box in enumerate(graph.boxes) if box.backend]
    for backend, boxes in grouped(parts, lambda k: graph.boxes[k].backend).items():
        seconds = sum(graph.boxes[k].seconds or 0.0 for k in boxes)
        share = _share(seconds / (graph.seconds or 1.0)) if seconds else ""
        rows.append(
            {
                "backend": backend,
                "seconds": seconds,
                "share": share,
                "words": ", ".join(filter(None, (counted(len(boxes), "part"), share))),
                "boxes": sorted(boxes, key=lambda k: -(graph.boxes[k].seconds or 0.0)),
            }
        )
    return sorted(rows, key=lambda row: -row["seconds"])


def _share(share: float) -> str:
    """Return as 54 %, or 4.3 % where that is little."""
    text = f"{share:.0%}" if share >= 0.0995 else share_text(share)
    return text.replace("%", " %")


def _time_note(report: Report, plan: str, graph: BoxGraph) -> str:
    parts = [box for box in graph.boxes if box.backend]
    timed = [box for box in parts if box.seconds]
    if not timed:
        return "No part of this plan has a time of its own."
    unknown = sum(box.seconds is None for box in parts)
    left = f"; {unknown} more have no time of their own" if unknown else ""
    return (
        f"{counted(len(timed), 'part')}, measured alone: {time_together(timed)} in all{left}. The "
        f"whole is measured end to end above. {sum_remark(report, plan, parts)}"
    )


def _nodes(net: Net) -> dict[int, dict[str, Any]]:
    """Return what is said of variables and operators, with the operators that operators read and
    are read by."""
    found: dict[int, dict[str, Any]] = {}
    for index, node in net.nodes.items():
        if net.is_shown(index) or node.kind == "var":
            found[index] = {"short": short_name(node), "shape": shape_text(node.type, "×")}
        if net.is_shown(index):
            links = {"reads": net.sources(index), "readers": net.readers.get(index, [])}
            found[index].update(links)
    return found


class _Insides:
    """The graphs in boxes of several operators. The items of each are the operators, then the
    values that come in, then those that go out."""

    def __init__(self, net: Net) -> None:
        self._net = net
        self._place_of: dict[tuple[tuple[int, ...], ...], int] = {}
        self.found: list[dict[str, Any]] = []  # of each distinct box

    def place(self, graph: BoxGraph, k: int) -> int | None:
        """Return where the inside of box k stands in `found`; None for one operator alone."""
        nodes = graph.boxes[k].nodes
        if len(nodes) < 2:
            return None
        comes = (edge.values for edge in graph.edges if edge.target == k)
        goes = (edge.values for edge in graph.edges if edge.source == k)
        key = (nodes, _each_once(comes), _each_once(goes))
        if key not in self._place_of:
            self._place_of[key] = len(self.found)
            self.found.append(self._inside(*key))
        return self._place_of[key]

    def _inside(
        self, nodes: tuple[int, ...], comes: tuple[int, ...], goes: tuple[int, ...]
    ) -> dict[str, Any]:
        item_of = {node: k for k, node in enumerate(nodes)}
        first_in, first_out = len(nodes), len(nodes) + len(comes)
        source_of = {**item_of, **{value: first_in + k for k, value in enumerate(comes)}}
        edges = [
            (source_of[value], item_of[node])
            for node in nodes
            for value in self._net.sources(node)
            if value in source_of
        ]
        edges += [(item_of[value], first_out + k) for k, value in enumerate(goes)]
        widths = [_OPERATOR_WIDTH] * len(nodes) + [_PORT_WIDTH] * (len(comes) + len(goes))
        outs = range(first_out, len(widths))
        layout = lay_out(widths, edges, top=range(first_in, first_out), bottom=outs)
        return {
            "nodes": nodes,
            "comes": comes,
            "goes": goes,
            "edges": [
                {"source": source, "target": target, "bends": bends}
                for (source, target), bends in zip(edges, layout.routes)
            ],
            **_places(layout),
        }


def _each_once(values: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(itertools.chain.from_iterable(values)))


def _places(layout: PictureLayout) -> dict[str, Any]:
    return {
        "layers": layout.layers,
        "x": [round(x, 1) for x in layout.x],
        "widths": layout.widths,
    }
