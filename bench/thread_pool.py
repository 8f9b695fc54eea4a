# SPDX-License-Identifier: Apache-2.0
"""Mixed load of TVM kernels and oneDNN calls: one thread pool against two.

Each side is a process of its own; they are woken one at a time, in a new random order each round.
  one             TVM's kernels on libtvm_collage_pool.so, which shares oneDNN's OpenMP threads
  two             stock: TVM's own pool beside oneDNN's OpenMP threads, only their counts set
  two_same_spins  stock, with the variables that "one" sets (GOMP_SPINCOUNT, TVM_BIND_THREADS)
Needs the environment that `make build` makes. Run: python bench/thread_pool.py [--help].
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CALLS = 100  # of each kind in a mixed load
MIN_ROUNDS = 20
SETTINGS = {"GOMP_SPINCOUNT": "1000", "TVM_BIND_THREADS": "0"}
SIDES: dict[str, dict[str, str]] = {"one": SETTINGS, "two": {}, "two_same_spins": SETTINGS}
THREAD_VARIABLES = ("OMP_WAIT_POLICY", "OMP_PROC_BIND", "OMP_PLACES", "TVM_THREAD_POOL_SPIN_COUNT")


# ---- A side: prepares both calls, then measures whenever it reads a line. ----


def make_tvm_call(size: int) -> Callable[[], None]:
    """A matmul of size x size float32 that TVM runs in parallel over rows; checked by numpy."""
    import tvm
    from tvm import te

    a, b = (te.placeholder((size, size), name=name) for name in "ab")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    schedule = te.create_schedule(c.op)
    row, column = c.op.axis
    block, lane = schedule[c].split(column, factor=16)
    schedule[c].reorder(row, block, k, lane)
    schedule[c].vectorize(lane)
    schedule[c].parallel(row)
    target = f"llvm -mcpu={tvm.target.codegen.llvm_get_system_cpu()}"
    kernel = tvm.build(schedule, [a, b, c], target=target)
    inputs = [np.random.default_rng(i).standard_normal((size, size), "float32") for i in (0, 1)]
    arrays = [tvm.nd.array(value) for value in inputs] + [tvm.nd.empty((size, size))]
    kernel(*arrays)
    np.testing.assert_allclose(arrays[2].numpy(), inputs[0] @ inputs[1], rtol=1e-3, atol=1e-3)
    return lambda: kernel(*arrays)


class ExecArgument(ctypes.Structure):
    """dnnl_exec_arg_t."""

    _fields_ = [("arg", ctypes.c_int), ("memory", ctypes.c_void_p)]


def make_dnnl_call(library: str, size: int) -> Callable[[], None]:
    """A matmul of size x size float32 by oneDNN's C API (version 3); checked by numpy."""
    dnnl = ctypes.CDLL(library)
    cpu, f32, format_ab, src, weights, dst = 1, 3, 3, 1, 33, 17  # enumerators of dnnl_types.h

    def create(function: str, *arguments: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        status = getattr(dnnl, function)(ctypes.byref(handle), *arguments)
        if status != 0:
            raise RuntimeError(f"{function} of {library} failed with status {status}")
        return handle

    engine = create("dnnl_engine_create", cpu, ctypes.c_size_t(0))
    stream = create("dnnl_stream_create", engine, ctypes.c_uint(1))
    shape = (ctypes.c_int64 * 2)(size, size)
    layout = create("dnnl_memory_desc_create_with_tag", 2, shape, f32, format_ab)
    matmul = create("dnnl_matmul_primitive_desc_create", engine, layout, layout, None, layout, None)
    primitive = create("dnnl_primitive_create", matmul)
    arrays = [np.random.default_rng(i).standard_normal((size, size), "float32") for i in (2, 3, 4)]
    arguments = (ExecArgument * 3)()
    for slot, (kind, array) in enumerate(zip((src, weights, dst), arrays, strict=True)):
        pointer = array.ctypes.data_as(ctypes.c_void_p)
        arguments[slot] = ExecArgument(kind, create("dnnl_memory_create", layout, engine, pointer))

    def call(owner_of_the_data: list[np.ndarray] = arrays) -> None:
        dnnl.dnnl_primitive_execute(primitive, stream, 3, arguments)
        dnnl.dnnl_stream_wait(stream)

    call()
    np.testing.assert_allclose(arrays[2], arrays[0] @ arrays[1], rtol=1e-3, atol=1e-3)
    return call


def seconds_of(*calls: Callable[[], None]) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        for call in calls:
            call()
    return time.perf_counter() - start


def run_side(options: argparse.Namespace) -> None:
    pool = ctypes.CDLL(options.pool, mode=ctypes.RTLD_GLOBAL) if options.side == "one" else None
    tvm_call = make_tvm_call(options.tvm_size)
    dnnl_call = make_dnnl_call(options.dnnl, options.size)
    if pool is not None and pool.CollagePoolLaunchCount() == 0:
        raise RuntimeError(f"TVM does not use {options.pool}")
    print("ready", flush=True)
    for _ in sys.stdin:
        seconds_of(tvm_call, dnnl_call)
        measured = {
            "mixed": min(seconds_of(tvm_call, dnnl_call) for _ in range(options.repeats)),
            "tvm": min(seconds_of(tvm_call) for _ in range(options.repeats)),
            "dnnl": min(seconds_of(dnnl_call) for _ in range(options.repeats)),
        }
        print(json.dumps(measured), flush=True)


# ---- The parent: starts the sides, wakes them in turn, compares. ----


def start(side: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    dropped = {*SETTINGS, *THREAD_VARIABLES}
    env = {key: value for key, value in os.environ.items() if key not in dropped}
    count = str(options.threads)
    env.update(COLLAGE_DISABLE="1", TOPHUB_LOCATION="NONE", TVM_NUM_THREADS=count)
    env.update(OMP_NUM_THREADS=count, **SIDES[side])
    command = [sys.executable, __file__, *sys.argv[1:], "--side", side]
    command += ["--pool", options.pool, "--dnnl", options.dnnl]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, env=env, text=True, **pipes)


def ask(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        sys.exit("thread_pool.py: a side ended early; its error is above")
    return json.loads(line)


def measure(options: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Milliseconds by side and load, one a round."""
    processes = {side: start(side, options) for side in SIDES}
    samples: dict[str, dict[str, list[float]]] = {side: {} for side in SIDES}
    try:
        for process in processes.values():
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                sys.exit("thread_pool.py: a side did not start; its error is above")
        order = list(SIDES)
        deadline = time.monotonic() + options.seconds
        for done in range(options.rounds):
            if done >= MIN_ROUNDS and time.monotonic() > deadline:
                break
            random.shuffle(order)
            for side in order:
                for load, seconds in ask(processes[side]).items():
                    samples[side].setdefault(load, []).append(seconds * 1e3)
                time.sleep(0.02)  # until the threads of this side have gone to sleep
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    return samples


def ratio_of_medians(above: list[float], below: list[float]) -> dict[str, float]:
    """The ratio, with a 95 % bootstrap interval over rounds."""
    a, b = np.array(above), np.array(below)
    picks = np.random.default_rng(0).integers(0, len(a), (10000, len(a)))
    ratios = np.median(a[picks], axis=1) / np.median(b[picks], axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return {"ratio": float(np.median(a) / np.median(b)), "low": float(low), "high": float(high)}


def report(samples: dict[str, dict[str, list[float]]], options: argparse.Namespace) -> None:
    medians = {
        side: {load: float(np.median(values)) for load, values in loads.items()}
        for side, loads in samples.items()
    }
    print(f"{CALLS} TVM kernels and {CALLS} oneDNN calls, {options.threads} threads, medians in ms")
    print(f"{'pools':16}{'mixed':>9}{'tvm':>9}{'dnnl':>9}{'tvm+dnnl':>10}")
    for side, loads in medians.items():
        parts = loads["tvm"] + loads["dnnl"]
        print(f"{side:16}{loads['mixed']:9.2f}{loads['tvm']:9.2f}{loads['dnnl']:9.2f}{parts:10.2f}")
    rounds = len(samples["one"]["mixed"])
    ratios = {}
    for side in [side for side in SIDES if side != "one"]:
        found = ratio_of_medians(samples[side]["mixed"], samples["one"]["mixed"])
        ratios[f"{side}/one"] = found
        print(
            f"mixed, {side} / one: {found['ratio']:.2f} "
            f"(95 % interval {found['low']:.2f} to {found['high']:.2f}, {rounds} rounds)"
        )
    result = {
        "threads": options.threads,
        "rounds": rounds,
        "calls_of_each_kind": CALLS,
        "dnnl_size": options.size,
        "tvm_size": options.tvm_size,
        "machine": platform.platform(),
        "load_average_at_end": os.getloadavg()[0],
        "medians_ms": medians,
        "mixed_ratios": ratios,
        "samples_ms": samples,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {options.output}")


def default_pool() -> str:
    try:
        from tvm_collage import library_path
    except ImportError:
        return ""
    return library_path("tvm_collage_pool") or ""


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=60, help="no round after, but 20 at least")
    parser.add_argument("--repeats", type=int, default=3, help="of a load in a round; least counts")
    parser.add_argument("--size", type=int, default=256, help="of oneDNN's matmul")
    parser.add_argument("--tvm-size", type=int, default=128, help="of TVM's matmul")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--pool", default=default_pool(), help="libtvm_collage_pool.so")
    parser.add_argument("--dnnl", default=f"{sys.prefix}/lib/libdnnl.so.3")
    parser.add_argument("--output", type=Path, default=Path("build/bench/thread_pool.json"))
    parser.add_argument("--side", choices=list(SIDES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name, path in (("pool", options.pool), ("dnnl", options.dnnl)):
        if not os.path.isfile(path):
            parser.error(f"no library at '{path}': run `make build`, or give its path by --{name}")
    return options


if __name__ == "__main__":
    chosen = parse_options()
    if chosen.side:
        run_side(chosen)
    else:
        report(measure(chosen), chosen)
