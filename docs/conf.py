# SPDX-License-Identifier: Apache-2.0
"""How Sphinx makes a site of these pages (`make docs`). Test: docs/test_site.py."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

project = "Collage for TVM"
author = "the authors of tvm-collage"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["**/*.jsonl"]
html_theme = "furo"
html_title = project
html_static_path: list[str] = []
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

# Links to headings are GitHub's, so that pages read the same there.
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # pages may begin with a deeper heading

# The reference, from docstrings.
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
add_module_names = False
autodoc_default_options = {"members": True}
python_display_short_literal_types = True


_FIELD = re.compile(r" *\w[\w, ]*: ")


def list_fields(_app: Sphinx, *about: Any) -> None:
    """Make items of the lines "name: meaning" of a docstring, of which some go on below, indented:
    they would be quotations else."""
    lines: list[str] = about[-1]
    made: list[str] = []
    for block in "\n".join(lines).split("\n\n"):
        head, rest = [], block.strip("\n").split("\n")
        if rest[0].rstrip() == "Attributes:":
            head, rest = [rest[0], ""], rest[1:]
        base = _indent(rest[0]) if rest else 0
        if rest and all(_indent(line) > base or _FIELD.match(line) for line in rest):
            rest = [
                f"{line[:base]}* {line[base:]}" if _indent(line) == base else f"  {line}"
                for line in rest
            ]
        made += [*head, *rest, ""]
    lines[:] = made


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", list_fields)
