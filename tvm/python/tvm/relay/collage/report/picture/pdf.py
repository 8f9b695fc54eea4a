# SPDX-License-Identifier: Apache-2.0
"""A picture as a PDF of one page, by reportlab (the extra `pdf`).

Test: report/picture/test_draw.py.
"""

from __future__ import annotations

import io
import itertools
from typing import Any

from ...errors import CollageError
from ..looks import Look
from .draw import EDGE, Area, Font, Picture

_LARGEST = 14000.0  # points; no reader takes pages of more than 14,400
_FONTS = {False: "Helvetica", True: "Helvetica-Bold"}


def to_pdf(picture: Picture) -> bytes:
    """Return the file's bytes; a picture that is larger than a page may be is made smaller.
    CollageError without reportlab."""
    try:
        from reportlab.pdfgen.canvas import Canvas
    except ImportError:
        raise CollageError(
            "PDF needs reportlab: pip install 'tvm-collage[pdf]', or ask for SVG"
        ) from None
    scale = min(1.0, _LARGEST / max(picture.width, picture.height))
    stream = io.BytesIO()
    size = (picture.width * scale, picture.height * scale)
    canvas = Canvas(stream, pagesize=size, pageCompression=1, invariant=1)
    canvas.setTitle(picture.title)
    canvas.scale(scale, scale)
    picture.draw(_PdfPen(canvas, picture.height))
    canvas.save()
    return stream.getvalue()


class _PdfPen:
    """A PDF's origin is at the left bottom."""

    def __init__(self, canvas: Any, height: float) -> None:
        self._canvas, self._height = canvas, height

    def box(self, area: Area, fill: str, line: str, radius: float) -> None:
        self._canvas.setFillColor(fill)
        self._canvas.setStrokeColor(line)
        self._canvas.setLineWidth(1)
        bottom = self._height - area.y - area.height
        self._canvas.roundRect(area.x, bottom, area.width, area.height, radius, fill=1)

    def band(self, area: Area, look: Look) -> None:
        canvas, bottom = self._canvas, self._height - area.y - area.height
        area = Area(area.x, bottom, area.width, height=area.height)
        canvas.saveState()
        path = canvas.beginPath()
        path.roundRect(area.x, bottom, area.width, area.height, min(6.0, area.width / 3))
        canvas.clipPath(path, stroke=0)
        canvas.setFillColor(look.colour)
        canvas.rect(area.x, bottom, area.width, area.height, stroke=0, fill=1)
        canvas.setStrokeColor("#ffffff")
        canvas.setLineWidth(1.4)
        _hatch(canvas, look.pattern, area)
        canvas.restoreState()

    def curve(self, points: list[tuple[float, float]]) -> None:
        path = self._canvas.beginPath()
        path.moveTo(points[0][0], self._height - points[0][1])
        for (x1, y1), (x2, y2) in itertools.pairwise(points):
            middle = self._height - (y1 + y2) / 2
            path.curveTo(x1, middle, x2, middle, x2, self._height - y2)
        self._canvas.setStrokeColor(EDGE)
        self._canvas.setLineWidth(1.4)
        self._canvas.drawPath(path)

    def text(
        self,
        at: tuple[float, float],
        words: str,
        font: Font,
        *,
        anchor: str = "start",
        room: float | None = None,
    ) -> None:
        canvas, name, size = self._canvas, _FONTS[font.is_bold], font.size
        # The fonts that every reader has know Latin letters alone.
        words = words.encode("latin-1", "replace").decode("latin-1")
        if room is not None and canvas.stringWidth(words, name, size) > room:
            while words and canvas.stringWidth(f"{words}...", name, size) > room:
                words = words[:-1]
            words += "..."
        canvas.setFillColor(font.colour)
        canvas.setFont(name, size)
        draws = {
            "start": canvas.drawString,
            "middle": canvas.drawCentredString,
            "end": canvas.drawRightString,
        }
        draws[anchor](at[0], self._height - at[1], words)


def _hatch(canvas: Any, pattern: str, area: Area) -> None:
    """Draw the strokes of a pattern over an area, here from its lower side, to which the canvas is
    clipped."""
    x, bottom, width, height = area.x, area.y, area.width, area.height
    step = 6.0
    count = int((width + height) / step) + 1
    for k in range(count):
        at = bottom + k * step
        if pattern in ("up", "cross"):
            canvas.line(x, at - width, x + width, at)
        if pattern in ("down", "cross"):
            canvas.line(x, at, x + width, at - width)
        if pattern == "across":
            canvas.line(x, at + step / 2, x + width, at + step / 2)
        if pattern in ("dots", "rings"):
            is_full = pattern == "dots"
            canvas.setFillColor("#ffffff")
            for right in range(int(width / step) + 1):
                canvas.circle(x + (right + 0.5) * step, at + step / 2, 1.4, fill=int(is_full))
