# SPDX-License-Identifier: Apache-2.0
"""No page has a measured figure that somebody typed: it would stay while the code changes. Figures
come from records, between two lines `<!-- NAME: begin -->` and `end`, or are a command's output."""

import re

import pytest
from pages import PAGES, text_of

GENERATED = re.compile(r"<!-- ([\w.]+): begin -->.*?<!-- \1: end -->", re.S)
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.S | re.M)
UNITS = "ns|us|ms|s|seconds|minutes|hours|times"
# "95 %" is the level of all intervals; "3 x 3" is a size.
FIGURE = re.compile(rf"\d(?:(?<![ (]95) ?%| ?(?:(?:{UNITS})\b|x\b(?! ?\d))| \[\d)")

# What is no measurement, and why; texts of one line, as the page would read without line breaks.
ALLOWED = {
    "docs/backends/blas.md": {"about 10 us stay": "limit"},
    "docs/backends/dnnl.md": {
        "less than 98 % of its time": "limit",
        "| 4 times | 4 times |": "arithmetic",
        "| 6 times | 5.3 times |": "arithmetic",
        "| 2.8 times | 1.4 times |": "arithmetic",
        "| 2 times | 2 times |": "arithmetic",
        "| 4.6 times | 3.4 times |": "arithmetic",
    },
    "docs/choosing.md": {
        "at most 5 % and 20 % more": "definition",
        "(99.99 %), and by more than 1 %": "limit",
        "at most 2 % longer": "limit",
        "surely (95 %)": "limit",
        "more than 1.05 times": "limit",
        "at most 1 % longer, over 15 rounds": "limit",
        "up to 8 times": "limit",
        "more than 1.25 times": "limit",
        "more than 2 % behind": "limit",
    },
    "docs/cover_search.md": {
        "16 times wider": "constant",
        **{f"| {share} % |": "constant" for share in (10, 25, 30, 33, 45, 55, 65, 85, 100)},
    },
    "docs/decisions.md": {"plans within 1 %": "limit", "30 s of further ones": "former default"},
    "docs/devices.md": {"silent for 60 s": "limit"},
    "docs/measuring.md": {
        "at least 2 ms": "constant",
        "less than 3 % wide (9 % where": "limit",
        "wider than 20 %": "limit",
        "for 100 us": "constant",
        "runs for 60 ms": "default",
    },
    "docs/options.md": {"up to 8 times": "limit"},
    "docs/results.md": {"takes 1.20 times as long": "example"},
    "docs/store.md": {"up to 15 s": "limit", "for 15 s": "limit"},
    "docs/thread_pool.md": {
        "after 50 ms frees": "constant",
        "less than 10 us stays": "limit",
        "expected to take less than 2 ms": "limit",
    },
    "docs/tools.md": {
        "above 10 %, problem above 30 %": "limit",
        "below 85 % of it, problem below 60 %": "limit",
    },
    "docs/tuning.md": {"at least 60 ms of runs": "constant", "longer than 20 seconds": "limit"},
}  # fmt: skip


def typed_figures(text, allowed=()):
    """The figures that are neither generated, code nor allowed, each with some words around it."""
    prose = " ".join(CODE.sub("", GENERATED.sub("", text)).split())
    for known in allowed:
        assert known in prose, f"ALLOWED has what the page no longer says: {known}"
        prose = prose.replace(known, "")
    return [prose[max(0, m.start() - 40) : m.end() + 30] for m in FIGURE.finditer(prose)]


@pytest.mark.parametrize("page", PAGES)
def test_no_figure_is_typed_by_hand(page):
    assert typed_figures(text_of(page), ALLOWED.get(page, ())) == []


@pytest.mark.parametrize(
    "text",
    [
        "It takes 4.5 ms.", "a call of\n3 us", "1.2 times as fast", "gains 12 %", "2.5x as fast",
        "took 90 s", "the ratio is 1.04 [1.01, 1.05]", "| resnet50 | 32.7 ms |",
    ],
)  # fmt: skip
def test_a_typed_figure_is_found(text):
    assert len(typed_figures(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "<!-- mixes: begin -->\n| 4.5 ms |\n<!-- mixes: end -->",
        "```\nIt takes 4.5 ms.\n```",
        "A line `4.5 ms (busy)` of it",
        "a window of 3 x 3 and 3x3x3",
        "oneDNN 3.x",
        "a 95 % interval",
    ],
)
def test_other_numbers_are_not(text):
    assert typed_figures(text) == []


def test_what_is_allowed_is_no_complaint_while_the_page_says_it():
    assert typed_figures("at most\n20 s", {"at most 20 s": "limit"}) == []
    with pytest.raises(AssertionError, match="no longer says: at most 20 s"):
        typed_figures("at most 30 s", {"at most 20 s": "limit"})
