# SPDX-License-Identifier: Apache-2.0
"""A picture as SVG, which browsers and drawing programs open. Test: report/picture/test_draw.py."""

from __future__ import annotations

import html
import itertools

from ..looks import PATTERNS, Look
from .draw import EDGE, LETTERS, Area, Font, Picture, text_width

_PATHS = {
    "up": "M-1 7L7 -1",
    "down": "M-1 -1L7 7",
    "across": "M0 3H6",
    "cross": "M0 0L6 6M6 0L0 6",
    "dots": "M1.8 3a1.2 1.2 0 1 0 2.4 0a1.2 1.2 0 1 0 -2.4 0",
    "rings": "M1.2 3a1.8 1.8 0 1 0 3.6 0a1.8 1.8 0 1 0 -3.6 0",
}


def to_svg(picture: Picture) -> str:
    """Return the file's text."""
    pen = _SvgPen()
    picture.draw(pen)
    width, height = f"{picture.width:.0f}", f"{picture.height:.0f}"
    patterns = "".join(
        f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<path d="{path}" stroke="#fff" stroke-width="1.5" fill="none"/></pattern>'
        for name, path in _PATHS.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif">'
        f"<title>{html.escape(picture.title, quote=False)}</title><defs>{patterns}</defs>"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        + "\n".join(pen.lines)
        + "\n</svg>\n"
    )


class _SvgPen:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def box(self, area: Area, fill: str, line: str, radius: float) -> None:
        self.lines.append(f'<rect {_place(area, radius)} fill="{fill}" stroke="{line}"/>')

    def band(self, area: Area, look: Look) -> None:
        place = _place(area, min(6.0, area.width / 3))
        self.lines.append(f'<rect {place} fill="{look.colour}"/>')
        if look.pattern != PATTERNS[0]:
            self.lines.append(f'<rect {place} fill="url(#{look.pattern})"/>')

    def curve(self, points: list[tuple[float, float]]) -> None:
        path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
        for (x1, y1), (x2, y2) in itertools.pairwise(points):
            middle = (y1 + y2) / 2
            if abs(x1 - x2) < 0.5:
                path += f"V{y2:.1f}"
            else:
                path += f"C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"
        self.lines.append(f'<path d="{path}" fill="none" stroke="{EDGE}" stroke-width="1.4"/>')

    def text(
        self,
        at: tuple[float, float],
        words: str,
        font: Font,
        *,
        anchor: str = "start",
        room: float | None = None,
    ) -> None:
        (x, y), size = at, font.size
        if not words:
            return
        shown = words
        if room is not None and text_width(words, size, font.is_bold) > room:
            shown = words[: max(1, int(room / size / LETTERS[font.is_bold]) - 1)] + "…"
        weight = ' font-weight="600"' if font.is_bold else ""
        # What was cut is seen by hovering.
        title = f"<title>{html.escape(words, quote=False)}</title>" if shown != words else ""
        self.lines.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{html.escape(font.colour)}" '
            f'text-anchor="{anchor}"{weight}>{html.escape(shown, quote=False)}{title}</text>'
        )


def _place(area: Area, radius: float) -> str:
    sides = f'width="{area.width:.1f}" height="{area.height:.1f}" rx="{radius:.1f}"'
    return f'x="{area.x:.1f}" y="{area.y:.1f}" {sides}'
