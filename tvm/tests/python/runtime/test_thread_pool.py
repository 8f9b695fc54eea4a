# SPDX-License-Identifier: Apache-2.0
"""Tests of libtvm_collage_pool.so: the C++ cases of tests/cpp/thread_pool, each in its own process
with its own thread counts, and TVM kernels on the pool. Needs g++."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tvm_collage import library_path

TVM_TREE = Path(__file__).resolve().parents[3]
SOURCES = TVM_TREE / "src" / "runtime" / "thread_pool"
CASES = TVM_TREE / "tests" / "cpp" / "thread_pool"
THREAD_VARIABLES = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OMP_DYNAMIC")


def run(command: list[str], timeout: int = 120, **variables: str) -> subprocess.CompletedProcess:
    """Run a command without any inherited thread counts but with the given variables."""
    env = {key: value for key, value in os.environ.items() if key not in THREAD_VARIABLES}
    env.update(GOMP_SPINCOUNT="1000", **variables)
    return subprocess.run(command, env=env, timeout=timeout, capture_output=True, text=True)


def compile_cxx(arguments: list[str]) -> None:
    done = run(["g++", "-std=c++17", "-O1", "-Wall", "-pthread", *arguments])
    assert done.returncode == 0, done.stderr


POOL = Path(library_path("tvm_collage_pool"))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return the program of a file of cases."""

    @functools.cache
    def compiled(name: str) -> str:
        program = str(tmp_path_factory.mktemp("cases") / name)
        libraries = [f"-L{POOL.parent}", "-ltvm_collage_pool", f"-Wl,-rpath,{POOL.parent}"]
        source = str(CASES / f"{name}.cc")
        compile_cxx(["-rdynamic", f"-I{SOURCES}", source, "-o", program, *libraries])
        return program

    return compiled


@pytest.fixture(scope="module")
def cases(compiled: Callable[[str], str]) -> str:
    return compiled("pool_cases")


TWO_THREADS = {"TVM_NUM_THREADS": "2"}
MORE_THREADS_THAN_CORES = {"TVM_NUM_THREADS": "5"}
ONE_THREAD = {"TVM_NUM_THREADS": "1"}
LIMIT_OF_ONE = {"TVM_NUM_THREADS": "4", "OMP_THREAD_LIMIT": "1"}
FEWER_THAN_ASKED = {"TVM_NUM_THREADS": "64", "OMP_DYNAMIC": "true"}


THREADS = {
    "two": TWO_THREADS,
    "five": MORE_THREADS_THAN_CORES,
    "one": ONE_THREAD,
    "limit_of_one": LIMIT_OF_ONE,
    "fewer_than_asked": FEWER_THAN_ASKED,
}
# Cases, and the first so many of THREADS that they are for: teams that are whole, and threads.
OF_ANY = (
    *("all_tasks_once", "bad_arguments", "nested", "nested_barrier", "concurrent_launches"),
    *("errors", "barrier_refused_when_tasks_share_threads", "fork", "fork_inside_task"),
    "flush_denormals",
)
COUNTS = {
    **dict.fromkeys(OF_ANY, 5),
    "barrier_works": 4,
    "barrier_refused_when_a_task_is_gone": 2,
    "set_count": 2,
}


@pytest.mark.parametrize(
    "case, threads", [(case, name) for case in COUNTS for name in [*THREADS][: COUNTS[case]]]
)
def test_case_with_threads(cases: str, case: str, threads: str) -> None:
    done = run([cases, case], **THREADS[threads])
    assert done.returncode == 0, done.stderr


NEEDS_MORE_CPUS = 77
ALWAYS = {"COLLAGE_SPREAD_THREADS": "always"}


@pytest.mark.parametrize(
    "case, variables",
    [
        ("shared_cpu_is_left", ALWAYS),
        ("shared_cpu_is_left_by_default", {}),
        ("shared_cpu_is_left_by_default", {"COLLAGE_SPREAD_THREADS": ""}),
        ("shared_cpu_is_left_beside_another_pool", {}),
        ("shared_cpu_is_left_in_full_run", ALWAYS),
        ("workers_are_freed", ALWAYS),
        ("part_keeps_it", ALWAYS),
        ("part_looks_for_itself", ALWAYS),
        ("one_cpu_is_not_enough", ALWAYS),
        ("not_while_others_need_the_cpus", {"COLLAGE_SPREAD_THREADS": "1"}),
        ("not_while_others_need_the_cpus", {}),
        ("not_wanted", {"COLLAGE_SPREAD_THREADS": "2"}),
        ("not_wanted", {"COLLAGE_SPREAD_THREADS": "0"}),
        ("not_wanted", {"COLLAGE_SPREAD_THREADS": "always", "OMP_PROC_BIND": "close"}),
        ("threads_that_share_are_counted", {}),
    ],
)
def test_threads_keep_to_cpus_of_their_own(
    compiled: Callable[[str], str], case: str, variables: dict[str, str]
) -> None:
    done = run([compiled("spread_cases"), case], **TWO_THREADS, **variables)
    if done.returncode == NEEDS_MORE_CPUS:
        pytest.skip("two threads need two CPUs, and idle ones where they are spread by default")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TVM_NUM_THREADS": "3", "OMP_NUM_THREADS": "5"}, 3),
        ({"OMP_NUM_THREADS": "5"}, 5),
        ({"OMP_NUM_THREADS": "5,2"}, 5),
        ({"TVM_NUM_THREADS": "many", "OMP_NUM_THREADS": "5"}, 5),
        ({"TVM_NUM_THREADS": "0", "OMP_NUM_THREADS": "5"}, 5),
        ({"TVM_NUM_THREADS": "99999999999"}, len(os.sched_getaffinity(0))),
        ({}, len(os.sched_getaffinity(0))),
        ({"TVM_NUM_THREADS": "4", "OMP_THREAD_LIMIT": "2"}, 2),
    ],
)
def test_thread_count(cases: str, variables: dict[str, str], expected: int) -> None:
    assert run([cases, "print_count"], **variables).stdout == f"{expected}\n"


# What a program is made of besides the pool: the thread sanitizer does not see how libgomp's
# threads wait for each other.
SANITIZERS = {"address,undefined": [], "thread": [CASES / "openmp_of_threads.cc"]}


@pytest.fixture(scope="module", params=SANITIZERS)
def sanitized_cases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The cases with the pool in one program, which fails at a wrong access, overflow or race."""
    program = tmp_path_factory.mktemp("sanitized") / "pool_cases"
    sources = [*SOURCES.glob("*.cc"), CASES / "pool_cases.cc", *SANITIZERS[request.param]]
    sanitizers = [f"-fsanitize={request.param}", "-fno-sanitize-recover=undefined", "-g1"]
    compile_cxx(
        ["-rdynamic", "-fopenmp", *sanitizers, f"-I{SOURCES}", *map(str, sources)]
        + ["-o", str(program), "-ldl"]
    )
    return str(program)


@pytest.mark.slow("the pool is compiled again with sanitizers")
@pytest.mark.parametrize(
    "variables",
    [TWO_THREADS, MORE_THREADS_THAN_CORES, {**TWO_THREADS, **ALWAYS}],
    ids=["two", "five", "spread"],
)
@pytest.mark.parametrize(
    "case",
    [
        *("all_tasks_once", "bad_arguments", "nested", "concurrent_launches", "errors"),
        *("barrier_works", "set_count", "fork", "flush_denormals"),
    ],
)
def test_case_with_sanitizers(sanitized_cases: str, case: str, variables: dict[str, str]) -> None:
    # What libgomp keeps for its threads is not given back; a forked process starts threads.
    options = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "die_after_fork=0"}
    done = run([sanitized_cases, case], **options, **variables)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer needs vm.mmap_rnd_bits of at most 28")
    assert done.returncode == 0, done.stderr


def test_tvm_kernels_run_on_the_pool() -> None:
    ours, stock = run_tvm(str(POOL)), run_tvm("")
    assert ours["output"] == stock["output"]
    assert ours["launches"] >= 10 and stock["launches"] == 0
    assert ours["new_threads"] <= 1  # the second OpenMP thread, and none of TVM's own pool
    assert ours["num_threads"] == stock["num_threads"] == 2
    assert ours["configured"] == stock["configured"] == 1
    assert ours["in_other_thread"] == stock["in_other_thread"] == 2
    assert ours["error"].startswith("ValueError: ")
    assert "from a kernel's task" in ours["error"]


def run_tvm(library: str) -> dict:
    """The report of a TVM process on the pool `library`, or on TVM's own when that is empty."""
    variables = {"COLLAGE_DISABLE": "1", "TOPHUB_LOCATION": "NONE", "TVM_NUM_THREADS": "2"}
    done = run([sys.executable, __file__, library], timeout=300, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def print_tvm_report(library: str) -> None:
    """Runs in a process of its own: the pool has to be loaded before TVM."""
    pool = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL) if library else None
    import tvm

    def count() -> int:
        return pool.CollagePoolLaunchCount() if pool else 0

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    module = build_network()
    launches, threads_before = count(), threads()
    for _ in range(10):
        module.run()
    report = {
        "launches": count() - launches,
        "new_threads": threads() - threads_before,
        "output": module.get_output(0).numpy().tobytes().hex(),
        "num_threads": tvm.runtime.num_threads(),
        # TVM's own pool ends the process on a Python exception in a task.
        "error": error_of_failing_kernel() if pool else "",
    }
    tvm.get_global_func("runtime.config_threadpool")(1, 1)
    report["configured"] = tvm.runtime.num_threads()
    with ThreadPoolExecutor(1) as other_thread:
        report["in_other_thread"] = other_thread.submit(tvm.runtime.num_threads).result()
    print(json.dumps(report))


def build_network():
    """A graph executor with kernels that TVM runs in parallel, its input set."""
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    data = relay.var("data", shape=(1, 16, 28, 28))
    weight = relay.var("weight", shape=(32, 16, 3, 3))
    body = relay.nn.relu(relay.nn.conv2d(data, weight, padding=(1, 1)))
    body = relay.nn.softmax(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(body)))
    random = np.random.default_rng(0)
    params = {"weight": random.standard_normal((32, 16, 3, 3)).astype("float32")}
    network = tvm.IRModule.from_expr(relay.Function([data, weight], body))
    library = relay.build(network, target="llvm", params=params)
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input("data", random.standard_normal((1, 16, 28, 28)).astype("float32"))
    return module


def error_of_failing_kernel() -> str:
    """What a Python caller sees when a packed function raises inside a parallel loop."""
    import tvm
    from tvm import te

    @tvm.register_func("thread_pool_test.fail")
    def fail(_):
        raise ValueError("from a kernel's task")

    out = te.compute((64,), lambda i: tvm.tir.call_packed("thread_pool_test.fail", i), name="out")
    schedule = te.create_schedule(out.op)
    schedule[out].parallel(out.op.axis[0])
    kernel = tvm.build(schedule, [out], target="llvm")
    try:
        kernel(tvm.nd.empty((64,), "int32"))
    except Exception as error:  # noqa: BLE001 - which error it is, is what is tested
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    print_tvm_report(sys.argv[1])
