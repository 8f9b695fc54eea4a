# SPDX-License-Identifier: Apache-2.0
"""A search of whole plans as a picture: what each plan took, and the best so far.

Test: report/test_history.py.
"""

from __future__ import annotations

import os
from typing import Any

_SIZE = (8.0, 4.5)  # inches


def plot_history(search: dict[str, Any], path: str | os.PathLike) -> None:
    """Draw the JSON values of a GraphSearch, by trial and by seconds, to a file whose ending names
    the format. ImportError that says what to do without matplotlib."""
    trials = search["trials"]
    figure = make_figure("plot_history")
    by_trial, by_seconds = figure.subplots(1, 2, sharey=True)
    numbers = range(1, len(trials) + 1)
    for axes, places, label in (
        (by_trial, list(numbers), "trial"),
        (by_seconds, [row["after_seconds"] for row in trials], "seconds"),
    ):
        ran = [(x, row["seconds"]) for x, row in zip(places, trials, strict=True) if row["seconds"]]
        axes.plot(*_milliseconds(ran), ".", label="plan")
        best = [(x, row["best_seconds"]) for x, row in zip(places, trials, strict=True)]
        best = [(x, value) for x, value in best if value is not None]
        axes.step(*_milliseconds(best), where="post", label="best so far")
        if search["op_level_seconds"] is not None:
            axes.axhline(
                1e3 * search["op_level_seconds"], ls=":", color="gray", label="op-level plan"
            )
        axes.set_xlabel(label)
    by_trial.set_ylabel("latency, ms")
    by_trial.legend()
    figure.suptitle(f"Whole plans, strategy {search['strategy']}")
    figure.savefig(os.fspath(path))


def make_figure(what: str) -> Any:
    """An empty picture. ImportError that says what `what` needs without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(f"{what} needs matplotlib: pip install matplotlib") from None
    return Figure(_SIZE, layout="constrained")


def _milliseconds(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [1e3 * seconds for _, seconds in points]
