# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the Winograd kernel: a small net on both sides, and what it says of others."""

import re

import bench_nets
import pytest
import winograd


@pytest.fixture
def nets(monkeypatch):
    bench_nets.know_nets(monkeypatch, channels=64)


def test_a_net_on_both_sides(nets, capfd):
    assert winograd.main(["--nets", "small", "--rounds", "2", "--threads", "2"]) == 0
    said = capfd.readouterr().out
    figures = r"small: oneDNN \d+\.\d+ ms, with Winograd \d+\.\d+ ms: \d\S* \[\S+, \S+\] times as"
    assert re.search(figures, said), said
    assert 0 < float(said.split()[-1]) < 1e-4, "two kernels, hence not the same numbers"


def test_a_net_that_is_not_there_is_left_out(nets, capfd):
    assert winograd.main(["--nets", "bad"]) == 1
    assert "bad: left out" in capfd.readouterr().err
