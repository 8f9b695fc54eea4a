#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nets on the backend dnnl alone: 3x3 convolutions by oneDNN's kernels, and by our Winograd kernel.

Each side is a process of its own; they are woken one at a time, in a new random order each round.
Printed: medians, oneDNN's time over ours with a 95 % interval and the outputs' error.
Needs the environment that `make build` makes.
Run: python bench/winograd.py --nets resnet50,yolov3. Test: test_bench_winograd.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import models
from peer.alone import build_alone, prepared
from tvm.relay.collage.measure import Contestant, compare
from tvm.relay.collage.measure.comparison import paired_ratio
from tvm_collage.threads import default_threads

SIDES = ("never", "auto")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", type=models.nets_argument, default="resnet50")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=default_threads())
    options = parser.parse_args(arguments)
    status = 0
    for net in options.nets:
        try:
            print(measure(net, options), flush=True)
        except (FileNotFoundError, RuntimeError) as error:
            print(f"{net.name}: left out: {error}", file=sys.stderr)
            status = 1
    return status


def measure(net: models.Net, options: argparse.Namespace) -> str:
    """One net's line; FileNotFoundError for a real net that is not there, RuntimeError for a side
    that failed."""
    model = net.build(options.batch)
    mod = prepared(model)
    count = str(options.threads)
    environment = {"TVM_NUM_THREADS": count, "OMP_NUM_THREADS": count}
    with tempfile.TemporaryDirectory(prefix="collage-winograd-") as name:
        folder = Path(name)
        inputs = models.save_inputs(net, model, folder)
        contestants = []
        for side in SIDES:
            file = str(folder / f"{side}.so")
            build_alone(mod, f"dnnl -winograd={side}").export_library(file)
            contestants.append(Contestant.of_library(side, file, inputs, environment=environment))
        found = compare(contestants, SIDES[0], options.rounds, 1e-3)
    never, auto = ({item.name: item for item in found}[side] for side in SIDES)
    for item in (never, auto):
        if not item.cost.is_usable:
            raise RuntimeError(f"{item.name}: {item.cost.status}: {item.cost.message}")
    ratio, low, high = paired_ratio(never.samples, auto.samples)
    return (
        f"{net.name}: oneDNN {1e3 * never.cost.seconds:.2f} ms, with Winograd "
        f"{1e3 * auto.cost.seconds:.2f} ms: {ratio:.3f} [{low:.3f}, {high:.3f}] times as fast, "
        f"error {auto.output_error:.1e}"
    )


if __name__ == "__main__":
    sys.exit(main())
