# SPDX-License-Identifier: Apache-2.0
"""Mixed load of TVM kernels and BLAS products: one thread pool against OpenBLAS' own beside it.

Each side is a process of its own; they are woken one at a time, in a new random order each round.
  one   products by tvm.contrib.cblas.matmul, divided over the pool that TVM's kernels run on
  own   products by OpenBLAS with its own threads, TVM's kernels on the pool
Needs the environment that `make build` makes. Run: python bench/blas_threads.py [--help].
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from thread_pool import CALLS, make_tvm_call, ratio_of_medians, seconds_of

SIDES = ("one", "own")
LOADS = ("mixed", "tvm", "blas")


def openblas() -> str:
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        sys.exit("blas_threads.py: scipy-openblas32 is not installed: run `make build`")
    return str(Path(spec.origin).parent / "lib" / "libscipy_openblas.so")


def make_blas_call(side: str, size: int) -> Callable[[], None]:
    """A matmul of size x size float32; checked by numpy."""
    import tvm

    arrays = [np.random.default_rng(i).standard_normal((size, size), "float32") for i in (2, 3)]
    wanted = arrays[0] @ arrays[1]
    if side == "one":
        matmul = tvm.get_global_func("tvm.contrib.cblas.matmul")
        a, b, c = (tvm.nd.array(each) for each in (*arrays, wanted * 0))

        def call() -> None:
            matmul(a, b, c, False, False)

        call()
        np.testing.assert_allclose(c.numpy(), wanted, rtol=1e-3, atol=1e-3)
        return call
    library = ctypes.CDLL(openblas())
    result = np.zeros_like(wanted)
    pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (*arrays, result)]
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def own_call(owners: list[np.ndarray] = arrays) -> None:
        library.scipy_cblas_sgemm(
            101, 111, 111, size, size, size, one, pointers[0], size, pointers[1], size, zero,
            pointers[2], size,
        )  # fmt: skip

    own_call()
    np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-3)
    return own_call


def run_side(options: argparse.Namespace) -> None:
    calls = {"tvm": make_tvm_call(options.tvm_size)}
    calls["blas"] = make_blas_call(options.side, options.size)
    loads = {"mixed": tuple(calls.values()), **{name: (call,) for name, call in calls.items()}}
    print("ready", flush=True)
    for _ in sys.stdin:
        seconds_of(*loads["mixed"])
        measured = {
            load: min(seconds_of(*loads[load]) for _ in range(options.repeats)) for load in LOADS
        }
        print(json.dumps(measured), flush=True)


def start(side: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    count = str(options.threads)
    env = {**os.environ, "TVM_NUM_THREADS": count, "OMP_NUM_THREADS": count}
    env["OPENBLAS_NUM_THREADS"] = count
    command = [sys.executable, __file__, *sys.argv[1:], "--side", side]
    return subprocess.Popen(
        command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def ask(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None and process.stdout is not None
    line = process.stdout.readline()
    if not line:
        sys.exit("blas_threads.py: a side ended early; its error is above")
    return line


def measure(options: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Milliseconds by side and load, one a round."""
    processes = {side: start(side, options) for side in SIDES}
    samples: dict[str, dict[str, list[float]]] = {
        side: {load: [] for load in LOADS} for side in SIDES
    }
    try:
        for process in processes.values():
            ask(process)
        order = list(SIDES)
        deadline = time.monotonic() + options.seconds
        for done in range(options.rounds):
            if done >= 5 and time.monotonic() > deadline:
                break
            random.shuffle(order)
            for side in order:
                stdin = processes[side].stdin
                assert stdin is not None
                print(file=stdin, flush=True)
                for load, seconds in json.loads(ask(processes[side])).items():
                    samples[side][load].append(seconds * 1e3)
                time.sleep(0.2)  # until the threads of this side have gone to sleep
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    return samples


def report(samples: dict[str, dict[str, list[float]]], options: argparse.Namespace) -> None:
    print(f"{CALLS} TVM kernels and {CALLS} products, {options.threads} threads, medians in ms")
    print(f"{'side':8}" + "".join(f"{load:>9}" for load in LOADS) + f"{'mixed / (tvm + blas)':>36}")
    ratios = {}
    for side, loads in samples.items():
        parts = [tvm + blas for tvm, blas in zip(loads["tvm"], loads["blas"], strict=True)]
        ratios[side] = ratio_of_medians(loads["mixed"], parts)
        medians = "".join(f"{np.median(loads[load]):9.2f}" for load in LOADS)
        print(f"{side:8}{medians}{text_of(ratios[side]):>36}")
    ratios["own/one"] = ratio_of_medians(samples["own"]["mixed"], samples["one"]["mixed"])
    rounds = len(samples["one"]["mixed"])
    print(f"mixed, own / one: {text_of(ratios['own/one'])}, {rounds} rounds")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    result = {"threads": options.threads, "ratios": ratios, "samples_ms": samples}
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {options.output}")


def text_of(ratio: dict[str, float]) -> str:
    return f"{ratio['ratio']:.2f} (95 %: {ratio['low']:.2f} to {ratio['high']:.2f})"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30, help="no round after, but 5 at least")
    parser.add_argument("--repeats", type=int, default=3, help="of a load in a round; least counts")
    parser.add_argument("--size", type=int, default=256, help="of the products")
    parser.add_argument("--tvm-size", type=int, default=128, help="of TVM's matmul")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--output", type=Path, default=Path("build/bench/blas_threads.json"))
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    chosen = parse_options()
    if chosen.side:
        run_side(chosen)
    else:
        report(measure(chosen), chosen)
