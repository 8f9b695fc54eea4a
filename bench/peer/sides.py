# SPDX-License-Identifier: Apache-2.0
"""What benchmarks share that print some lines for each net: threads of its sides, the loop over
nets that leaves out what fails, results that have to be there. Test: bench/test_winograd.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tvm.relay.collage.errors import last_line
from tvm.relay.collage.measure import Comparison
from tvm.relay.collage.timing.comparison import paired_ratio

from .record import interval_text

_Item = TypeVar("_Item")


def with_threads(count: int) -> dict[str, str]:
    """Variables of a side's process that give TVM and OpenMP so many threads."""
    return dict.fromkeys(("TVM_NUM_THREADS", "OMP_NUM_THREADS"), str(count))


def print_each(
    items: Iterable[_Item],
    name_of: Callable[[_Item], str],
    lines_of: Callable[[_Item], Iterable[str]],
    left_out: tuple[type[Exception], ...] = (FileNotFoundError, RuntimeError),
) -> int:
    """Print each item's lines as they come; 1 for the process when one of these errors left one
    out: by default a real net's file that is not there, or a side that failed."""
    status = 0
    for item in items:
        try:
            for line in lines_of(item):
                print(line, flush=True)
        except left_out as error:
            print(f"{name_of(item)}: left out: {last_line(error)}", file=sys.stderr, flush=True)
            status = 1
    return status


def usable_by_name(
    found: Sequence[Comparison], needed: Sequence[str] | None = None
) -> dict[str, Comparison]:
    """Comparisons by name; RuntimeError for one of those needed (default: all) that failed."""
    by_name = {item.name: item for item in found}
    for name in by_name if needed is None else needed:
        if not by_name[name].cost.is_usable:
            raise RuntimeError(f"{name}: {by_name[name].cost.Summary()}")
    return by_name


def ratio_text(above: Comparison, below: Comparison, form: str = ".2f") -> str:
    """above / below round by round with its 95 % interval."""
    return interval_text(paired_ratio(above.samples, below.samples), form)
