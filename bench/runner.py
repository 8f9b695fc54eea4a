#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call costs that takes arrays and gives arrays: Collage's runner (docs/runner.md), TVM's
GraphModule on the same library, and onnxruntime's `run`, beside the library's run alone.

Each side is a process of its own; they are woken one at a time, in a new random order each round.
Printed: medians, what a side takes beyond the run alone, and its time over the runner's with a 95 %
interval. "two_inputs" is a net of two inputs and one output, about 40 us.
Needs the environment that `make build` makes.
Run: python bench/runner.py --nets two_inputs,mobilenetv2. Test: test_bench_runner.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import models
import onnx
from models.graph import Graph
from peer import called
from peer.alone import build_alone, prepared
from peer.contestants import PEERS
from peers import describe_machine
from tvm.relay.collage.measure import Comparison, Contestant, compare
from tvm.relay.collage.measure.comparison import paired_ratio
from tvm.relay.collage.measure.resolve import path_of
from tvm_collage.threads import default_threads

RUNNER, GRAPH_MODULE, RUN_ALONE = "runner", "GraphModule", "run alone"
OURS = {
    RUNNER: called.runner_called,
    GRAPH_MODULE: called.graph_module_called,
    RUN_ALONE: called.only_run,
}
PEER = "onnxruntime"


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
    parser.add_argument("--threads", type=int, default=default_threads())
    options = parser.parse_args(arguments)
    machine = describe_machine()
    print(f"{machine['cpu']}, {machine['cores']} CPUs, {options.threads} threads", flush=True)
    status = 0
    for net in options.nets:
        try:
            print(measure(net, options), flush=True)
        except (FileNotFoundError, RuntimeError) as error:
            print(f"{net.name}: left out: {error}", file=sys.stderr)
            status = 1
    return status


def measure(net: models.Net, options: argparse.Namespace) -> str:
    """A net's lines. FileNotFoundError for a real net that is not there, RuntimeError for a side of
    ours that failed."""
    model = net.build(1)
    count = str(options.threads)
    environment = {"TVM_NUM_THREADS": count, "OMP_NUM_THREADS": count}
    with tempfile.TemporaryDirectory(prefix="collage-runner-") as folder:
        file, inputs = models.save(net, model, Path(folder))
        library = str(Path(folder) / "net.so")
        build_alone(prepared(model), options.backend).export_library(library)
        arguments = {"library": library, "inputs": inputs}
        sides = [
            Contestant(name, path_of(factory), arguments, environment)
            for name, factory in OURS.items()
        ]
        if PEERS[PEER].is_installed():
            sides.append(PEERS[PEER].contestant(file, inputs, environment))
        found = compare(sides, RUN_ALONE, options.rounds, 1e-3)
    return text_of(net.name, found)


def text_of(net: str, found: list[Comparison]) -> str:
    """The lines of a net. RuntimeError for a side of ours that failed."""
    by_name = {item.name: item for item in found}
    for name in OURS:
        if not by_name[name].cost.is_usable:
            raise RuntimeError(f"{name}: {by_name[name].cost.Summary()}")
    alone = by_name[RUN_ALONE].cost.seconds
    lines = [f"{net}: median, beyond the run alone, ratio to the runner"]
    for item in found:
        if item.cost.is_usable:
            ratio, low, high = paired_ratio(item.samples, by_name[RUNNER].samples)
            seconds = item.cost.seconds
            beyond = f"{1e6 * (seconds - alone):+8.1f} us" if item.name in OURS else ""
            figures = f"{1e6 * seconds:10.1f} us {beyond:12s} {ratio:.2f} [{low:.2f}, {high:.2f}]"
        else:
            figures = item.cost.Summary()
        lines.append(f"  {item.name:12s}{figures}")
    return "\n".join(lines)


def _nets(names: str) -> list[models.Net]:
    """The nets of the benchmarks, and the one of this file."""
    found = []
    for name in names.split(","):
        found += [TWO_INPUTS] if name == TWO_INPUTS.name else models.nets_argument(name)
    return found


if __name__ == "__main__":
    sys.exit(main())
