# SPDX-License-Identifier: Apache-2.0
"""Candidates are timed on copies of their weights where it may tell; a fake device has a cache."""

import json
from importlib import import_module

import numpy as np
import pytest
import tvm
from tvm import relay

build_step = import_module("tvm.relay.collage.costs.build_step")
cold_weights = import_module("tvm.relay.collage.timing.cold_weights")
timing = import_module("tvm.relay.collage.timing.timing")
weights = import_module("tvm.relay.collage.costs.weights")
candidates = import_module("tvm.relay.collage.costs.candidate")
MB = 1 << 20


@pytest.mark.parametrize(
    "size, run_seconds, copies",
    [
        (0, 1e-3, 1),  # no weights
        (2304 << 10, 0.3e-3, 8),  # BERT's 768x768
        (9 * MB, 1e-3, 4),  # its 3072x768: as many as exceed the caches, and no more
        (32 * MB, 1e-3, 1),  # one copy is more than any cache holds
        (400 * MB, 50e-3, 1),  # a whole net
        (144 << 10, 1e-3, 1),  # a convolution of large images: its weights are nothing to its time
        (144 << 10, 1e-5, 8),
    ],
)
def test_as_many_copies_as_exceed_the_caches_where_it_may_tell(size, run_seconds, copies):
    assert cold_weights.copies_needed(size, run_seconds) == copies


class Device:
    """A clock that only runs pass: one second, ten where the weights are not those of before."""

    def __init__(self):
        self.now, self.cached, self.ran = 0.0, None, []

    def run(self, weights):
        self.now += 1 if weights == self.cached else 10
        self.cached = weights
        self.ran.append(weights)


@pytest.mark.parametrize("copies, seconds", [(1, 1.0), (3, 10.0)])
def test_runs_go_round_the_copies_from_sample_to_sample(copies, seconds, monkeypatch):
    device = Device()
    monkeypatch.setattr(cold_weights.time, "perf_counter", lambda: device.now)
    runs = [lambda k=k: device.run(k) for k in range(copies)]
    timer = cold_weights.seconds_in_turn(runs)
    assert device.ran == [*range(copies)], "each has packed its weights before time is taken"
    assert timer(2, 4) == [seconds] * 4
    assert device.ran[copies:] == [k % copies for k in range(8)]


def dense(size):
    weight = np.random.default_rng(0).standard_normal((size, size)).astype("float32")
    x = relay.var("x", shape=(4, size))
    return relay.Function([x], relay.nn.dense(x, relay.const(weight)))


def test_each_copy_has_weights_of_its_own(tmp_path, monkeypatch):
    """Through the steps of a worker: a library of 1 MB of weights is opened eight times, one of
    16 kB once, and its parts are other objects each time."""
    opened = []

    def load(path, fmt=""):
        opened.append(load_module(path, fmt))
        return opened[-1]

    load_module = tvm.runtime.load_module
    monkeypatch.setattr(tvm.runtime, "load_module", load)
    target = "llvm -mcpu=" + tvm.target.codegen.llvm_get_system_cpu()
    for size, copies in ((64, 1), (512, 8)):
        file = str(tmp_path / f"{size}.so")
        candidate = candidates.candidate_module(dense(size), "tvm", target)
        build = build_step.build_candidate(
            candidate.to_json(), file, "measure_fakes:stock_build", 0, ""
        )
        assert build["weight_bytes"] == size * size * 4
        found = timing.measure_library(
            file, json.loads(json.dumps(build)), None, (), False, 0, 0.02, 0.1, 1e-3, ""
        )
        assert len(opened) == copies and all(s > 0 for s in found["samples"])
        opened.clear()


def test_a_weight_that_two_functions_share_counts_once():
    function = dense(64)
    mod = tvm.IRModule({"main": function, "other": function})
    assert weights.weight_bytes(mod) == 64 * 64 * 4
    few = relay.Function([], relay.const(np.zeros(16, "float32")))
    assert weights.weight_bytes(tvm.IRModule.from_expr(few)) == 0
