#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nets on the backend dnnl alone: 3x3 convolutions by oneDNN's kernels, and by our Winograd kernel.

Each side is a process of its own; they are woken one at a time, in a new random order each round.
Printed: medians, oneDNN's time over ours with a 95 % interval and the outputs' error.
Needs the environment that `make build` makes.
Run: python bench/winograd.py --nets resnet50,yolov3. Test: bench/test_winograd.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import models
from peer.alone import build_alone, prepared
from peer.sides import print_each, ratio_text, usable_by_name, with_threads
from tvm.relay.collage.measure import Contestant, compare
from tvm_collage.threads import default_threads

SIDES = ("never", "auto")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", type=models.nets_argument, default="resnet50")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=default_threads())
    options = parser.parse_args(arguments)
    return print_each(options.nets, lambda net: net.name, lambda net: measure(net, options))


def measure(net: models.Net, options: argparse.Namespace) -> Iterator[str]:
    """One net's line; FileNotFoundError for a real net that is not there, RuntimeError for a side
    that failed."""
    model = net.build(options.batch)
    mod = prepared(model)
    environment = with_threads(options.threads)
    with tempfile.TemporaryDirectory(prefix="collage-winograd-") as name:
        folder = Path(name)
        inputs = models.save_inputs(net, model, folder)
        contestants = []
        for side in SIDES:
            file = str(folder / f"{side}.so")
            build_alone(mod, f"dnnl -winograd={side}").export_library(file)
            contestants.append(Contestant.of_library(side, file, inputs, environment=environment))
        found = compare(contestants, SIDES[0], options.rounds, 1e-3)
    by_name = usable_by_name(found)
    never, auto = (by_name[side] for side in SIDES)
    yield (
        f"{net.name}: oneDNN {1e3 * never.cost.seconds:.2f} ms, with Winograd "
        f"{1e3 * auto.cost.seconds:.2f} ms: {ratio_text(never, auto, '.3f')} times as fast, "
        f"error {auto.output_error:.1e}"
    )


if __name__ == "__main__":
    sys.exit(main())
