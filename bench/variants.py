#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nets on one backend alone, in variants of what is ours, beside each other and beside the peers.

    python bench/variants.py calls --nets two_inputs,mobilenetv2
    python bench/variants.py spread --nets mobilenetv2 --pauses 20,100
    python bench/variants.py pool --nets resnet50
    python bench/variants.py winograd --nets resnet50,yolov3

calls: what a call costs that takes arrays and gives arrays (docs/deploy.md). spread: threads kept
on CPUs of their own, or not; pool: TVM's kernels and the backend's library on one pool of threads,
or TVM's own pool beside the library's, with its usual waiting or with ours (docs/thread_pool.md).
winograd: convolutions by our kernel where its model expects a gain, or all by oneDNN's; kernels:
steps by the kernels that the backend prefers, or by those that are timed now and fastest
(docs/backends/dnnl.md).

Each side is a process of its own; they are woken one at a time, in a new random order each round.
With `--pauses` each run follows a sleep, after which caches are cold and threads asleep for every
side. Printed: medians, ratios and differences round by round with 95 % intervals, outputs' errors.
Needs the environment that `make build` makes. Test: bench/test_variants.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import models
import tvm
from harness import arguments, calls
from harness.contestants import PEERS, untouched_variables
from harness.records import machine_line
from harness.served import runtime_library, two_pools_library
from harness.sides import (
    Files,
    files_of,
    measured_kernels,
    prepared,
    print_each,
    ratio_text,
    usable_by_name,
)
from harness.tables import interval_text, text_table
from random_costs import RandomCosts
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import build_library, host_target
from tvm.relay.collage.costs.statistics import median_interval
from tvm.relay.collage.exec.resolve import path_of
from tvm.relay.collage.measure import Comparison, Contestant, compare
from tvm.relay.collage.plans.run_pass import partition

RUNNER, GRAPH_MODULE, RUN_ALONE = "runner", "GraphModule", "run alone"
SPREAD, NOT_SPREAD = "spread", "not spread"
ONE_POOL, TWO_POOLS, SAME_SPINS = "one pool", "two pools", "two, same spins"
ONEDNN, WINOGRAD = "oneDNN", "with Winograd"
PREFERRED, MEASURED = "preferred", "measured"
Sides = list[Contestant]


def call_sides(files: Files, mod: tvm.IRModule, backend: str) -> Sides:
    """Ways to call one library, and runs of it that take and give nothing."""
    alone = files.alone(RUN_ALONE, mod, backend)
    given = {name: alone.arguments[name] for name in ("library", "inputs")}
    ways = {RUNNER: calls.runner_called, GRAPH_MODULE: calls.graph_module_called}
    return [
        *(Contestant(name, path_of(way), given, files.environment) for name, way in ways.items()),
        alone,
    ]


def call_peers(files: Files) -> Sides:
    """onnxruntime's `run`, and its run on arrays that are bound."""
    peer = PEERS["onnxruntime"]
    if not peer.is_installed():
        return []
    called = dataclasses.replace(peer, factory="onnxruntime_called")
    bound = dataclasses.replace(peer, name="onnxruntime, bound")
    return [
        each.contestant(files.file, files.inputs, files.environment) for each in (called, bound)
    ]


def spread_sides(files: Files, mod: tvm.IRModule, backend: str) -> Sides:
    spread = files.alone(SPREAD, mod, backend, COLLAGE_SPREAD_THREADS="1")
    environment = {**spread.environment, "COLLAGE_SPREAD_THREADS": "0"}
    return [spread, dataclasses.replace(spread, name=NOT_SPREAD, environment=environment)]


def pool_sides(files: Files, mod: tvm.IRModule, backend: str) -> Sides:
    """One library, whose parts TVM and the backend have in turns, as made-up costs place them."""
    host, file = host_target(), str(files.folder / "mixed.so")
    with tvm.transform.PassContext(opt_level=3):
        placed = partition(mod, parse_targets([host, backend]), RandomCosts(0))
        build_library(placed, host).export_library(file)
    given = {"library": file, "inputs": files.inputs}
    alike = {**files.environment, "GOMP_SPINCOUNT": "1000", "TVM_BIND_THREADS": "0"}
    users = {**files.environment, **untouched_variables()}
    two = Contestant(TWO_POOLS, path_of(two_pools_library), given, users)
    return [
        Contestant(ONE_POOL, path_of(runtime_library), given, files.environment),
        two,
        dataclasses.replace(two, name=SAME_SPINS, environment=alike),
    ]


def winograd_sides(files: Files, mod: tvm.IRModule, backend: str) -> Sides:
    """Targets of dnnl; the backend is not asked for."""
    kinds = {ONEDNN: "never", WINOGRAD: "auto"}
    return [files.alone(side, mod, f"dnnl -winograd={kind}") for side, kind in kinds.items()]


def kernel_sides(files: Files, mod: tvm.IRModule, backend: str) -> Sides:
    """Prints each step that another kernel runs than the preferred one."""
    chosen = measured_kernels(mod, backend, files.environment)
    for choice in chosen:
        if not choice.is_usual:
            print(choice.Summary(), flush=True)
    return [files.alone(PREFERRED, mod, backend), files.alone(MEASURED, mod, backend, chosen)]


def installed_peers(files: Files) -> Sides:
    return [files.peer(name) for name, peer in PEERS.items() if peer.is_installed()]


@dataclasses.dataclass(frozen=True)
class Study:
    """Sides of ours, of which none may fail, and those of peers. right: whose outputs are. over:
    whose time ratios are over. beyond: whose time is taken off those of ours, "" for none. pauses:
    milliseconds, 0 for call after call. after_pause: how samples are taken then."""

    sides: Callable[[Files, tvm.IRModule, str], Sides]
    peers: Callable[[Files], Sides]
    right: str
    over: str
    beyond: str
    nets: str
    pauses: str
    after_pause: Mapping[str, float] = dataclasses.field(default_factory=dict)


STUDIES = {
    "calls": Study(
        call_sides, call_peers, RUN_ALONE, RUNNER, RUN_ALONE, "two_inputs,mobilenetv2", "0,2"
    ),
    "spread": Study(
        spread_sides,
        installed_peers,
        NOT_SPREAD,
        SPREAD,
        "",
        "mobilenetv2",
        "0,20,100",
        # One run a sample and no warm-up: what a run is like after a pause is the question.
        {"warm_seconds": 0.0, "sample_seconds": 1e-6},
    ),
    "pool": Study(pool_sides, lambda _: [], ONE_POOL, ONE_POOL, "", "resnet50,bert", "0"),
    "winograd": Study(winograd_sides, lambda _: [], ONEDNN, WINOGRAD, "", "resnet50", "0"),
    "kernels": Study(kernel_sides, lambda _: [], PREFERRED, MEASURED, "", "bert,vit", "0"),
}


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="study", required=True)
    for name, study in STUDIES.items():
        shared = arguments.make_parser(__doc__, nets=study.nets, rounds=20, threads=None, batch=1)
        command = commands.add_parser(name, parents=[shared], add_help=False)
        command.add_argument(
            "--backend",
            type=arguments.backend,
            default="dnnl",
            help="that has all that it takes; or tvm",
        )
        command.add_argument(
            "--pauses",
            type=_seconds,
            default=study.pauses,
            help="milliseconds of sleep before each run, 0: none",
        )
    options = parser.parse_args(given)
    print(machine_line(options.threads), flush=True)
    return print_each(options.nets, lambda net: net.name, lambda net: measure(net, options))


def measure(net: models.Net, options: argparse.Namespace) -> Iterator[str]:
    """A net's lines. FileNotFoundError for a real net that is not there, RuntimeError for a side of
    ours that failed."""
    study = STUDIES[options.study]
    with files_of(net, options.threads, options.batch) as files:
        ours = study.sides(files, prepared(files.model), options.backend)
        sides = [*ours, *study.peers(files)]
        for pause in options.pauses:
            chosen = [calls.paused(side, pause) for side in sides] if pause else sides
            settings = study.after_pause if pause else {}
            found = compare(chosen, study.right, options.rounds, 1e-3, **settings)
            way = f"after {1e3 * pause:g} ms of sleep" if pause else "call after call"
            yield f"{net.name}, {way}"
            yield table(found, study, [side.name for side in ours])


def table(found: list[Comparison], study: Study, ours: Sequence[str]) -> str:
    """A row for each side, ours first. RuntimeError for a side of ours that failed."""
    by_name = usable_by_name(found, ours)
    head = ["side", "median us", f"over {study.over}"]
    head += [f"beyond {study.beyond}, us"] if study.beyond else []
    rows: list[list[Any]] = []
    for name in [*ours, *sorted(set(by_name) - set(ours))]:
        item = by_name[name]
        if not item.cost.is_usable:
            rows.append([name, *["-"] * len(head), item.cost.Summary()])
            continue
        row = [name, f"{1e6 * item.cost.seconds:.1f}", ratio_text(item, by_name[study.over])]
        if study.beyond:
            is_beyond = name in ours and name != study.beyond
            row.append(_difference(item, by_name[study.beyond]) if is_beyond else "")
        error = item.output_error
        rows.append([*row, "-" if error is None else f"{error:.1e}"])
    return text_table([*head, "error"], rows)


def _difference(above: Comparison, below: Comparison) -> str:
    """Microseconds of above beyond those of below, round by round."""
    differences = [1e6 * (a - b) for a, b in zip(above.samples, below.samples, strict=True)]
    return interval_text(median_interval(differences), "+.1f")


@arguments.checked
def _seconds(text: str) -> list[float]:
    """Seconds of a list of milliseconds."""
    return [float(item) / 1e3 for item in arguments.listed(text)]


if __name__ == "__main__":
    sys.exit(main())
