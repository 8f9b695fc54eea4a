# SPDX-License-Identifier: Apache-2.0
"""Pictures of placed graphs: what a report says of a plan, drawn without Graphviz.

fold.py makes few boxes of many, layout.py places them, draw.py puts them on a page of SVG or PDF.
The HTML page, which can be zoomed, has a place for every part. Test: report/picture/test_draw.py.
"""

from .draw import Picture
from .pdf import to_pdf
from .svg import to_svg

__all__ = ["Picture", "to_pdf", "to_svg"]
