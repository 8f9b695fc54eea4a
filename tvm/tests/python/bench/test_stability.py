# SPDX-License-Identifier: Apache-2.0
"""bench/stability.py: what its judge says of rounds that were made up, its neighbour, and builds of
a small net through all of it."""

import collections
import os
import signal
import time
import types

import models
import pytest
import stability
import tvm
from bench_nets import small_classifier
from harness import neighbour, records
from harness.sides import Files, with_threads
from tvm.relay.collage.measure import Comparison, Cost


def timed(name, seconds, count=20):
    samples = tuple(seconds * (1 + 0.001 * (k % 3)) for k in range(count))
    return Comparison(name, Cost.measured(samples), samples=samples)


def timed_widely(name):
    wide = ((1.4, 1.4, 1.4, 0.9, 0.9, 1.4) * 4)[:20]
    return Comparison(name, Cost.measured(wide), samples=wide)


def test_a_plan_that_is_slower_than_another_or_than_a_backend_alone_is_told():
    found = [timed("mix", 1.0), timed("mix'", 1.01), timed("dnnl", 1.03), timed("tvm alone", 9, 3)]
    plans = stability.judge(found, {"mix": 8, "mix'": 2}, ["dnnl", "tvm alone"])
    table = stability.summary({"plans": plans})
    assert not stability.too_slow(plans) and "itself" in table
    assert "1.010" in table and "(mix)" in table and "0.971" in table and "(dnnl)" in table
    slow = stability.too_slow(stability.judge(found, {"mix": 8, "dnnl": 2}, ["dnnl", "tvm alone"]))
    assert len(slow) == 1 and slow[0].startswith("dnnl takes 1.030")
    found.append(timed("openvino", 0.9))
    slow = stability.too_slow(stability.judge(found, {"mix": 1}, ["dnnl", "openvino"]))
    assert len(slow) == 1 and slow[0].endswith("openvino, the fastest backend alone")


def test_a_plan_that_left_since_it_is_far_slower_is_told():
    found = [timed("mix", 1.0), timed("mix'", 9, 6)]
    slow = stability.too_slow(stability.judge(found, {"mix": 1, "mix'": 1}, []))
    assert len(slow) == 1 and slow[0].startswith("mix' takes 9.0")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--rounds", "11"], "--rounds must be at least 12"),
        (["--collage", "store=none"], "--collage store is no setting here"),
    ],
)
def test_what_is_refused(given, why, capsys):
    with pytest.raises(SystemExit):
        stability.parse(given)
    assert why in capsys.readouterr().err


def test_a_wide_interval_is_no_fault():
    plans = stability.judge([timed("mix", 1.0), timed_widely("mix'")], {"mix": 1, "mix'": 1}, [])
    assert stability.too_slow(plans) == [] and len(stability.too_slow(plans, surely=False)) == 1


def test_a_plan_that_failed_is_an_error():
    failed = Comparison("mix", Cost.failed("crashed", "signal 11"))
    with pytest.raises(RuntimeError, match="mix: crashed"):
        stability.judge([failed], {"mix": 1}, [])


def test_the_neighbour_computes_during_the_block_and_is_gone_after_it(monkeypatch):
    started = []
    original = neighbour._started
    monkeypatch.setattr(
        neighbour, "_started", lambda what: started.append(original(what)) or started[-1]
    )
    with neighbour.busy():
        [process] = started
        began = _cpu_seconds(process.pid)
        end = time.monotonic() + 10
        while _cpu_seconds(process.pid) - began < 0.05 and time.monotonic() < end:
            time.sleep(0.02)
        assert _cpu_seconds(process.pid) - began >= 0.05
    assert process.returncode == -signal.SIGKILL


def _cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Library:
    def export_library(self, file):
        pass


def result_of(plan, mod, *singles):
    rows = [Comparison(plan, Cost.given(1.0)), *singles]
    guard = types.SimpleNamespace(comparisons=rows, libraries=collections.defaultdict(Library))
    return types.SimpleNamespace(plan=plan, mod=mod, guard=guard)


def test_equal_plans_of_several_builds_are_one_contestant(monkeypatch, tmp_path):
    def relay_mod(op):
        x = tvm.relay.var("x", shape=(2,))
        return tvm.IRModule.from_expr(op(x))

    one, other = relay_mod(tvm.relay.exp), relay_mod(tvm.relay.tanh)
    dnnl = Comparison("dnnl", Cost.given(2.0))
    same = Comparison("cblas", Cost.given(2.0), same_as="tvm")
    answers = [
        result_of("collage", one, dnnl, same),
        result_of("collage-merged", one, dnnl),
        result_of("collage", other, dnnl),
        result_of("dnnl", other),
    ]
    monkeypatch.setattr(stability.models, "to_relay", lambda model: (None, None))
    monkeypatch.setattr(stability.collage, "optimize", lambda *given: answers.pop(0))
    builds = stability.Builds(Files(tmp_path, None, "", "", {}))
    options = types.SimpleNamespace(backends=["dnnl"], collage=[])
    names = [builds.build(options, True) for _ in range(4)]
    assert names == ["collage", "collage", "collage'", "dnnl"]
    assert builds.shipped == {"collage": 2, "collage'": 1, "dnnl": 1}
    assert builds.singles == ["dnnl"] and list(builds.contestants) == [
        "collage",
        "dnnl",
        "collage'",
    ]


def test_the_page_says_what_shipped_and_where_it_was_too_slow(tmp_path):
    found = [timed("mix", 1.0), timed("mix'", 1.2), timed("dnnl", 1.5), timed_widely("wide")]
    origin = {"date": "2026-11-26", "conditions": {"machine": {"cpu": "a CPU", "cores": 2}}}
    record, page = tmp_path / "stability.jsonl", tmp_path / "page.md"
    shipped = (
        ("good", {"mix": 10}), ("bad", {"mix": 8, "mix'": 2}), ("open", {"mix": 1, "wide": 1})
    )  # fmt: skip
    for name, builds in shipped:
        key = {"net": name, "batch": 1, "backends": "dnnl", "neighbour": name == "bad"}
        plans = stability.judge(found, builds, ["dnnl"])
        records.save(record, stability.KEY, {**key, **origin, "plans": plans})
    marks = [f"<!-- stability.jsonl: {end} -->\n" for end in ("begin", "end")]
    page.write_text("".join(marks))
    given = ["--record", str(record), "--docs", str(page), "--write-docs"]
    assert stability.main(given) == 0
    text = page.read_text()
    assert "| good | 1 | dnnl | none | mix | 10 | 1001.000 | itself | 0.667" in text
    assert "| bad | 1 | dnnl | one | mix' | 2 |" in text
    told = "shipped in 2 of 3 comparisons by the median, and in 1 with all of the interval."
    assert f"{told} a CPU, 2 CPUs; 2026-11-26." in text


@pytest.mark.slow("three builds of a net, measured")
def test_builds_of_a_small_net(monkeypatch, capsys, tmp_path):
    for name in with_threads(1):
        monkeypatch.setenv(name, "2")
    monkeypatch.setitem(models.NETS, "small", models.Net("small", "a net", small_classifier, ""))
    given = ["--nets", "small", "--builds", "2", "--rounds", "12", "--threads", "1"]
    for setting in ("measure_seconds=0.01", "guard_rounds=6", "guard_seconds=0.1"):
        given += ["--collage", setting]
    given += ["--backends", "dnnl", "--neighbour", "--record", str(tmp_path / "stability.jsonl")]
    status = stability.main(given)
    told = capsys.readouterr()
    assert status == bool(told.err)
    assert os.environ["TVM_NUM_THREADS"] == "1"
    names = [line.rpartition(": ")[2] for line in told.out.splitlines() if "  build " in line]
    [record] = records.load(tmp_path / "stability.jsonl", stability.KEY).values()
    assert record["net"] == "small" and record["neighbour"] and len(names) == 2
    assert {plan["plan"]: plan["builds"] for plan in record["plans"]} == collections.Counter(names)
    assert all("backend alone" in plan["over"] for plan in record["plans"])
    assert stability.main(given) == status
    assert "is in stability.jsonl" in capsys.readouterr().out
