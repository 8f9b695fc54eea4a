# SPDX-License-Identifier: Apache-2.0
"""A placed graph on paper: each part with its backend, time, operators and shapes, or several parts
that were folded; a legend. What draws lines and texts is a Pen: SVG (svg.py) or PDF (pdf.py).
Test: report/picture/test_draw.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from typing import Protocol

from tvm_collage.words import MOST_BOXES

from ..boxes import Box, BoxGraph, box_graph, chosen, graph_of
from ..facts import plan_time, shape_text, share_text, sum_remark, time_text, time_together
from ..looks import Look, mixed, precision_look, report_looks
from ..net import Net, short_name
from ..record import Report
from .fold import Fold, fold
from .layout import box_width, lay_out_boxes

INK, MUTED, LINE, EDGE, PAPER = "#1a1e24", "#58616d", "#d0d6dd", "#98a2ae", "#ffffff"
_MARGIN, _LAYER_GAP = 28.0, 34.0
_HEAD, _ROW, _NAMED_HEIGHT = 42.0, 15.0, 28.0
_SIDES, _GAP = 28.0, 12.0  # beside the words of a box, and between its name and its time
_TITLE_HEIGHT, _LEGEND_HEIGHT, _LEGEND_ROW = 30.0, 34.0, 18.0
_LETTER = 6.3  # of small words, on average
# What a letter is wide on average, of a font of size 1; bold or not.
LETTERS = {False: 0.56, True: 0.66}
_MOST_WIDTH = 600.0  # of a box
_MOST_ROWS = 6
_TINT = 0.13


@dataclasses.dataclass(frozen=True)
class Area:
    """A rectangle, from the page's left top."""

    x: float
    y: float
    width: float
    height: float


@dataclasses.dataclass(frozen=True)
class Font:
    """The font of a text."""

    size: float
    colour: str = INK
    is_bold: bool = False


_TITLE, _HEAD_FONT = Font(17.0, is_bold=True), Font(12.0, is_bold=True)
_LEGEND, _REMARK = Font(12.0, MUTED), Font(11.0, MUTED)
_ROW_FONT, _SHAPE = Font(11.0), Font(10.0, MUTED)


class Pen(Protocol):
    """Draws on a page whose origin is at the left top."""

    def box(self, area: Area, fill: str, line: str, radius: float) -> None:
        """Draw a rectangle with round corners."""

    def band(self, area: Area, look: Look) -> None:
        """Fill an area with a backend's colour and pattern."""

    def curve(self, points: list[tuple[float, float]]) -> None:
        """Draw a smooth line through the points, downward."""

    def text(
        self,
        at: tuple[float, float],
        words: str,
        font: Font,
        *,
        anchor: str = "start",
        room: float | None = None,
    ) -> None:
        """Write a text whose start, middle or end is `at`; it is cut to `room`, where given."""


class Picture:
    """A plan of a function with the size of its page."""

    def __init__(
        self, report: Report, plan: str | None = None, name: str = "", boxes: int = MOST_BOXES
    ) -> None:
        """Draw a plan, or what ships; of the function `name`, or the largest. Its parts are folded
        into so many boxes at most, or have one each where that is 0. CollageError where the report
        has none."""
        function, plan = chosen(report, plan, name)
        whole = box_graph(report, function, plan)
        parts = [box for box in whole.boxes if box.backend]
        self.net = net = Net(graph_of(function))
        self.graph = graph = fold(whole, net, boxes) if boxes else whole
        widths = [_width(net, box, graph.seconds) for box in graph.boxes]
        self.layout = lay_out_boxes(graph, widths)
        self.title = _title(report, function.function, plan)
        self.looks = report_looks(report)
        precisions = sorted({box.precision for box in parts} - {""})
        self.looks |= {name: precision_look(name) for name in precisions}
        entries = _legend_entries(self.looks, parts)
        widest = max((_entry_width(words) for _, words in entries), default=0.0)
        titled = text_width(self.title, _TITLE.size, is_bold=True)
        room = max(self.layout.width, titled, widest, 480.0)
        self.width = room + 2 * _MARGIN  # of the page
        self.aside = (self.width - self.layout.width) / 2  # room at the left of the boxes
        self.legend = _in_rows(entries, room)  # backends and precisions, with what they have of it
        self.heights = [
            _NAMED_HEIGHT if box.is_named else _HEAD + _ROW * len(_rows(net, box)) + 4
            for box in graph.boxes
        ]
        items = len(self.layout.x)
        self.tops, self.bottoms = [0.0] * items, [0.0] * items  # of each item, and of its layer
        y = _MARGIN + _TITLE_HEIGHT + _LEGEND_HEIGHT + _LEGEND_ROW * (len(self.legend) - 1)
        for layer in self.layout.layers:
            tall = max((self.heights[k] for k in layer if k < len(graph.boxes)), default=0.0)
            for item in layer:
                self.tops[item], self.bottoms[item] = y, y + tall
            y += tall + _LAYER_GAP
        self.remarks = [  # lines at the foot
            line
            for remark in (_fold_remark(graph, parts), sum_remark(report, plan, parts))
            for line in textwrap.wrap(remark, int(room / _LETTER))
        ]
        self.height = y - _LAYER_GAP + _MARGIN + _ROW * len(self.remarks)

    def draw(self, pen: Pen) -> None:
        """Draw all of it; edges lie below boxes."""
        room = self.width - 2 * _MARGIN
        pen.text((_MARGIN, _MARGIN + 12), self.title, _TITLE)
        self._legend(pen)
        for row, remark in enumerate(reversed(self.remarks)):
            pen.text((_MARGIN, self.height - 10 - _ROW * row), remark, _REMARK, room=room)
        for points in self._edges():
            pen.curve(points)
        for k, box in enumerate(self.graph.boxes):
            self._box(pen, k, box)

    def _legend(self, pen: Pen) -> None:
        for row, entries in enumerate(self.legend):
            x, y = _MARGIN, _MARGIN + _TITLE_HEIGHT + _LEGEND_ROW * row
            for backend, words in entries:
                pen.band(Area(x, y - 9, 12, height=12), self.looks[backend])
                pen.text((x + 18, y + 1), words, _LEGEND)
                x += _entry_width(words)

    def _edges(self) -> list[list[tuple[float, float]]]:
        """Return the points of each edge, from the lower side of a box to the upper side of
        another."""
        drawn = []
        for edge, bends in zip(self.graph.edges, self.layout.routes):
            start = self.tops[edge.source] + self.heights[edge.source]
            points = [(self._x(edge.source), start)]
            if start < self.bottoms[edge.source]:
                points.append((self._x(edge.source), self.bottoms[edge.source]))
            for bend in bends:
                points += [(self._x(bend), self.tops[bend]), (self._x(bend), self.bottoms[bend])]
            points.append((self._x(edge.target), self.tops[edge.target]))
            drawn.append(points)
        return drawn

    def _x(self, item: int) -> float:
        return self.aside + self.layout.x[item]

    def _box(self, pen: Pen, k: int, box: Box) -> None:
        width, height = self.layout.widths[k], self.heights[k]
        x, y = self._x(k) - width / 2, self.tops[k]
        area, inner = Area(x, y, width, height=height), Area(x + 1, y + 1, 10, height=height - 2)
        if box.is_named:
            pen.box(area, fill=PAPER, line=LINE, radius=height / 2)
            middle = (x + width / 2, y + 18)
            pen.text(middle, box.label, _HEAD_FONT, anchor="middle", room=width - 16)
            return
        if look := self.looks.get(box.backend):
            line = mixed(look.colour, 0.6)
            pen.box(area, fill=mixed(look.colour, _TINT), line=line, radius=7)
            pen.band(inner, look)
        else:
            pen.box(area, fill=PAPER, line=EDGE, radius=7)
        if box.precision:
            at_right = Area(x + width - 7, y + 1, 6, height=height - 2)
            pen.band(at_right, self.looks[box.precision])
        name, time = _name(box), box.time
        if _head_width(name, time) > width:
            time = time_text(box.seconds, ())
        pen.text((x + width - 9, y + 18), time, _HEAD_FONT, anchor="end")
        room = width - _SIDES - _GAP - text_width(time, _HEAD_FONT.size, is_bold=True)
        pen.text((x + 18, y + 18), name, _HEAD_FONT, room=room)
        below = _below(box, self.graph.seconds)
        pen.text((x + 18, y + 33), below, _REMARK, room=width - _SIDES)
        for row, (words, shape, backend) in enumerate(_rows(self.net, box)):
            at = y + _HEAD + _ROW * row
            if backend:
                pen.band(Area(x + 1, at, 10, height=_ROW - 2), self.looks[backend])
            room = width - 30 - text_width(shape, _SHAPE.size)
            pen.text((x + 18, at + 9), words, _ROW_FONT, room=room)
            pen.text((x + width - 9, at + 9), shape, _SHAPE, anchor="end")


def _legend_entries(looks: dict[str, Look], parts: list[Box]) -> list[tuple[str, str]]:
    """Return the backends and precisions that have parts, each with what it has."""
    entries = []
    for backend in looks:
        mine = [part for part in parts if backend in (part.backend, part.precision)]
        if not mine:
            continue
        words = f"{backend}: {len(mine)} part{'s' if len(mine) > 1 else ''}"
        words += f", {time_together(mine)}" if any(part.seconds for part in mine) else ""
        entries.append((backend, words))
    return entries


def _in_rows(entries: list[tuple[str, str]], room: float) -> list[list[tuple[str, str]]]:
    """Return rows none of which is wider than there is room."""
    rows: list[list[tuple[str, str]]] = [[]]
    left = room
    for backend, words in entries:
        if rows[-1] and left < _entry_width(words):
            rows.append([])
            left = room
        rows[-1].append((backend, words))
        left -= _entry_width(words)
    return rows


def _entry_width(words: str) -> float:
    return 34 + _LETTER * len(words)


def _title(report: Report, function: str, plan: str) -> str:
    """Say whose picture it is, and how fast that is."""
    title = f"Plan {plan}" if function == "main" else f"Plan {plan} of @{function}"
    row = next((row for row in report.plans if row.name == plan and row.seconds), None)
    if row:
        title += f": {plan_time(row)} a run"
    return f"{title}, which ships" if plan == report.plan else title


def _fold_remark(graph: BoxGraph, parts: list[Box]) -> str:
    """Say what a reader has to know of boxes that hold several parts; "" without any."""
    count = sum(box.kind in ("part", "rest") for box in graph.boxes)
    if count == len(parts):
        return ""
    boxes = f"{count} box{'es' if count > 1 else ''}"
    return f"{len(parts)} parts in {boxes}: neighbours that take little time share a box."


def text_width(words: str, size: float, is_bold: bool = False) -> float:
    """About as wide as browsers draw it: their fonts differ."""
    return len(words) * size * LETTERS[is_bold]


def _width(net: Net, box: Box, total: float) -> float:
    """Return the width that the words of a part need, within bounds."""
    if box.is_named:
        return box_width(box)
    rows = [
        _SIDES + text_width(f"{words}  {shape}", _ROW_FONT.size)
        for words, shape, _ in _rows(net, box)
    ]
    below = _SIDES + text_width(_below(box, total), _ROW_FONT.size)
    # One more, so that no sum that is rounded cuts what just fits.
    needed = 1 + max(_head_width(_name(box), box.time), below, *rows)
    return max(box_width(box), min(_MOST_WIDTH, needed))


def _head_width(name: str, time: str) -> float:
    """Return what a box needs for these side by side."""
    return _SIDES + _GAP + text_width(name + time, _HEAD_FONT.size, is_bold=True)


def _name(box: Box) -> str:
    """Return what a box is called: its backend, or how many parts it has of several."""
    return box.backend or (f"{len(box.boxes)} parts" if isinstance(box, Fold) else "")


def _below(box: Box, total: float) -> str:
    """Return what stands below a box's name: its precision, where that is not the model's, how many
    parts it has, unless that is its name, and what its time is of all parts' or, where nobody
    measured it, the rule that found it."""
    share = (box.seconds or 0.0) / (total or 1.0)
    of_all = f"{share_text(share)} of the parts' time" if box.seconds is not None else box.rule
    count = box.count if isinstance(box, Fold) else ""
    told = (box.precision, count, of_all)
    return ", ".join(words for words in told if words and words != _name(box))


def _rows(net: Net, box: Box) -> list[tuple[str, str, str]]:
    """Return words, what stands at the right, and the backend that is meant, or "": the operators
    with the shapes that they give, equal neighbours as one, and how many are left; of several parts
    the operators in short, and what each backend has where there are several."""
    if isinstance(box, Fold):
        backends = {} if box.backend else box.by_backend()
        told = [
            (f"{len(of)} on {name}: {time_together(of)}", "", name) for name, of in backends.items()
        ]
        gives = [("gives", shape_text(box.type), "")] if box.type else []
        return [*told, (box.label, "", ""), *gives]
    known = [(short_name(net.nodes[k]), shape_text(net.nodes[k].type)) for k in box.nodes]
    groups = [(*each, len(list(group))) for each, group in itertools.groupby(known)]
    counts = [count for _, _, count in groups]
    rows = [
        (words if count == 1 else f"{words} x{count}", shape, "") for words, shape, count in groups
    ]
    if len(rows) <= _MOST_ROWS:
        return rows
    left = len(known) - sum(counts[: _MOST_ROWS - 1])
    return [*rows[: _MOST_ROWS - 1], (f"and {left} more operators", "", "")]
