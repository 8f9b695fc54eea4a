# SPDX-License-Identifier: Apache-2.0
"""A picture of what tuning gained: speed-ups by net, and against the time of the search.

Test: cli/test_tt_gain.py.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...report.forms import make_figure
from .end_to_end import UNTUNED
from .gain import MATCHING, TRANSFERRED, Gain


def plot_gains(gains: Sequence[Gain], path: str | os.PathLike[str]) -> None:
    """Draw bars of speed-ups over untuned, and each net's speed-ups by seconds of search, to a file
    whose ending names the format. ImportError that says what to do without matplotlib."""
    figure = make_figure("collage tt plot")
    bars, times = figure.subplots(1, 2)
    names = list(dict.fromkeys(side.name for gain in gains for side in gain.sides))
    names = [name for name in names if name not in (UNTUNED, MATCHING)]
    width = 0.8 / max(1, len(names))
    for place, name in enumerate(names):
        sides = [(row, side) for row, gain in enumerate(gains) for side in gain.sides]
        ran = [(row, side.speedup) for row, side in sides if side.name == name and side.speedup]
        bars.bar(
            [row + place * width for row, _ in ran],
            [speedup.value for _, speedup in ran],
            width,
            yerr=[
                [s.value - s.low if s.is_bounded else 0.0 for _, s in ran],
                [s.high - s.value if s.is_bounded else 0.0 for _, s in ran],
            ],
            label=name,
        )
    bars.set_xticks([row + 0.4 - width / 2 for row in range(len(gains))])
    bars.set_xticklabels([gain.model for gain in gains])
    bars.axhline(1.0, ls=":", color="gray")
    bars.set_ylabel("speed-up over untuned")
    bars.legend()
    for gain in gains:
        searched = [s for s in gain.sides if s.speedup is not None and s.name != TRANSFERRED]
        searched = sorted(searched, key=lambda side: side.search_seconds)
        (line,) = times.plot(
            [side.search_seconds for side in searched],
            [side.speedup.value for side in searched if side.speedup is not None],
            "o-",
            label=f"{gain.model}, Ansor",
        )
        for one in gain.sides:
            if one.name != TRANSFERRED or one.speedup is None:
                continue
            times.plot(
                one.search_seconds,
                one.speedup.value,
                "*",
                color=line.get_color(),
                markersize=12,
                label=f"{gain.model}, transferred",
            )
    times.set_xlabel("seconds of search")
    times.legend()
    figure.savefig(os.fspath(path))
