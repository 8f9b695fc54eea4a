# SPDX-License-Identifier: Apache-2.0
"""Progress on a clock of the test's own: lines of JSON, lines of text, a bar on a terminal."""

import contextlib
import io
import json
import math
import os
import pty
import re
import subprocess
import sys
import threading
import time

import pytest
from json_schema import errors
from tree import ROOT
from tvm.relay.collage.measure import Cost, Progress, make_progress
from tvm.relay.collage.messages.progress import (
    JsonLines,
    ProgressView,
    TextLines,
    best_so_far,
    make_view,
    one_step,
    phase,
    steps,
)
from tvm_collage.words import PROGRESS

SCHEMA = json.loads((ROOT / "docs" / "progress.schema.json").read_text())


@pytest.fixture(autouse=True)
def nothing_told_before(monkeypatch):
    for name in ("_told_at", "_ended_at"):
        monkeypatch.setattr(TextLines, name, -math.inf)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def measuring(view, clock, pause=0.4):
    """Four candidates, one of which fails."""
    progress = Progress(view, clock)
    progress.begin(total=4, cached=2, stored=3)
    for i in range(4):
        clock.now += pause
        progress.on_built()
        clock.now += pause
        progress.on_cost(Cost.failed("timeout", "x") if i == 0 else Cost.estimated(1.0))
    progress.end()
    progress.close()


def lines_of(view_class, drive, *arguments):
    clock, stream = Clock(), io.StringIO()
    drive(view_class(stream), clock, *arguments)
    return stream.getvalue().splitlines()


def guarding(view, clock):
    with phase("guard", view, clock) as running:
        clock.now += 11.0
        running.update(6, 15, "measuring, 6/15", {"step": "measuring", "done": 6, "total": 15})


@pytest.mark.parametrize("drive", [measuring, guarding])
def test_the_best_so_far_is_told_with_each_state(drive):
    with best_so_far("dnnl", 3.8e-3, "dnnl, 3.8 ms"):
        lines = [json.loads(line) for line in lines_of(JsonLines, drive)]
        texts = lines_of(TextLines, drive) if drive is guarding else []
    assert lines and all(line["best"] == {"plan": "dnnl", "seconds": 3.8e-3} for line in lines)
    assert [errors(SCHEMA, line) for line in lines] == [[]] * len(lines)
    assert all("; best so far: dnnl, 3.8 ms, 11 s" in text for text in texts)
    assert all("best" not in json.loads(line) for line in lines_of(JsonLines, drive))


def test_json_lines_after_the_first_second():
    lines = [json.loads(line) for line in lines_of(JsonLines, measuring)]
    assert lines[0] == {
        "phase": "measuring",
        "total": 4,
        "cached": 2,
        "stored": 3,
        "built": 2,
        "done": 1,
        "failed": 1,
        "seconds": 1.2,
        "eta_seconds": None,
    }
    assert [line["seconds"] for line in lines] == [1.2, 2.4, 3.2], "one a second, and the last"
    assert lines[-1]["done"] == 4
    assert [errors(SCHEMA, line) for line in lines] == [[]] * 3


def etas(updates):
    """Of each state that a phase shows, whose updates are (second, steps done, steps in all)."""
    found = []

    class Recorder(ProgressView):
        def show(self, state):
            found.append(state.eta_seconds)

    clock = Clock()
    with phase("guard", Recorder(), clock, every=3600.0) as running:
        for clock.now, done, total, *is_waiting in updates:
            running.update(done, total, "", {}, *is_waiting)
    return found


def test_nothing_is_told_of_the_time_left_where_more_steps_may_come():
    clock, stream = Clock(), io.StringIO()
    with steps("guard", "lines", stream, clock, is_open=True) as on_step:
        for k in range(3):
            on_step("measuring", k, 4)
            clock.now += 12.0
    assert stream.getvalue().splitlines() == [
        "collage: guard: measuring, 1/4, 12 s",
        "collage: guard: measuring, 2/4, 24 s",
    ]


def test_time_that_others_have_the_cpus_is_no_part_of_the_estimate():
    waited = [(2.0 + 0.02 * k, 1, 4, True) for k in range(1, 101)]
    first, *while_waiting, last = etas([(0.0, 0, 4), (2.0, 1, 4), *waited, (6.0, 2, 4)])
    assert first == 6.0 and set(while_waiting) == {None}
    assert last == pytest.approx(4.0, abs=0.05), "as if nobody had been waited for"


def test_steps_of_another_kind_or_done_before_tell_nothing_of_the_time_left():
    assert etas([(0, 0, 2), (20, 1, 2), (40, 0, 30), (41, 1, 30)]) == [20.0, None, 29.0]
    # A search that goes on from a log begins behind what the log has.
    found = etas([(0, 90, 100), (5, 91, 100), (10, 40, 100), (12, 41, 100)])
    assert found == [45.0, None, 118.0]


def test_short_calls_of_a_session_are_no_lines_of_json_each():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(JsonLines(stream), clock)
    for _ in range(150):
        progress.begin(total=1, cached=0)
        clock.now += 0.01
        progress.on_built()
        progress.on_cost(Cost.estimated(1.0))
        progress.end()
    assert [json.loads(line)["done"] for line in stream.getvalue().splitlines()] == [99]
    progress.close()
    progress.close()
    assert [json.loads(line)["done"] for line in stream.getvalue().splitlines()] == [99, 150]


def test_a_view_of_json_tells_of_all_phases_of_many_changes_in_few_lines():
    clock, stream = Clock(), io.StringIO()
    with steps("guard", "json", stream, clock) as on_step:
        for k in range(1000):
            clock.now += 0.01
            on_step("measuring", k, 1000)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert 10 <= len(lines) <= 11 and lines[-1]["done"] == 999


def test_the_guards_json_lines_follow_the_schema_too():
    clock, stream = Clock(), io.StringIO()
    with steps("guard", "json", stream, clock) as on_step:
        clock.now = 2.0
        on_step("building plan tvm", 0, 4)
        on_step("measuring", 4, 4)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [errors(SCHEMA, line) for line in lines] == [[], []]
    assert lines[0]["eta_seconds"] is None and lines[1]["step"] == "measuring"
    assert errors(SCHEMA, {**lines[0], "phase": "other"})


def test_the_schema_and_the_page_know_the_phases_that_the_code_names():
    sources = (ROOT / "tvm/python/tvm/relay/collage").rglob("*.py")
    named = {
        name
        for path in sources
        for name in re.findall(r'\b(?:steps|one_step)\(\s*"([a-z ]+)"', path.read_text())
    }
    assert {"guard", "comparing", "importing"} <= named
    assert sorted(named) == SCHEMA["$defs"]["steps"]["properties"]["phase"]["enum"]
    page = (ROOT / "docs/tools.md").read_text()
    assert [name for name in named if f"`{name}` (" not in page] == []


def test_lines_of_text_come_every_ten_seconds():
    assert lines_of(TextLines, measuring, 4.0) == [
        f"collage: measuring: {done}/4 candidates so far, 2 from memory, 3 from the store, "
        f"1 failed, {seconds} s"
        for done, seconds in [(1, 12), (3, 24)]
    ]


def test_a_line_of_text_comes_ten_seconds_after_that_of_the_phase_before():
    clock, stream = Clock(), io.StringIO()

    def run(name, seconds):
        with phase(name, TextLines(stream, clock), clock, every=3600.0) as running:
            for _ in range(seconds):
                clock.now += 1.0
                running.update(0, 1, "net", {})

    clock.now = 100.0
    run("importing", 7)
    run("preparing", 7)
    assert stream.getvalue() == "collage: preparing: net, 3 s\n"
    clock.now += 100.0
    run("running", 7)
    assert stream.getvalue().count("\n") == 1, "what ended long ago was other work"


@pytest.mark.parametrize("view_class, pause", [(JsonLines, 0.1), (TextLines, 1.0)])
def test_what_is_quick_shows_nothing(view_class, pause):
    assert lines_of(view_class, measuring, pause) == []


def test_the_calls_of_a_session_add_up_without_the_time_between_them():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(TextLines(stream), clock)
    for _ in range(4):
        progress.begin(total=1, cached=1, stored=2)
        clock.now += 2.0
        progress.on_built()
        clock.now += 2.0
        progress.on_cost(Cost.estimated(1.0))
        progress.end()
        clock.now += 100.0
    progress.close()
    assert stream.getvalue().splitlines() == [
        "collage: measuring: 2/3 candidates so far, 3 from memory, 6 from the store, 10 s",
    ]


def test_a_search_is_told_of_between_its_questions_too():
    """As where all costs come from the store, and the search itself takes its time."""
    clock, stream = Clock(), io.StringIO()
    progress = Progress(TextLines(stream), clock)
    with progress.searching():
        clock.now = 12.0
        progress.begin(total=0, cached=0, stored=40)
        progress.end()
        clock.now = 24.0
        progress.begin(total=1, cached=0)
        progress.on_built()
        progress.end()
    clock.now = 200.0
    progress.begin(total=1, cached=0)
    progress.close()
    text = "40 from the store"
    assert stream.getvalue().splitlines() == [
        f"collage: measuring: 0/0 candidates so far, {text}, 12 s",
        f"collage: measuring: 0/1 candidates so far, {text}, 24 s",
    ]


def test_a_search_shows_nothing_while_other_work_is_shown():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(TextLines(stream), clock)
    with progress.searching():
        progress.begin(total=1, cached=0)
        with progress.hidden():
            with contextlib.suppress(ValueError), progress.hidden():
                clock.now = 20.0
                raise ValueError("as a build may")
            clock.now = 30.0
        clock.now = 41.0
        progress.on_built()
    with progress.hidden():  # nor is it shown behind it
        clock.now = 99.0
    progress.close()
    assert stream.getvalue().splitlines() == ["collage: measuring: 0/1 candidates so far, 11 s"]


def test_a_phase_ends_with_an_exception():
    events = []

    class Recorder(ProgressView):
        def show(self, state):
            events.append(state.text)

        def hide(self):
            events.append("hidden")

        def end(self):
            events.append("ended")

    clock = Clock()
    with pytest.raises(KeyboardInterrupt), phase("guard", Recorder(), clock) as running:
        clock.now = 2.0
        running.update(1, 2, "one", {})
        raise KeyboardInterrupt
    assert events == ["one", "hidden", "ended"]


def test_kinds():
    stream = io.StringIO()
    assert type(make_view("quiet", stream)) is ProgressView
    assert isinstance(make_view("json", stream), JsonLines)
    assert isinstance(make_view("auto", stream), TextLines)  # no terminal
    assert isinstance(make_progress("lines"), Progress)
    for kind in ("loud", ""):
        with pytest.raises(ValueError, match="one of auto, rich, lines, quiet, json, not"):
            make_view(kind)
    assert len(PROGRESS) == 5


@pytest.mark.parametrize("kind", PROGRESS)
def test_without_a_standard_error_nothing_goes_to_standard_output(monkeypatch, capsys, kind):
    monkeypatch.setattr(sys, "stderr", None)
    clock = Clock()
    with steps("guard", kind, clock=clock) as on_step:
        clock.now = 20.0
        on_step("measuring", 1, 4)
    assert capsys.readouterr().out == ""


ON_A_TERMINAL = """
import os, sys
from tvm.relay.collage.measure import Cost, Progress
from tvm.relay.collage.messages.progress import make_view

class Clock:
    now = 0.0
    def __call__(self):
        return self.now

for kind, colour in (("auto", None), ("rich", None), ("rich", "1"), ("quiet", None)):
    if colour:
        os.environ["NO_COLOR"] = colour
    clock = Clock()
    progress = Progress(make_view(kind), clock)
    progress.begin(2, 7, 5)
    clock.now = 3.0
    for cost in (Cost.estimated(1.0), Cost.failed("crashed", "x")):
        progress.on_built()
        progress.on_cost(cost)
    progress.end()
    print("next", file=sys.stderr, flush=True)
"""


@pytest.fixture(scope="module")
def terminal():
    """What a terminal at standard error gets of a process that measures: with "auto", "rich",
    "rich" without colours, and "quiet". Nothing goes to standard output."""
    ours, theirs = pty.openpty()
    try:
        done = subprocess.Popen(
            [sys.executable, "-c", ON_A_TERMINAL],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        )
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(ours, 4096):
                shown += piece
        out, _ = done.communicate()
        assert (done.returncode, out) == (0, b""), shown.decode()
        return shown.decode().split("next\r\n")[:-1]
    finally:
        os.close(ours)


def test_a_long_step_is_told_of_again_while_nothing_changes_but_not_in_a_pause():
    clock, shown = Clock(), threading.Event()
    told = []

    class Recorder(ProgressView):
        def show(self, state):
            told.append((state.text, state.seconds, state.eta_seconds))
            shown.set()

    def next_told():
        shown.clear()
        assert shown.wait(5.0), "nothing was told"
        return told[-1]

    with phase("kernels", Recorder(), clock, every=0.01) as running:
        running.update(0, 4, "convolution", {})
        clock.now = 2.0
        assert next_told() == ("convolution", 2.0, None)
        running.update(1, 4, "dense", {})
        clock.now = 5.0
        next_told()  # it may have begun before the clock was set
        assert next_told() == ("dense", 5.0, 3.0), "the time left goes down meanwhile"
        clock.now = 36.0
        next_told()
        assert next_told() == ("dense", 36.0, None), "a step that takes longer than expected"
        running.pause()
        clock.now = 90.0
        count = len(told)
        time.sleep(0.1)
        assert len(told) == count
        running.resume()
        running.update(1, 4, "dense", {})
        assert next_told() == ("dense", 36.0, None), "a pause is no work"
    count = len(told)
    time.sleep(0.1)
    assert len(told) == count, "the phase has ended"


def test_a_step_that_tells_nothing_is_told_of():
    stream = io.StringIO()
    with one_step("finding", "net.onnx", "json", stream):
        end = time.monotonic() + 20.0
        while not stream.getvalue() and time.monotonic() < end:
            time.sleep(0.1)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines and {line["phase"] for line in lines} == {"finding"}
    assert all((line["step"], line["done"], line["total"]) == ("net.onnx", 0, 1) for line in lines)


def test_auto_is_a_bar_on_a_terminal_that_leaves_the_cursor_and_a_last_line(terminal):
    shown = terminal[0]
    assert "measuring" in shown and "\u2501" in shown  # the bar itself
    assert "2/2 candidates so far, 7 from memory, 5 from the store, 1 failed" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is back


def test_a_bar_has_colours_but_where_nobody_wants_them(terminal):
    coloured = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3|4|9|10)[0-9](?:;[0-9]+)*m")
    assert coloured.search(terminal[1]) and not coloured.search(terminal[2])


def test_quiet_is_silent_on_a_terminal_too(terminal):
    assert terminal[3] == ""


def in_steps(kind, seconds):
    clock, stream = Clock(), io.StringIO()
    with steps("guard", kind, stream, clock) as on_step:
        on_step("building plan tvm", 0, 4)
        clock.now = seconds
        on_step("measuring", 4, 4)
    return stream.getvalue()


def test_steps_are_told_after_a_second():
    assert in_steps("lines", 11.0) == "collage: guard: measuring, 4/4, 11 s\n"
    assert [in_steps(kind, 0.5) for kind in ("auto", "lines", "rich", "json")] == [""] * 4
    assert in_steps("quiet", 20.0) == ""
