#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mixed load of TVM's kernels and a library's products: one thread pool, or one beside the other.

For oneDNN: `one`, TVM's kernels on libtvm_collage_pool.so, which shares oneDNN's OpenMP threads;
`two`, stock: TVM's own pool beside them; `two, same spins`, stock with the variables that `one`
sets. For OpenBLAS: `one`, products by tvm.contrib.cblas.matmul, divided over the pool that TVM's
kernels run on; `own`, products by OpenBLAS with its own threads beside that pool.

Each side and load is a process of its own; they are woken one at a time, in a new random order each
round. Printed: medians, the mixed load over the sum of its parts and over that of `one`, both round
by round with 95 % intervals. Needs the environment that `make build` makes.
Run: python bench/thread_pool.py --library onednn. Test: bench/test_thread_pool.py.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import arguments
from harness.served import Served, answer_requests
from harness.tables import interval_text, text_table

CALLS = 100  # of each kind in a load
SPINS = {"GOMP_SPINCOUNT": "1000", "TVM_BIND_THREADS": "0"}
STOCK = {"COLLAGE_DISABLE": "1", "TOPHUB_LOCATION": "NONE"}
# By library and side: whether the libraries share TVM's pool, and the variables of its process.
SIDES: dict[str, dict[str, tuple[bool, dict[str, str]]]] = {
    "onednn": {
        "one": (True, {**STOCK, **SPINS}),
        "two": (False, STOCK),
        "two, same spins": (False, {**STOCK, **SPINS}),
    },
    "openblas": {"one": (True, {}), "own": (False, {})},
}
LOADS = ("mixed", "tvm", "library")


def make_tvm_call(size: int) -> Callable[[], object]:
    """A matmul of size x size float32 that TVM runs in parallel over rows."""
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
    left, right, wanted = _operands(size)
    arrays = [tvm.nd.array(left), tvm.nd.array(right), tvm.nd.empty((size, size))]
    return _checked(lambda: kernel(*arrays), arrays[2].numpy, wanted)


class ExecArgument(ctypes.Structure):
    """dnnl_exec_arg_t."""

    _fields_ = [("arg", ctypes.c_int), ("memory", ctypes.c_void_p)]


def make_onednn_call(size: int, _shares_pool: bool) -> Callable[[], object]:
    """A matmul of size x size float32 by oneDNN's C API (version 3)."""
    dnnl = ctypes.CDLL(f"{sys.prefix}/lib/libdnnl.so.3")
    cpu, f32, format_ab, src, weights, dst = 1, 3, 3, 1, 33, 17  # enumerators of dnnl_types.h

    def create(function: str, *arguments: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        status = getattr(dnnl, function)(ctypes.byref(handle), *arguments)
        if status != 0:
            raise RuntimeError(f"{function} failed with status {status}")
        return handle

    engine = create("dnnl_engine_create", cpu, ctypes.c_size_t(0))
    stream = create("dnnl_stream_create", engine, ctypes.c_uint(1))
    shape = (ctypes.c_int64 * 2)(size, size)
    layout = create("dnnl_memory_desc_create_with_tag", 2, shape, f32, format_ab)
    matmul = create("dnnl_matmul_primitive_desc_create", engine, layout, layout, None, layout, None)
    primitive = create("dnnl_primitive_create", matmul)
    left, right, wanted = _operands(size)
    arrays = (left, right, np.zeros_like(wanted))
    arguments = (ExecArgument * 3)()
    for slot, (kind, array) in enumerate(zip((src, weights, dst), arrays, strict=True)):
        pointer = array.ctypes.data_as(ctypes.c_void_p)
        arguments[slot] = ExecArgument(kind, create("dnnl_memory_create", layout, engine, pointer))

    def call(_owners: tuple[np.ndarray, ...] = arrays) -> None:
        dnnl.dnnl_primitive_execute(primitive, stream, 3, arguments)
        dnnl.dnnl_stream_wait(stream)

    return _checked(call, lambda: arrays[2], wanted)


def make_openblas_call(size: int, shares_pool: bool) -> Callable[[], object]:
    """A matmul of size x size float32, by our runtime or by OpenBLAS itself."""
    left, right, wanted = _operands(size)
    if shares_pool:
        import tvm

        matmul = tvm.get_global_func("tvm.contrib.cblas.matmul")
        a, b, c = (tvm.nd.array(each) for each in (left, right, wanted * 0))
        return _checked(lambda: matmul(a, b, c, False, False), c.numpy, wanted)
    package = importlib.util.find_spec("scipy_openblas32")
    if package is None or package.origin is None:
        raise RuntimeError("scipy-openblas32 is not installed: run `make build`")
    library = ctypes.CDLL(str(Path(package.origin).parent / "lib/libscipy_openblas.so"))
    arrays = (left, right, np.zeros_like(wanted))
    a, b, c = (each.ctypes.data_as(ctypes.c_void_p) for each in arrays)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def call(_owners: tuple[np.ndarray, ...] = arrays) -> None:
        library.scipy_cblas_sgemm(
            101, 111, 111, size, size, size, one, a, size, b, size, zero, c, size
        )

    return _checked(call, lambda: arrays[2], wanted)


MAKERS = {"onednn": make_onednn_call, "openblas": make_openblas_call}


def _checked(
    call: Callable[[], object], result: Callable[[], np.ndarray], wanted: np.ndarray
) -> Callable[[], object]:
    """The call, whose result is right."""
    call()
    np.testing.assert_allclose(result(), wanted, rtol=1e-3, atol=1e-3)
    return call


def _operands(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two matrices and their product."""
    left, right = (np.random.default_rng(k).standard_normal((size, size), "f4") for k in (0, 1))
    return left, right, left @ right


def serve(request: dict[str, Any]) -> None:
    """The process of one side and load."""
    shares_pool = request["shares_pool"]
    # Collage's hook loads it, but for stock TVM.
    by_hand = shares_pool and os.environ.get("COLLAGE_DISABLE")
    pool = ctypes.CDLL(request["pool"], mode=ctypes.RTLD_GLOBAL) if by_hand else None
    calls = {
        "tvm": make_tvm_call(request["tvm_size"]),
        "library": MAKERS[request["library"]](request["size"], shares_pool),
    }
    if pool is not None and pool.CollagePoolLaunchCount() == 0:
        raise RuntimeError(f"TVM does not use {request['pool']}")
    chosen = calls.values() if request["load"] == "mixed" else [calls[request["load"]]]

    def run() -> None:
        for _ in range(CALLS):
            for call in chosen:
                call()

    answer_requests(run)


def measure(options: argparse.Namespace) -> dict[str, dict[str, tuple[float, ...]]]:
    """Seconds of each round by side and load. RuntimeError for a side that failed."""
    # Not above: in a process of stock TVM there is no Collage.
    from harness.contestants import untouched_variables
    from harness.sides import usable_by_name
    from tvm.relay.collage.exec.resolve import path_of
    from tvm.relay.collage.measure import Contestant, compare
    from tvm_collage import library_path

    common = {"library": options.library, "size": options.size, "tvm_size": options.tvm_size}
    common["pool"] = library_path("tvm_collage_pool")
    names = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    threads = dict.fromkeys(names, str(options.threads))
    contestants = []
    for side, (shares_pool, variables) in SIDES[options.library].items():
        # A stock process has what the user set; ours sets its own.
        users = untouched_variables() if "COLLAGE_DISABLE" in variables else {}
        for load in LOADS:
            request = json.dumps({**common, "shares_pool": shares_pool, "load": load})
            given = {
                "command": [sys.executable, __file__, "--serve", request],
                "environment": {**threads, **users, **variables},
            }
            contestants.append(Contestant(f"{side}/{load}", path_of(Served), given))
    found = usable_by_name(compare(contestants, rounds=options.rounds))
    return {
        side: {load: found[f"{side}/{load}"].samples for load in LOADS}
        for side in SIDES[options.library]
    }


def report(samples: dict[str, dict[str, tuple[float, ...]]], options: argparse.Namespace) -> str:
    from tvm.relay.collage.costs.statistics import ratio_interval

    def ratio(above: Sequence[float], below: Sequence[float]) -> str:
        return interval_text(ratio_interval(above, below), ".2f")

    rows = []
    for side, loads in samples.items():
        parts = list(map(sum, zip(loads["tvm"], loads["library"], strict=True)))
        medians = [f"{1e3 * statistics.median(loads[load]):.2f}" for load in LOADS]
        over_one = ratio(loads["mixed"], samples["one"]["mixed"])
        rows.append([side, *medians, ratio(loads["mixed"], parts), over_one])
    title = (
        f"{CALLS} TVM kernels and {CALLS} products by {options.library}, "
        f"{options.threads} threads, {options.rounds} rounds, medians in ms"
    )
    head = ["side", *LOADS, "mixed / (tvm + library)", "mixed / one"]
    return "\n".join([title, text_table(head, rows)])


def main(given: list[str] | None = None) -> int:
    parser = arguments.make_parser(__doc__, rounds=20, threads=None)
    parser.add_argument("--library", choices=list(SIDES), default="onednn")
    parser.add_argument("--size", type=int, default=256, help="of the library's matmul")
    parser.add_argument("--tvm-size", type=int, default=128, help="of TVM's matmul")
    parser.add_argument("--serve", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.serve:
        serve(options.serve)
        return 0
    try:
        print(report(measure(options), options), flush=True)
    except RuntimeError as error:
        print(f"bench/thread_pool.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
