# SPDX-License-Identifier: Apache-2.0
"""A colour and a pattern for each backend of a report: to be told apart by those who see colours
differently, and on paper. Test: report/picture/test_parts.py.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Any

from ...backends import list_backends
from ...plans.competing import TVM_ALONE
from ..net import FREE, host_kind

# Okabe and Ito's colours, which all kinds of sight tell apart, beside grey for TVM. Their yellow is
# darker here, so that it is seen on white.
_GREY = "#8a8f98"
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900")
PATTERNS = ("plain", "up", "dots", "across", "down", "cross", "rings")


@dataclasses.dataclass(frozen=True)
class Look:
    """How a backend is drawn; pattern: one of PATTERNS."""

    colour: str
    pattern: str


def report_looks(report: dict[str, Any]) -> dict[str, Look]:
    """Of all backends of a report, so that every picture of any of its plans has the same."""
    names = {row["backend"] for row in report["placement"]}
    for function in report["functions"]:
        names |= {row["name"] for row in function["graph"]["backends"] if row["is_external"]}
    for function in report["placements"]["functions"]:
        names |= {part["backend"] for part in function["parts"]}
    return looks_of(names - {host_kind(report), FREE}, report.get("colours"))


def declared_colours() -> dict[str, str]:
    """By backend, of those that are registered in this process and declare one."""
    return {each.name: each.colour for each in list_backends() if each.colour}


def looks_of(backends: Iterable[str], colours: Mapping[str, str] | None = None) -> dict[str, Look]:
    """By backend, TVM first. `colours`: what backends declared where the report was made; of a
    report from before that was kept, what those declare that are registered here. Those of one
    colour differ in their patterns."""
    declared = colours or declared_colours()
    looks = {TVM_ALONE: Look(_GREY, PATTERNS[0])}
    for name in sorted(set(backends) - {TVM_ALONE}, key=lambda name: (name not in declared, name)):
        used = Counter(look.colour for look in looks.values())
        colour = declared.get(name) or _free_colour(name, used, declared.values())
        first = _COLOURS.index(colour) if colour in _COLOURS else zlib.crc32(colour.encode())
        looks[name] = Look(colour, PATTERNS[1:][(first + used[colour]) % (len(PATTERNS) - 1)])
    return looks


def _free_colour(name: str, used: Counter[str], declared: Container[str]) -> str:
    """A colour that the fewest backends of this picture have, if possible one that none declares;
    the backend's name says which of several."""
    start = zlib.crc32(name.encode()) % len(_COLOURS)
    turned = _COLOURS[start:] + _COLOURS[:start]
    return min(turned, key=lambda colour: (used[colour], colour in declared))


def mixed(colour: str, share: float) -> str:
    """A colour thinned with white."""
    parts = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in parts)
