# SPDX-License-Identifier: Apache-2.0
"""A colour and a pattern for each backend of a report, and a colour for each precision: to be told
apart by those who see colours differently, and on paper. Test: report/test_looks.py.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping

from ..plans.names import TVM_ALONE
from .record import Report

INT8 = "int8"
# As placements call who runs what launches no kernel.
FREE = "host"

# Okabe and Ito's colours, which all kinds of sight tell apart, beside grey for TVM. Their yellow is
# darker here, so that it is seen on white.
_GREY = "#8a8f98"
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900")
PATTERNS = ("plain", "up", "dots", "across", "down", "cross", "rings")


# The fewer bits, the darker, in a hue that no backend has.
PRECISION_COLOURS = {"bfloat16": "#b79fdb", "float16": "#b79fdb", INT8: "#5b2a86"}
OTHER_PRECISION = "#8a5cb8"


@dataclasses.dataclass(frozen=True)
class Look:
    """The look of a backend in drawings."""

    colour: str  # as #rrggbb
    pattern: str  # one of PATTERNS


def report_looks(report: Report) -> dict[str, Look]:
    """Return the looks of all backends of a report, so that every picture of any of its plans has
    the same."""
    names = {row.backend for row in report.placement}
    for function in report.functions:
        backends = function.graph.backends if function.graph else ()
        names |= {row.name for row in backends if row.is_external}
    for placed in report.placements.functions if report.placements else ():
        names |= {part.backend for part in placed.parts}
    return looks_of(names - {report.host_kind, FREE}, report.colours)


def looks_of(backends: Iterable[str], declared: Mapping[str, str]) -> dict[str, Look]:
    """Return the looks by backend, TVM first. `declared`: the colours that backends declare. Those
    of one colour differ in their patterns."""
    looks = {TVM_ALONE: Look(_GREY, PATTERNS[0])}
    for name in sorted(set(backends) - {TVM_ALONE}, key=lambda name: (name not in declared, name)):
        used = Counter(look.colour for look in looks.values())
        colour = declared.get(name) or _free_colour(name, used, declared.values())
        first = _COLOURS.index(colour) if colour in _COLOURS else zlib.crc32(colour.encode())
        looks[name] = Look(colour, PATTERNS[1:][(first + used[colour]) % (len(PATTERNS) - 1)])
    return looks


def precision_look(precision: str) -> Look:
    """Return the look of a precision with fewer bits than float32."""
    return Look(PRECISION_COLOURS.get(precision, OTHER_PRECISION), PATTERNS[0])


def _free_colour(name: str, used: Counter[str], declared: Container[str]) -> str:
    """Return a colour that the fewest backends of this picture have, if possible one that none
    declares; the backend's name says which of several."""
    start = zlib.crc32(name.encode()) % len(_COLOURS)
    turned = _COLOURS[start:] + _COLOURS[:start]
    return min(turned, key=lambda colour: (used[colour], colour in declared))


def mixed(colour: str, share: float) -> str:
    """Return a colour thinned with white."""
    parts = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in parts)
