# SPDX-License-Identifier: Apache-2.0
"""The benchmark of calls: a small net on all sides, and what it says of others."""

import re

import bench_nets
import pytest
import runner
from tvm.relay.collage.measure import Comparison, Cost


@pytest.fixture
def nets(monkeypatch):
    bench_nets.know_nets(monkeypatch, channels=16)


@pytest.mark.slow("a net searched, and timed on all sides")
def test_a_net_on_all_sides_and_one_that_is_not_there(nets, capfd):
    assert (
        runner.main(
            ["--nets", "two_inputs,bad", "--rounds", "2", "--threads", "1", "--pause", "1.5"]
        )
        == 1
    )
    said = capfd.readouterr()
    machine, title, heads, *lines = said.out.splitlines()
    assert re.fullmatch(r".+, \d+ CPUs, 1 threads", machine)
    assert re.fullmatch(r"two_inputs +call after call +after 1.5 ms of sleep", title)
    assert heads.count("beyond the run alone") == 2
    figures = {re.split(r"\s{2,}", line.strip())[0]: line for line in lines}
    assert list(figures) == [*runner.OURS, "onnxruntime", "onnxruntime, bound"]
    interval = r"\[\S+, \S+\]"
    for name, line in figures.items():
        beyond = rf"[+-]\d+\.\d {interval} us +" if name in ("runner", "GraphModule") else ""
        way = rf" +\d+\.\d +{beyond}\d+\.\d\d {interval}"
        assert re.fullmatch(rf"  {name}{way}{way}", line), line
    assert "bad: left out" in said.err


def test_what_is_beyond_the_run_alone_is_compared_round_by_round():
    def side(name, microseconds):
        samples = tuple(1e-6 * each for each in microseconds)
        return Comparison(name, Cost.measured(samples, by_quartile=False), samples=samples)

    alone = [20, 40, 20, 40, 20, 40]
    found = [
        side("run alone", alone),
        side("runner", [each + 5 for each in alone]),
        side("GraphModule", [each + 100 for each in alone]),
        Comparison("onnxruntime", Cost.failed("run_failed", "it broke")),
    ]
    text = runner.text_of("net", {"a way": found})
    assert re.search(r"^  runner +35.0  \+5.0 \[\+5.0, \+5.0\] us", text, re.MULTILINE)
    assert re.search(r"^  GraphModule +130.0  \+100.0 \[", text, re.MULTILINE)
    assert "it broke" in text
    failed = Comparison("runner", Cost.failed("run_failed", "it broke"))
    with pytest.raises(RuntimeError, match="runner: .*it broke"):
        runner.text_of("net", {"a way": [found[0], failed, found[2]]})
