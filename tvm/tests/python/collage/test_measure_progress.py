# SPDX-License-Identifier: Apache-2.0
"""Progress on a clock of the test's own."""

import io
import json

import pytest
from measure_fakes import measure


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def drive(progress, clock):
    progress.begin(total=4, cached=2, stored=3)
    for i in range(4):
        clock.now += 0.4
        progress.on_built()
        clock.now += 0.4
        bad = measure.Cost.failed("timeout", "x")
        progress.on_cost(bad if i == 0 else measure.Cost.estimated(1.0))
    progress.end()


def test_json_lines_after_the_first_second():
    clock, stream = Clock(), io.StringIO()
    drive(measure.JsonLinesProgress(stream, clock), clock)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines[0] == {
        "total": 4,
        "cached": 2,
        "stored": 3,
        "built": 2,
        "done": 1,
        "failed": 1,
        "seconds": 1.2,
        "eta_seconds": 2.0,
    }
    assert lines[-1]["done"] == 4 and lines[-1]["eta_seconds"] == 0.0


def test_what_is_quick_shows_nothing():
    clock, stream = Clock(), io.StringIO()
    progress = measure.JsonLinesProgress(stream, clock)
    progress.begin(1, 0)
    progress.on_built()
    progress.on_cost(measure.Cost.unknown())
    progress.end()
    assert stream.getvalue() == ""


def test_rich_bar():
    console = pytest.importorskip("rich.console")
    clock, stream = Clock(), io.StringIO()
    terminal = console.Console(file=stream, force_terminal=True, width=120)
    drive(measure.RichProgress(terminal, clock), clock)
    assert "4/4 candidates, 2 in memory, 3 stored, 1 failed" in stream.getvalue()


def test_kinds():
    assert type(measure.make_progress("quiet")) is measure.Progress
    assert isinstance(measure.make_progress("json"), measure.JsonLinesProgress)
    with pytest.raises(ValueError, match="one of auto, quiet, rich, json"):
        measure.make_progress("loud")
