# SPDX-License-Identifier: Apache-2.0
"""README.md and the pages of docs/ with their blocks of code, for the tests that run these."""

import re
from typing import NamedTuple

from tree import ROOT

PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/**/*.md"))]
_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>.+?) -->\n\n?)?```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.M | re.S,
)


class Block(NamedTuple):
    """Text between fences. line: how many lines of the page are above it. why: the reason for which
    it is not run, or None."""

    line: int
    language: str
    code: str
    why: str | None


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page, *languages):
    """The blocks of a page, or those in the languages, whether they run or not."""
    text = text_of(page)
    found = list(_BLOCK.finditer(text))
    assert 2 * len(found) == len(re.findall("^ *```", text, re.M)), page
    return [
        Block(text[: m.start("code")].count("\n"), m["language"], m["code"], m["why"])
        for m in found
        if not languages or m["language"] in languages
    ]


def blocks_that_run(page, *languages):
    return [block for block in blocks(page, *languages) if block.why is None]
