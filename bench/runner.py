#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call costs that takes arrays and gives arrays: Collage's runner (docs/runner.md), TVM's
GraphModule on the same library, and onnxruntime's `run`, beside runs that take and give none: the
library's, and onnxruntime's on arrays that are bound.

Each side is a process of its own; they are woken one at a time, in a new random order each round,
and all run in the same two ways: call after call, and with a sleep before each call, after which
caches are cold and threads asleep for every side. Printed for each way: medians, what ours take
beyond the run alone and a side's time over the runner's, both round by round with 95 % intervals.
"two_inputs" is a net of two inputs and one output, about 20 us.
Needs the environment that `make build` makes.
Run: python bench/runner.py --nets two_inputs,mobilenetv2. Test: bench/test_runner.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import models
import onnx
from models.graph import Graph
from peer import called
from peer.alone import build_alone, prepared
from peer.contestants import PEERS
from peer.paused import paused
from peer.record import interval_text
from peer.sides import print_each, ratio_text, usable_by_name, with_threads
from peers import describe_machine
from tvm.relay.collage.costs.statistics import median_interval
from tvm.relay.collage.exec.resolve import path_of
from tvm.relay.collage.measure import Comparison, Contestant, compare
from tvm_collage.threads import default_threads

RUNNER, GRAPH_MODULE, RUN_ALONE = "runner", "GraphModule", "run alone"
OURS = {
    RUNNER: called.runner_called,
    GRAPH_MODULE: called.graph_module_called,
    RUN_ALONE: called.only_run,
}
PEER = dataclasses.replace(PEERS["onnxruntime"], factory="onnxruntime_called")
BOUND = dataclasses.replace(PEERS["onnxruntime"], name="onnxruntime, bound")


def two_inputs(batch: int) -> onnx.ModelProto:
    """Two dense layers of the sum of two inputs."""
    g = Graph("two_inputs")
    x = g.add(g.input("a", (batch, 256)), g.input("b", (batch, 256)))
    return g.model(g.dense(g.relu(g.dense(x, 512)), 256))


TWO_INPUTS = models.Net("two_inputs", "two dense layers of a sum", two_inputs, "bench/runner.py")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", type=_nets, default="two_inputs,mobilenetv2")
    parser.add_argument("--backend", default="dnnl", help="that has all that it takes; or tvm")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--pause", type=float, default=2.0, help="ms of the sleep before a call")
    parser.add_argument("--threads", type=int, default=default_threads())
    options = parser.parse_args(arguments)
    machine = describe_machine()
    print(f"{machine['cpu']}, {machine['cores']} CPUs, {options.threads} threads", flush=True)
    return print_each(options.nets, lambda net: net.name, lambda net: measure(net, options))


def measure(net: models.Net, options: argparse.Namespace) -> Iterator[str]:
    """A net's lines. FileNotFoundError for a real net that is not there, RuntimeError for a side of
    ours that failed."""
    model = net.build(1)
    environment = with_threads(options.threads)
    with tempfile.TemporaryDirectory(prefix="collage-runner-") as folder:
        file, inputs = models.save(net, model, Path(folder))
        library = str(Path(folder) / "net.so")
        build_alone(prepared(model), options.backend).export_library(library)
        arguments = {"library": library, "inputs": inputs}
        sides = [
            Contestant(name, path_of(factory), arguments, environment)
            for name, factory in OURS.items()
        ]
        if PEER.is_installed():
            sides += [peer.contestant(file, inputs, environment) for peer in (PEER, BOUND)]
        ways = {
            "call after call": sides,
            f"after {options.pause:g} ms of sleep": [paused(s, options.pause / 1e3) for s in sides],
        }
        found = {
            way: compare(chosen, RUN_ALONE, options.rounds, 1e-3) for way, chosen in ways.items()
        }
    yield text_of(net.name, found)


def text_of(net: str, ways: dict[str, list[Comparison]]) -> str:
    """The lines of a net: a column for each way to run. RuntimeError for a side of ours that
    failed."""
    columns = [_column(found) for found in ways.values()]
    what = f"{'median us':>9}  {'beyond the run alone':32}{'over the runner':18}"
    lines = ["".join([f"{net:20}", *(f"{way:63}" for way in ways)])]
    lines.append(" " * 20 + (what + "  ") * len(columns))
    for name in columns[0]:
        lines.append(f"  {name:18}" + "".join(f"{column[name]:63}" for column in columns))
    return "\n".join(line.rstrip() for line in lines)


def _column(found: list[Comparison]) -> dict[str, str]:
    """The figures of each side by name, for one way to run."""
    by_name = usable_by_name(found, list(OURS))
    alone = by_name[RUN_ALONE].samples
    figures = {}
    for name in [*OURS, *(name for name in (PEER.name, BOUND.name) if name in by_name)]:
        item = by_name[name]
        if not item.cost.is_usable:
            figures[name] = item.cost.Summary()
            continue
        beyond = ""
        if name in OURS and name != RUN_ALONE:
            differences = [1e6 * (a - b) for a, b in zip(item.samples, alone, strict=True)]
            beyond = f"{interval_text(median_interval(differences), '+.1f')} us"
        ratio = ratio_text(item, by_name[RUNNER])
        figures[name] = f"{1e6 * item.cost.seconds:9.1f}  {beyond:32}{ratio:18}"
    return figures


def _nets(names: str) -> list[models.Net]:
    """The nets of the benchmarks, and the one of this file."""
    found = []
    for name in names.split(","):
        found += [TWO_INPUTS] if name == TWO_INPUTS.name else models.nets_argument(name)
    return found


if __name__ == "__main__":
    sys.exit(main())
