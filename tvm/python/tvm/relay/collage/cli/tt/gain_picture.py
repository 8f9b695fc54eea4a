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
        points = {s.name: (s.search_seconds, s.speedup.value) for s in gain.sides if s.speedup}
        moved = points.pop(TRANSFERRED, None)
        searched = sorted(points.values(), key=lambda point: point[0])
        at = [seconds for seconds, _ in searched]
        (line,) = times.plot(at, [y for _, y in searched], "o-", label=f"{gain.model}, Ansor")
        if moved is not None:
            how = {"color": line.get_color(), "markersize": 12}
            times.plot(*moved, "*", label=f"{gain.model}, transferred", **how)
    times.set_xlabel("seconds of search")
    times.legend()
    figure.savefig(os.fspath(path))
