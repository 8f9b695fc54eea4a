# SPDX-License-Identifier: Apache-2.0
"""Candidates are timed with weights that are not in caches and with threads that are asleep, where
it may tell; a fake device has both."""

import ctypes
import itertools
import json
import resource
import time
from importlib import import_module

import numpy as np
import pytest
import tvm
from measure_fakes import timing_of
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import measure

build_step = import_module("tvm.relay.collage.measure.builder")
in_network = import_module("tvm.relay.collage.measure.profiler.in_network")
weights = import_module("tvm.relay.collage.candidate.weights")
timing = import_module("tvm.relay.collage.measure.profiler.profile")
steps = import_module("tvm.relay.collage.measure.steps")
candidates = import_module("tvm.relay.collage.candidate.candidate")
MB = 1 << 20
ONE_COPY = in_network.ONE_COPY


@pytest.mark.parametrize(
    "size, run_seconds, needed",
    [
        (0, 1e-3, (1, 0)),  # neither weights nor values inside
        (2304 << 10, 0.3e-3, (8, 32 * MB - 8 * (2304 << 10))),  # BERT's 768x768
        (9 * MB, 1e-3, (3, 5 * MB)),  # its 3072x768: what caches hold, and no more
        (32 * MB, 1e-3, (1, 0)),  # one copy is all that caches hold
        (400 * MB, 50e-3, (1, 0)),  # a whole net
        (144 << 10, 1e-3, (1, 0)),  # a convolution of large images: weights are nothing to its time
        (144 << 10, 1e-5, (8, 32 * MB - 8 * (144 << 10))),
    ],
)
def test_a_lap_reads_as_much_as_caches_hold_where_it_may_tell(size, run_seconds, needed):
    assert in_network.lap_needed(size, 0, run_seconds) == needed


@pytest.mark.parametrize(
    "size, network_bytes, needed",
    [
        (14 * MB, 16 * MB, (1, 2 * MB)),  # all of a small net: its weights stay in the caches
        (4 * MB, 16 * MB, (4, 0)),
        (MB, 16 * MB, (8, 8 * MB)),
        (144 << 10, 256 << 10, (1, 112 << 10)),
        (20 * MB, 16 * MB, (1, 0)),  # more than its network has, which knows powers of two
        (MB, 0, (1, 0)),
    ],
)
def test_a_lap_reads_no_more_than_its_network(size, network_bytes, needed):
    assert in_network.lap_needed(size, 0, 1e-6, network_bytes) == needed


@pytest.mark.parametrize(
    "size, inside, needed",
    [
        (0, 10 * MB, (1, 6 * MB)),  # no weights: its memory was written over meanwhile
        (0, 2 * MB, (8, 14 * MB)),
        (MB, 3 * MB, (4, 9 * MB)),  # whose copies may share what is inside
        (4 * MB, 12 * MB, (1, 0)),  # all of a net
        (0, 4 << 10, ONE_COPY),  # nothing, in a run of a millisecond
    ],
)
def test_the_memory_inside_is_cold_as_weights_are(size, inside, needed):
    assert in_network.lap_needed(size, inside, 1e-3, 16 * MB) == needed


class Device:
    """A clock that only what runs passes: a run takes a second; nine more where the weights are not
    those of before, four more where the pool ran before, which sleeps then: it takes three of them.
    """

    def __init__(self):
        self.now, self.cached, self.ran, self.last = 0.0, None, [], None

    def run(self, weights):
        self.now += 1 if weights == self.cached else 10
        self.now += 4 if self.last == "pool" else 0
        self.cached, self.last = weights, "run"
        self.ran.append(weights)

    def work(self):
        self.now += 5 if self.last != "run" else 8
        self.last = "pool"
        self.ran.append("pool")


@pytest.mark.parametrize("copies, seconds", [(1, 1.0), (3, 10.0)])
def test_runs_go_round_the_copies_from_sample_to_sample(copies, seconds):
    device = Device()
    runs = [in_network.Copy(lambda k=k: device.run(k)) for k in range(copies)]
    timer = in_network.seconds_in_turn(runs, clock=lambda: device.now)
    assert device.ran == [*range(copies)], "each has packed its weights before time is taken"
    assert timer(2, 4) == [seconds] * 4
    assert device.ran[copies:] == [k % copies for k in range(8)]


def test_what_is_read_before_a_lap_and_before_a_run_takes_none_of_its_time():
    device = Device()

    def spend(what):
        device.now += 100
        device.ran.append(what)

    copies = [
        in_network.Copy(lambda k=k: device.run(k), lambda k=k: spend(f"inputs {k}"))
        for k in range(2)
    ]
    timer = in_network.seconds_in_turn(copies, lambda: spend("others"), clock=lambda: device.now)
    device.ran.clear()
    assert timer(3, 1) == [10.0]
    assert device.ran == ["others", "inputs 0", 0, "inputs 1", 1, "others", "inputs 0", 0]
    assert timer(1, 1) == [10.0]
    assert device.ran[-2:] == ["inputs 1", 1], "the lap goes on where the last sample ended"


def test_all_of_an_array_is_read():
    """Memory that nobody has touched has no pages until it is read, of 2 MB at most each."""

    def new_pages(run):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        run()
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    read = in_network.reading([tvm.nd.empty((128 * MB,), "int8")])
    assert new_pages(read) >= 64
    assert new_pages(read) < 64


@pytest.mark.parametrize("count", [-1, 65])
def test_no_more_than_an_array_is_read(count):
    read = tvm.get_global_func("collage.read_bytes")
    with pytest.raises(tvm.TVMError, match=f"{count} of 64 bytes"):
        read(tvm.nd.empty((16,)), count)


def test_empty_arrays_are_read():
    read = in_network.reading([tvm.nd.empty((0, 4)), tvm.nd.empty((), "int8")])
    assert read() is None and in_network.reading_bytes(0)() is None


def one(device):
    return [in_network.Copy(lambda: device.run(0))]


def work(device, slow=(), wait_seconds=100):
    """Of five seconds; the first times it takes so much longer."""
    slow = iter(slow)

    def run():
        device.work()
        device.now += next(slow, 0.0)

    return in_network.Interlude(run, 5.0, wait_seconds)


def test_waking_the_threads_of_both_pools_is_part_of_a_run():
    device = Device()
    timer = in_network.seconds_in_turn(
        one(device), in_network.nothing, work(device), lambda: device.now
    )
    assert timer(3, 2) == [1 + 4 + 3] * 2
    assert device.ran[-6:] == [0, "pool"] * 2 + ["pool"] * 2


def test_work_that_was_slow_for_a_while_is_not_taken_for_what_it_takes():
    """Threads of the pool that share a core behind the first runs: seen as runs of no time."""
    device = Device()
    between = work(device, slow=[9.0] * 30, wait_seconds=1e3)
    timer = in_network.seconds_in_turn(one(device), in_network.nothing, between, lambda: device.now)
    assert timer(3, 2) == [1 + 4 + 3] * 2


def test_work_that_was_slow_for_longer_than_is_waited_counts_until_it_is_faster():
    """Another program had a core all the while: runs seemed to take no time at all, for good."""
    device = Device()
    between = work(device, slow=[9.0] * 14)
    timer = in_network.seconds_in_turn(one(device), in_network.nothing, between, lambda: device.now)
    found = [*timer(1, 1), *timer(3, 2)]
    assert min(found) >= 1 + 4 + 3, "too long while it is slow, and never too short"
    assert timer(3, 2) == [1 + 4 + 3] * 2


def test_work_that_is_always_slow_is_not_waited_for_for_ever():
    device = Device()
    between = work(device, slow=itertools.repeat(9.0))
    timer = in_network.seconds_in_turn(one(device), in_network.nothing, between, lambda: device.now)
    assert len(device.ran) < 12
    assert timer(3, 2) == [1 + 4 + 3] * 2


def test_a_run_takes_some_time_even_if_the_work_beside_it_once_took_less():
    times = itertools.count(0, -1)
    between = in_network.Interlude(int, 1.0)
    timer = in_network.seconds_in_turn(
        [in_network.Copy(int)], in_network.nothing, between, lambda: float(next(times))
    )
    assert timer(1, 1)[0] > 0


def test_the_pool_that_works_is_tvms():
    launches = ctypes.CDLL(None).CollagePoolLaunchCount
    before = launches()
    begin, work = time.perf_counter(), in_network.pool_works()
    work.run()
    assert launches() > before
    assert time.perf_counter() - begin >= work.seconds > 0


@pytest.mark.parametrize(
    "backend, has",
    [
        ("tvm", False),
        ("dnnl", False),
        ("onnxruntime", True),
        ("openvino", True),
        ("no such", False),
    ],
)
def test_whose_threads_are_its_own(backend, has):
    candidate = candidates.candidate_module(dense(8), backend, "llvm")
    job = steps.measure_job(measure.MeasureOptions(), candidate, "f.so", {}, None)
    assert job.arguments["arguments"]["timing"]["has_own_threads"] == has


def dense(size):
    weight = np.random.default_rng(0).standard_normal((size, size)).astype("float32")
    x = relay.var("x", shape=(4, size))
    return relay.Function([x], relay.nn.dense(x, relay.const(weight)))


def test_each_copy_has_weights_of_its_own(tmp_path, monkeypatch):
    """Through the steps of a worker: a library is opened as often as its weights are wanted, and
    its parts are other objects each time."""
    opened = []
    monkeypatch.setattr(
        in_network, "lap_needed", lambda size, *_, **__: in_network.Lap(8 if size == MB else 1, 0)
    )

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
        found = timing.measure_library(file, json.loads(json.dumps(build)), None, (), timing_of())
        assert len(opened) == copies and all(s > 0 for s in found["samples"])
        opened.clear()


def test_borders_take_no_longer_where_weights_come_from_memory(tmp_path, monkeypatch):
    """Half of a run again and again is borders: half of the samples on one copy; on many, whose
    runs take a second here, still the half of a run on one."""
    monkeypatch.setattr(timing, "border_share", lambda *_: 0.5)
    monkeypatch.setattr(
        in_network, "lap_timer", lambda *_, **__: lambda number, repeat: [1.0] * repeat
    )
    file = str(tmp_path / "part.so")
    candidate = candidates.candidate_module(dense(64), "tvm", "llvm")
    build = build_step.build_candidate(
        candidate.to_json(), file, "measure_fakes:stock_build", 0, ""
    )

    def measured(copies):
        monkeypatch.setattr(in_network, "lap_needed", lambda *_, **__: in_network.Lap(copies, 0))
        return timing.measure_library(file, build, None, (), timing_of(split_borders=True))

    one, many = measured(1), measured(8)
    assert np.median(one["samples"]) == pytest.approx(one["border_seconds"])
    assert 0 < many["border_seconds"] < 0.1
    assert many["samples"][0] == pytest.approx(1.0 - many["border_seconds"])


def test_parts_on_threads_of_their_own_are_timed_between_work_of_the_pool(tmp_path, monkeypatch):
    if collage.backends.get_backend("onnxruntime").available():
        pytest.skip("onnxruntime is not installed")
    worked = []
    work = in_network.Interlude(lambda: worked.append(1), 1.0)
    monkeypatch.setattr(in_network, "pool_works", lambda: work)
    mod = collage.backends.greedy_partition(tvm.IRModule.from_expr(dense(8)), "onnxruntime")
    candidate = candidates.candidate_module(mod, "onnxruntime", "llvm")
    file = str(tmp_path / "part.so")
    build = build_step.build_candidate(
        candidate.to_json(), file, measure.MeasureOptions().builder, 0, ""
    )
    for has_own_threads in (True, False):
        worked.clear()
        found = timing.measure_library(
            file, build, None, (), timing_of(has_own_threads=has_own_threads)
        )
        assert all(s > 0 for s in found["samples"])
        assert (len(worked) >= len(found["samples"])) == has_own_threads


def test_a_weight_that_two_functions_share_counts_once():
    function = dense(64)
    mod = tvm.IRModule({"main": function, "other": function})
    assert weights.weight_bytes(mod) == 64 * 64 * 4
    few = relay.Function([], relay.const(np.zeros(16, "float32")))
    assert weights.weight_bytes(tvm.IRModule.from_expr(few)) == 0
