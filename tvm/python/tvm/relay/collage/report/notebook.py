# SPDX-License-Identifier: Apache-2.0
"""A report as the output of a notebook's cell: the three lines and the picture of what ships.

The page is not in it: it would add a megabyte to the notebook's file for each cell, and scripts do
not run where others look at the notebook. The picture is an image of its own, so that neither its
names nor its styles meet the notebook's. Test: report/test_notebook.py.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable
from typing import Any

from ..errors import CollageError
from .head import doubt, head_lines
from .picture import picture_of, to_svg

_HEIGHT = 600  # pixels that are seen at once
_PAGE = (
    'save_html("report.html") writes the page, which tells of each part what it would cost '
    "elsewhere; show(details=True) prints tables."
)


def notebook_html(report: dict[str, Any]) -> str:
    """HTML without scripts, of at most 150 kB: the picture of a large net is folded."""
    try:
        picture = picture_of(report)
        shown = _image(to_svg(picture).encode(), picture.title)
    except CollageError as error:  # nothing was searched
        shown = _lines([f"{error}."])
    ships, latency, _ = head_lines(report)
    lines = filter(None, [ships, latency, doubt(report), _PAGE])
    return f"<div>{_lines(lines)}{shown}</div>"


def _lines(texts: Iterable[str]) -> str:
    return f"<p>{'<br>'.join(map(html.escape, texts))}</p>"


def _image(svg: bytes, title: str) -> str:
    data = base64.b64encode(svg).decode()
    return (
        f'<div style="max-height: {_HEIGHT}px; overflow: auto">'
        f'<img alt="{html.escape(title)}" style="max-width: none" '
        f'src="data:image/svg+xml;base64,{data}"></div>'
    )
