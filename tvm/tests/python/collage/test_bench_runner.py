# SPDX-License-Identifier: Apache-2.0
"""The benchmark of calls: a small net on all sides, and what it says of others."""

import re

import bench_nets
import pytest
import runner


@pytest.fixture
def nets(monkeypatch):
    bench_nets.know_nets(monkeypatch, channels=16)


def test_a_net_on_all_sides_and_one_that_is_not_there(nets, capfd):
    assert runner.main(["--nets", "two_inputs,bad", "--rounds", "2", "--threads", "1"]) == 1
    said = capfd.readouterr()
    machine, title, *lines = said.out.splitlines()
    assert re.fullmatch(r".+, \d+ CPUs, 1 threads", machine)
    assert title.startswith("two_inputs: median")
    sides = {"runner", "GraphModule", "run alone", "onnxruntime"}
    figures = {re.split(r"\s{2,}", line.strip())[0]: line for line in lines}
    assert set(figures) == sides
    for name, line in figures.items():
        assert re.search(r"\d+\.\d us .* \d+\.\d\d \[\d+\.\d\d, (\d+\.\d\d|inf)\]$", line), line
        assert line.count(" us ") == (1 if name == "onnxruntime" else 2), line
    assert "bad: left out" in said.err
