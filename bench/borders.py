#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a border between parts of two backends costs, beyond the parts.

A chain of equal 3x3 convolutions, each a part of its own, is run by one backend, by another, and
by both in turn. A border is what a part takes more in the last than in the mean of the others:
threads of two pools wake and fall asleep, layouts change. See docs/additivity.md.

Each chain is a process of its own; they are woken one at a time, in a new random order each round.
Printed: medians, and differences round by round with 95 % intervals, in microseconds a part.
Run: python bench/borders.py. Test: bench/test_borders.py.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from harness import arguments
from harness.records import machine_line
from harness.sides import usable_by_name, with_threads
from harness.tables import interval_text, text_table
from tvm import relay
from tvm.relay.collage import host_target
from tvm.relay.collage.candidate.candidate import deployable_module
from tvm.relay.collage.candidate.inputs import describe_inputs, random_inputs
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.costs.statistics import median_interval
from tvm.relay.collage.exec.arrays import save_arrays
from tvm.relay.collage.measure import Comparison, Contestant, compare
from tvm.relay.collage.plans.competing import TVM_ALONE


def chain(backends: Sequence[str], channels: int, size: int) -> tvm.IRModule:
    """A 3x3 convolution and a ReLU for each backend, each a part that nothing is fused with."""
    generator = np.random.default_rng(0)
    shape = (1, channels, size, size)
    scale = np.float32(np.sqrt(2 / (9 * channels)))  # keeps numbers in their range
    data = value = relay.var("data", shape=shape)
    for index, backend in enumerate(backends):
        read = value if backend == TVM_ALONE else relay.var("x", shape=shape)
        weights = generator.standard_normal((channels, channels, 3, 3), dtype="float32") * scale
        conv = relay.nn.conv2d(
            read, relay.const(weights), channels=channels, kernel_size=(3, 3), padding=1
        )
        layer = relay.nn.relu(conv)
        value = layer if backend == TVM_ALONE else _part(read, layer, backend, index)(value)
    function = relay.Function([data], value)
    return deployable_module(relay.transform.InferType()(tvm.IRModule.from_expr(function)))


def _part(read: relay.Var, layer: relay.Expr, backend: str, index: int) -> relay.Function:
    function = relay.Function([read], layer)
    attributes = {"Compiler": backend, "Primitive": 1, "global_symbol": f"{backend}_{index}"}
    return function.with_attr(attributes)


def chains(backends: Sequence[str], length: int) -> dict[str, list[str]]:
    """Those that are run, by name."""
    alone = {name: [name] * length for name in backends}
    pairs = itertools.combinations(backends, 2)
    return alone | {f"{a}, {b}": [(a, b)[i % 2] for i in range(length)] for a, b in pairs}


def measure(options: Any) -> str:
    """The table. RuntimeError for a chain that failed."""
    with tempfile.TemporaryDirectory(prefix="collage-bench-") as name:
        sides = []
        for label, parts in chains([TVM_ALONE, *options.backends], options.length).items():
            mod = chain(parts, options.channels, options.size)
            library = str(Path(name) / f"{len(sides)}.so")
            inputs = str(Path(name) / "inputs.npz")
            with tvm.transform.PassContext(opt_level=3):
                build_library(mod, host_target()).export_library(library)
            save_arrays(inputs, random_inputs(describe_inputs(mod), 0))
            environment = with_threads(options.threads)
            sides.append(Contestant.of_library(label, library, inputs, environment=environment))
        found = compare(sides, TVM_ALONE, options.rounds, 1e-3)
    return table(usable_by_name(found), options.length)


def table(by_name: Mapping[str, Comparison], length: int) -> str:
    """A row for each chain."""
    rows = []
    for name, item in by_name.items():
        seconds = np.array(item.samples) * 1e6 / length
        row = [name, f"{np.median(seconds):.1f}"]
        if ", " in name:
            parts = [np.array(by_name[part].samples) * 1e6 / length for part in name.split(", ")]
            row.append(interval_text(median_interval((seconds - sum(parts) / 2).tolist()), "+.1f"))
        rows.append(row if len(row) == 3 else [*row, ""])
    return text_table(["parts of", "us a part", "a border, us"], rows)


def main(given: list[str] | None = None) -> int:
    parser = arguments.make_parser(
        __doc__, backends="dnnl,onnxruntime,openvino", rounds=30, threads=None
    )
    parser.add_argument("--channels", type=arguments.at_least(1), default=64)
    parser.add_argument("--size", type=arguments.at_least(1), default=14, help="rows and columns")
    parser.add_argument("--length", type=arguments.at_least(2), default=12, help="parts of a chain")
    options = parser.parse_args(given)
    print(machine_line(options.threads), flush=True)
    try:
        print(measure(options), flush=True)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
