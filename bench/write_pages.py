#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the tables of README.md and docs/ anew, from the records that benchmarks left.

    python bench/write_pages.py                 # all whose records are there
    python bench/write_pages.py --only mixes    # some

A table stands in its page between two lines that have its name. Nothing is measured.
Test: bench/test_write_pages.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import arguments
from harness.tables import with_part
from summaries import cases, files, libraries, mixes, precisions, transfers

Record = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Part:
    """A generated part of a page."""

    page: str  # from the tree's root
    name: str  # in the lines that enclose it
    record: Path  # file of the records
    tables: Callable[[Sequence[Record]], str]  # from these to Markdown

    def text(self) -> str:
        """Return the page with this part made anew. FileNotFoundError without records, ValueError
        for a page that lacks the lines."""
        lines = self.record.read_text().splitlines()
        found = [json.loads(line) for line in lines if line.strip()]
        marks = [f"<!-- {self.name}: {end} -->\n" for end in ("begin", "end")]
        page = (arguments.ROOT / self.page).read_text()
        return with_part(page, *marks, self.tables(found))


_RESULTS, _FILES = arguments.RESULTS, "docs/real_files.md"
PARTS = (
    Part("README.md", "comparison", _RESULTS / "zoo.jsonl", tables=libraries.summary),
    Part("README.md", "precision", _RESULTS / "precision.jsonl", tables=precisions.headline),
    Part("docs/results.md", "comparison", _RESULTS / "zoo.jsonl", tables=libraries.by_family),
    Part("docs/results.md", "mixes", _RESULTS / "mixes.jsonl", tables=mixes.tables),
    Part("docs/results.md", "tuned_mixes", _RESULTS / "tuned_mixes.jsonl", tables=mixes.columns),
    Part("docs/results.md", "transfer", _RESULTS / "transfer.jsonl", tables=transfers.tables),
    Part("docs/precision.md", "precision", _RESULTS / "precision.jsonl", tables=precisions.tables),
    Part(_FILES, "real_files", _RESULTS / "real_files.jsonl", tables=files.of_packages),
    Part(_FILES, "quantised", _RESULTS / "quantised.jsonl", tables=files.of_quantisers),
    # Thousands of records, which one run makes: they are not kept in the tree.
    Part(
        "docs/conformance.md",
        "conformance",
        arguments.ROOT / "build/bench/conformance.jsonl",
        tables=cases.tables,
    ),
)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    names = list(dict.fromkeys(part.name for part in PARTS))
    only = arguments.chosen_of(names, "table")
    parser.add_argument("--only", type=only, default=names, help=f"of {', '.join(names)}")
    options = parser.parse_args(given)
    status = 0
    for part in PARTS:
        if part.name not in options.only:
            continue
        try:
            (arguments.ROOT / part.page).write_text(part.text())
        except FileNotFoundError as error:
            print(f"{part.page}, {part.name}: stays as it is, no file {error.filename}")
        except ValueError as error:
            print(f"{part.page}, {part.name}: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
