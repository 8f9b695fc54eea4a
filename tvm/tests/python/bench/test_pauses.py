# SPDX-License-Identifier: Apache-2.0
"""The benchmark of nets that run after pauses, on a net of two convolutions."""

import re

import bench_nets
import pauses
import pytest
from peer import paused


@pytest.fixture
def nets(monkeypatch):
    bench_nets.know_nets(monkeypatch, channels=8)


@pytest.mark.parametrize("backend, pause", [("dnnl", 3), ("tvm", 0)])
def test_each_side_has_its_figures(nets, capfd, backend, pause):
    arguments = ["--nets", "small", "--rounds", "2", "--pauses", str(pause), "--backend", backend]
    assert pauses.main(arguments) == 0
    said = capfd.readouterr().out
    assert f"small, a pause of {pause} ms before each run:" in said
    for side in (pauses.OURS, pauses.UNTOUCHED):
        figures = rf"^  {side}  +\d+\.\d\d ms  \d\S* \[\S+, \S+\]$"
        assert len(re.findall(figures, said, re.MULTILINE)) == 1, said


def test_a_net_that_is_not_there_is_left_out(nets, capfd):
    assert pauses.main(["--nets", "bad"]) == 1
    assert "bad: left out" in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--nets", "mobilnet"], "unknown net mobilnet: choose of "),
        (["--backend", "dnll"], "unknown backend 'dnll'"),
    ],
)
def test_what_is_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        pauses.main(arguments)
    assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_pauses_are_made_and_not_counted(monkeypatch):
    now = [0.0]

    def pass_time(seconds):
        now[0] += seconds

    class Model:
        def run(self):
            pass_time(1.0)

    monkeypatch.setattr(paused, "resolve", lambda factory: Model)
    monkeypatch.setattr(paused.time, "sleep", pass_time)
    monkeypatch.setattr(paused.time, "perf_counter", lambda: now[0])
    assert paused.open_paused("any:factory", {}, 5.0).seconds(3) == 3.0
    assert now[0] == 18.0
