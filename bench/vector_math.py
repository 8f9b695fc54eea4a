#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exp, tanh, erf, sigmoid, logarithms and pow of a million floats: TVM's kernels as Collage builds
them, stock TVM's, oneDNN's and numpy's (scipy's erf and sigmoid). How fast, and how far off.

Time: each side is a process of its own; they are woken one at a time, in a new random order each
round. Printed: the median, and its ratio to ours with a 95 % interval. Error: the worst of each
`--every`-th number of float32 by its bits, in units of the last place (0.5 where all are rounded
right), with the x where it is; pow takes a random y there, in -8 to 8. All numbers of ours alone,
with `--every 1 --errors-of ours`, take half a minute to three for a function.
Needs the environment that `make build` makes. Run: python bench/vector_math.py --functions exp,tanh
Test: bench/test_vector_math.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from harness import arguments
from harness.functions import FUNCTIONS, Function, all_floats, numpy_called, ulps_off
from harness.records import machine_line
from harness.sides import ratio_text, usable_by_name, with_threads
from harness.tables import text_table
from tvm import relay
from tvm.contrib.graph_executor import GraphModule
from tvm.relay import collage
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.exec.arrays import save_arrays
from tvm.relay.collage.exec.resolve import path_of
from tvm.relay.collage.measure import Contestant, compare
from tvm.relay.collage.plans.greedy import greedy_partition
from tvm.relay.collage.relay_util.external import is_external_function

SIDES = OURS, STOCK, ONEDNN, NUMPY = "ours", "stock", "onednn", "numpy"
COUNT = 1 << 20
# Outputs are judged by their errors in units of the last place, so nothing is left out for these.
_ANY_ERROR = 1e-2


def main(given: list[str] | None = None) -> int:
    parser = arguments.make_parser(__doc__, rounds=30, threads=None)
    functions = arguments.chosen_of(FUNCTIONS, "function")
    parser.add_argument("--functions", type=functions, default=",".join(FUNCTIONS))
    parser.add_argument("--every", type=int, default=256, help="of the floats that are looked at")
    sides = arguments.chosen_of(SIDES, "side")
    parser.add_argument("--errors-of", type=sides, default=",".join(SIDES))
    parser.add_argument("--count", type=int, default=COUNT, help="floats in one call")
    options = parser.parse_args(given)
    print(machine_line(options.threads), flush=True)
    for name in options.functions:
        print(measure(FUNCTIONS[name], options), flush=True)
    return 0


def measure(function: Function, options: argparse.Namespace) -> str:
    """A function's lines. RuntimeError for a side that failed."""
    libraries = build_sides(function, options.count)
    environment = with_threads(options.threads)
    with tempfile.TemporaryDirectory(prefix="collage-vector-math-") as folder:
        inputs = str(Path(folder) / "inputs.npz")
        save_arrays(inputs, function.usual_inputs(options.count))
        arguments = {"name": function.name, "inputs": inputs}
        sides = [Contestant(NUMPY, path_of(numpy_called), arguments, environment)]
        for name, library in libraries.items():
            file = str(Path(folder) / f"{name}.so")
            library.export_library(file)
            sides.append(Contestant.of_library(name, file, inputs, environment=environment))
        found = usable_by_name(compare(sides, OURS, options.rounds, _ANY_ERROR))
    rows = []
    for name in (*libraries, NUMPY):
        item = found[name]
        error = ["-", ""]
        if name in options.errors_of:
            call = numpy_side(function) if name == NUMPY else library_side(libraries[name])
            off, at = worst_error(function, call, options)
            error = [f"{off:.2f}", f"at {at!r}"]
        microseconds = f"{1e6 * item.cost.seconds:.1f}"
        rows.append([name, microseconds, ratio_text(item, found[OURS]), *error])
    head = [function.name, "median us", "over ours", "worst error, ulp"]
    return text_table(head, rows)


def build_sides(function: Function, count: int) -> dict[str, Any]:
    """Libraries by name: ours, stock TVM's, oneDNN's where it has the function."""
    mod = tvm.IRModule.from_expr(function.relay_function((count,)))
    host = collage.host_target()
    with tvm.transform.PassContext(opt_level=3):
        sides = {OURS: build_library(mod, host), STOCK: relay.build(mod, target=host)}
        prepared = prepare(mod, {}, host, opt_level=3)
        placed = greedy_partition(prepared, "dnnl")
        if any(map(is_external_function, placed.functions.values())):
            sides[ONEDNN] = build_library(placed, host)
    return sides


def library_side(library: Any) -> Callable[..., np.ndarray]:
    executor = GraphModule(library["default"](tvm.cpu()))

    def call(*arguments: np.ndarray) -> np.ndarray:
        executor.run(**dict(zip("xy", arguments, strict=False)))
        return executor.get_output(0).numpy()

    return call


def numpy_side(function: Function) -> Callable[..., np.ndarray]:
    def call(*arguments: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return function.numpy(*arguments)

    return call


def worst_error(
    function: Function, call: Callable[..., np.ndarray], options: argparse.Namespace
) -> tuple[float, float]:
    """The largest error, and the x where it is. Most numbers are rounded right, and cost little."""
    worst = (0.5, 0.0)
    rng = np.random.default_rng(0)
    for x in all_floats(options.every, options.count):
        others = [rng.uniform(-8, 8, x.shape).astype("float32")] * (function.arguments - 1)
        got, wanted = call(x, *others), function.exact(x, *others)
        with np.errstate(all="ignore"):
            wrong = np.flatnonzero(got != wanted.astype("float32"))  # and all NaNs
        if wrong.size:
            off = ulps_off(got[wrong], wanted[wrong])
            place = int(off.argmax())
            worst = max(worst, (float(off[place]), float(x[wrong[place]])))
    return worst


if __name__ == "__main__":
    sys.exit(main())
