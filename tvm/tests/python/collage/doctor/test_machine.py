# SPDX-License-Identifier: Apache-2.0
"""What `collage doctor` reads: made-up files, a made-up clock, and once this very machine."""

import os
import threading

import pytest
from store_rows import row
from tvm.relay.collage import doctor, host_target
from tvm.relay.collage.doctor import machine
from tvm.relay.collage.doctor.noise import measure_noise, measure_sharing
from tvm.relay.collage.machine.compiler import find_compiler
from tvm.relay.collage.store import CostStore
from tvm_collage.threads import cores_of


def write(root, **files):
    for path, text in files.items():
        file = root / path.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_governors_are_those_of_the_allowed_cpus(tmp_path):
    for cpu, name in enumerate(("performance", "performance", "powersave")):
        write(tmp_path, **{f"sys__devices__system__cpu__cpu{cpu}__cpufreq__scaling_governor": name})
    assert machine.read_governors(tmp_path, {0, 1}) == ("performance",)
    assert machine.read_governors(tmp_path, {0, 2}) == ("performance", "powersave")
    assert machine.read_governors(tmp_path, {7}) == ()


def test_frequency_and_memory(tmp_path):
    assert machine.read_megahertz(tmp_path) is None and machine.read_memory(tmp_path) is None
    write(
        tmp_path,
        proc__cpuinfo="processor\t: 0\ncpu MHz\t\t: 2599.998\ncpu MHz : 1.0\n",
        proc__meminfo="MemTotal: 9 kB\nMemAvailable:    2048 kB\n",
    )
    assert machine.read_megahertz(tmp_path) == 2599.998
    assert machine.read_memory(tmp_path) == 2048 * 1024


def test_the_compiler_is_cxx_or_one_on_the_path(tmp_path):
    for name in ("clang++", "gcc", "my-c++"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    path = {"PATH": str(tmp_path)}
    assert find_compiler(path) == str(tmp_path / "gcc"), "in the order that TVM looks in"
    assert find_compiler({**path, "CC": "my-c++"}) == str(tmp_path / "my-c++")
    assert find_compiler({**path, "CXX": "my-c++"}) == str(tmp_path / "my-c++")
    assert find_compiler({**path, "CXX": "no-such-c++"}) == ""
    assert find_compiler({"PATH": ""}) == ""


def test_stores(tmp_path):
    file = tmp_path / "costs.sqlite"
    assert machine.read_store(str(file)) == (str(file), None, "", False)
    with CostStore(file) as store:
        store.put(row())
    assert machine.read_store(str(file)) == (str(file), 1, "", False)
    assert machine.read_store("none") == (None, None, "", False)
    mistyped = tmp_path / "mistyped" / "folder" / "costs.sqlite"
    path, costs, error, _ = machine.read_store(str(mistyped))
    assert (path, costs) == (str(mistyped), None) and f"no folder {mistyped.parent.parent}" in error
    file.write_text("no database at all, but long enough to be taken for one" * 99)
    path, costs, error, is_older = machine.read_store(str(file))
    assert (path, costs, is_older) == (str(file), None, False) and str(file) in error


def test_free_space_is_that_of_the_first_folder_that_exists(tmp_path):
    free = machine.free_bytes(str(tmp_path), str(tmp_path / "not" / "yet" / "costs.sqlite"))
    assert list(free) == [str(tmp_path)] and free[str(tmp_path)] > 0
    assert list(machine.free_bytes("/", None)) == ["/"]


class Clock:
    """Time passes only where work is done."""

    def __init__(self, together, slow=()):
        self.now, self.runs = 0.0, 0
        self.together, self.slow = together, slow
        self.lock = threading.Lock()

    def __call__(self):
        return self.now

    def work(self, repeats):
        is_alone = threading.current_thread() is threading.main_thread()
        with self.lock:
            self.runs += is_alone
            factor = self.slow[self.runs % len(self.slow)] if is_alone and self.slow else 1.0
            self.now += 1e-3 * repeats * (factor if is_alone else self.together)


@pytest.mark.parametrize("share, speed_up", [(1.0, 1.0), (0.25, 4.0), (0.5, 2.0)])
def test_speed_up_is_the_work_done_at_once(share, speed_up):
    """Four threads that each hold the clock up for a share of the work."""
    clock = Clock(share)
    noise = measure_noise(4, clock.work, clock)
    assert noise == pytest.approx((0.0, 4, speed_up), abs=1e-6)


def test_threads_that_run_at_once_have_a_core_each():
    """Kernels that leave new threads on one CPU made two idle cores look like one."""
    allowed, seen, lock = os.sched_getaffinity(0), [], threading.Lock()
    clock = Clock(1.0)

    def work(repeats):
        clock.work(repeats)
        if threading.current_thread() is not threading.main_thread():
            with lock:
                seen.append(os.sched_getaffinity(0))

    cores = len(cores_of(allowed))
    measure_noise(cores, work, clock)
    rounds = [seen[i : i + cores] for i in range(0, len(seen), cores)]
    assert all(len(set.union(*each)) == cores and set.union(*each) <= allowed for each in rounds)
    assert {len(cpus) for cpus in seen} == {1} and os.sched_getaffinity(0) == allowed


def test_spread_is_between_percentiles():
    steady, shaky = Clock(1.0), Clock(1.0, slow=(1.0, 1.1, 1.2))
    assert measure_noise(1, steady.work, steady).spread == pytest.approx(0.0, abs=1e-6)
    assert measure_noise(1, shaky.work, shaky).spread == pytest.approx(0.2 / 1.1, rel=0.01)


class Pool:
    """A thread pool whose threads share a CPU in so many of the wakes after its first."""

    def __init__(self, threads, answers):
        self.CollagePoolNumThreads = lambda: threads
        self.CollagePoolThreadsThatShare = iter([1, *answers]).__next__


def test_sharing_is_of_the_pauses_after_the_team_was_made():
    assert measure_sharing(Pool(4, [0, 2, 0, 3]), pauses=4) == 0.5
    assert measure_sharing(Pool(1, []), pauses=4) is None and measure_sharing(None) is None


def test_this_machine_can_be_read_and_examined():
    here = doctor.read_machine(store="none")
    assert 1 <= here.cores <= here.allowed == len(os.sched_getaffinity(0))
    assert here.target == str(host_target()) and here.system_cpu in here.target
    assert here.sharing is None or 0 <= here.sharing <= 1
    assert here.noise.threads == here.cores and here.noise.speed_up > 0
    assert {each["name"] for each in here.backends} >= {"dnnl"}
    findings = doctor.examine(here)
    assert findings["versions"].state == findings["target"].state == "ok"
    assert findings["store"].found == "no store of costs"
