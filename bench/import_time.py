#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seconds that ONNX models take to import: TVM's importer as it is, and collage.from_onnx.

Both run in this process, in turn; each pair's modules are compared.
Printed: medians, and how many times as fast ours is, with the range of the pairs (docs/import.md).
Needs the environment that `make build` makes.
Run: python bench/import_time.py --nets mobilenetv2 --files net.onnx.
Test: bench/test_import_time.py.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import onnx
import tvm
from peer.sides import print_each
from tvm import relay
from tvm.relay import collage


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", type=models.nets_argument, default=[], help="of bench.models")
    parser.add_argument("--files", type=Path, nargs="*", default=[], help="ONNX files")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip-stock", action="store_true", help="it takes minutes for some nets")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if not options.nets and not options.files:
        parser.error("name nets or files: --nets mobilenetv2, --files model.onnx")
    sources: list[tuple[str, Callable[[], Any]]] = [
        *((net.name, lambda net=net: net.build(1)) for net in options.nets),
        *((path.name, lambda path=path: onnx.load(path)) for path in options.files),
    ]
    # Any error: of a file, or of TVM about a model.
    return print_each(
        sources,
        lambda source: source[0],
        lambda source: [measure(source[0], source[1](), options.rounds, options.skip_stock)],
        (Exception,),
    )


def measure(name: str, model: onnx.ModelProto, rounds: int, skip_stock: bool) -> str:
    """A model's line. ValueError where the modules differ, else what the importers raise."""
    ours, stock = [], []
    for index in range(rounds):
        sides: list[tuple[Callable, list[float]]] = [(collage.from_onnx, ours)]
        sides += [] if skip_stock else [(relay.frontend.from_onnx, stock)]
        made = [timed(side, model, times) for side, times in sides[:: -1 if index % 2 else 1]]
        if any(not is_same(made[0], other) for other in made[1:]):
            raise ValueError("the modules differ")
    line = f"{name}: {len(model.graph.node)} nodes, ours {statistics.median(ours):.2f} s"
    if not stock:
        return line
    ratios = [slow / fast for slow, fast in zip(stock, ours, strict=True)]
    return (
        f"{line}, TVM's {statistics.median(stock):.2f} s: {statistics.median(ratios):.1f} "
        f"[{min(ratios):.1f}, {max(ratios):.1f}] times as fast, the same module"
    )


def timed(importer: Callable, model: onnx.ModelProto, times: list[float]) -> Any:
    """What an importer makes; its seconds are appended. It names nodes, so it gets a copy."""
    own = copy.deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        made = importer(own)
        times.append(time.perf_counter() - started)
    return made


def is_same(left: Any, right: Any) -> bool:
    """Whether two importers gave the same module, expressions shared alike, and parameters."""
    texts = [mod.astext(show_meta_data=False) for mod, _ in (left, right)]
    return (
        texts[0] == texts[1]
        and tvm.ir.structural_equal(left[0], right[0], map_free_vars=True)
        and left[1].keys() == right[1].keys()
    )


if __name__ == "__main__":
    sys.exit(main())
