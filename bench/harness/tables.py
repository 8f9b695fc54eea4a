# SPDX-License-Identifier: Apache-2.0
"""Figures as text: intervals, tables for a terminal and in Markdown, a part of a page that is
written anew. Test: bench/test_harness.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Rows = Iterable[Sequence[str]]


def interval_text(interval: Sequence[float | None] | None, form: str = ".3f") -> str:
    """Return Interval.Summary of an interval, which JSON may have stored; "-" without one."""
    from tvm.relay.collage.costs.statistics import Interval  # --help needs no TVM

    if interval is None:
        return "-"
    fields = dict(zip(Interval._fields, interval, strict=True))
    return Interval.from_json(fields).Summary(form)


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3f}"


def text_table(head: Sequence[str], rows: Rows) -> str:
    """Lay out columns as wide as their widest cell, the first to the left, the others to the right.
    What a row has beyond the head is a remark, to the left and of any length."""
    lines = [list(head), *map(list, rows)]
    count = len(head)
    widths = [max(len(line[k]) for line in lines if k < len(line)) for k in range(count)]
    made = []
    for line in lines:
        cells = [
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=False))
        ]
        made.append("  " + "  ".join([*cells, *line[count:]]).rstrip())
    return "\n".join(made)


def markdown_table(head: Sequence[str], rows: Rows) -> str:
    return "".join(map(_markdown_line, [head, ["---"] * len(head), *rows]))


def _markdown_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def with_part(page: str, begin: str, end: str, part: str) -> str:
    """Return the page with what stands between two lines written anew; ValueError where one of them
    is missing."""
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page lacks the line {(end if found else begin).strip()}")
    return f"{before}{begin}{part}{end}{after}"
