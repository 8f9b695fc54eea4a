# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the Winograd kernel: a small net on both sides, and what it says of others."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "bench"))

import models
import winograd
from models.graph import Graph


def small_model(batch=1):
    g = Graph("small")
    x = g.conv(g.input("x", (batch, 64, 16, 16)), 64, 3)
    return g.model(g.relu(g.conv(x, 64, 3)))


@pytest.fixture
def nets(monkeypatch):
    """The bench knows these nets by name."""
    builders = {"small": small_model, "bad": lambda batch: Path("no/such/file").read_bytes()}
    nets = {name: models.Net(name, name, build, "test") for name, build in builders.items()}
    monkeypatch.setattr(models, "find", lambda names: [nets[name] for name in names.split(",")])


def test_a_net_on_both_sides(nets, capfd):
    assert winograd.main(["--nets", "small", "--rounds", "2", "--threads", "2"]) == 0
    said = capfd.readouterr().out
    figures = r"small: oneDNN \d+\.\d+ ms, with Winograd \d+\.\d+ ms: \d\S* \[\S+, \S+\] times as"
    assert re.search(figures, said), said
    assert 0 < float(said.split()[-1]) < 1e-4, "two kernels, hence not the same numbers"


def test_a_net_that_is_not_there_is_left_out(nets, capfd):
    assert winograd.main(["--nets", "bad"]) == 1
    assert "bad: left out" in capfd.readouterr().err
