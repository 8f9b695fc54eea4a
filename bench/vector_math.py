#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exp, tanh, erf, sigmoid, logarithms and pow of a million floats: TVM's kernels as Collage builds
them, stock TVM's, oneDNN's and numpy's (scipy's erf and sigmoid). How fast, and how far off.

Time: each side is a process of its own; they are woken one at a time, in a new random order each
round. Printed: the median, and its ratio to ours with a 95 % interval. Error: the worst of each
`--every`-th number of float32 by its bits, `--every 1` for all of them (hours), in units of the
last place, with the x where it is; pow takes a random y there, in -8 to 8.
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
from peer.functions import FUNCTIONS, Function, all_floats, numpy_called, ulps_off
from peer.sides import ratio_text, usable_by_name, with_threads
from peers import describe_machine
from tvm import relay
from tvm.contrib.graph_executor import GraphModule
from tvm.relay import collage
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.exec.arrays import save_arrays
from tvm.relay.collage.exec.resolve import path_of
from tvm.relay.collage.external import is_external_function
from tvm.relay.collage.greedy import greedy_partition
from tvm.relay.collage.measure import Contestant, compare
from tvm_collage.threads import default_threads

OURS, NUMPY = "ours", "numpy"
COUNT = 1 << 20
# Outputs are judged by their errors in units of the last place, so nothing is left out for these.
_ANY_ERROR = 1e-2


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functions", type=_functions, default=",".join(FUNCTIONS))
    parser.add_argument("--every", type=int, default=256, help="of the floats that are looked at")
    parser.add_argument("--count", type=int, default=COUNT, help="floats in one call")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=default_threads())
    options = parser.parse_args(arguments)
    machine = describe_machine()
    print(f"{machine['cpu']}, {machine['cores']} CPUs, {options.threads} threads", flush=True)
    for function in options.functions:
        print(measure(function, options), flush=True)
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
    lines = [f"{function.name}: median, ratio to ours, worst error"]
    for name in (*libraries, NUMPY):
        item = found[name]
        call = numpy_side(function) if name == NUMPY else library_side(libraries[name])
        off, at = worst_error(function, call, options)
        lines.append(
            f"  {name:7s}{1e6 * item.cost.seconds:10.1f} us {ratio_text(item, found[OURS]):>22}"
            f"  {off:.2f} ulp at {at!r}"
        )
    return "\n".join(lines)


def build_sides(function: Function, count: int) -> dict[str, Any]:
    """Libraries by name: ours, stock TVM's, oneDNN's where it has the function."""
    mod = tvm.IRModule.from_expr(function.relay_function((count,)))
    host = collage.host_target()
    with tvm.transform.PassContext(opt_level=3):
        sides = {OURS: build_library(mod, host), "stock": relay.build(mod, target=host)}
        prepared = prepare(mod, {}, host, opt_level=3)
        placed = greedy_partition(prepared, "dnnl")
        if any(map(is_external_function, placed.functions.values())):
            sides["onednn"] = build_library(placed, host)
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
    """The largest error, and the x where it is."""
    worst = (-1.0, 0.0)
    rng = np.random.default_rng(0)
    for x in all_floats(options.every, options.count):
        others = [rng.uniform(-8, 8, x.shape).astype("float32")] * (function.arguments - 1)
        off = ulps_off(call(x, *others), function.exact(x, *others))
        place = int(off.argmax())
        worst = max(worst, (float(off[place]), float(x[place])))
    return worst


def _functions(names: str) -> list[Function]:
    unknown = sorted(set(names.split(",")) - set(FUNCTIONS))
    if unknown:
        raise argparse.ArgumentTypeError(f"no function {unknown[0]!r}: choose of {list(FUNCTIONS)}")
    return [FUNCTIONS[name] for name in names.split(",")]


if __name__ == "__main__":
    sys.exit(main())
