# SPDX-License-Identifier: Apache-2.0
"""Pictures of placed graphs: what a report says of a plan, drawn without Graphviz.

parts.py reads boxes and edges off a report, layers.py places them, draw.py puts them on a page of
SVG or PDF; the HTML page takes the same places. Test: report/picture/test_draw.py.
"""

from .draw import picture_of
from .pdf import to_pdf
from .svg import to_svg

__all__ = ["picture_of", "to_pdf", "to_svg"]
