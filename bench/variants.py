#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time one net in variants of what is ours, beside each other and beside the libraries.

    python bench/variants.py calls --nets two_inputs,mobilenetv2
    python bench/variants.py spread --nets mobilenetv2 --pauses 20,100
    python bench/variants.py deployed

The table STUDIES has the questions. The net runs on one backend alone, which has all that it takes,
TVM the rest. Each side is a process of its own; they are woken one at a time, in a new random order
each round. With `--pauses` each run follows a sleep, after which caches are cold and threads asleep
for every side. Printed: medians, ratios and differences round by round with 95 % intervals,
outputs' errors. Docs: docs/bench.md. Test: bench/test_variants.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import models
import tvm
from harness import arguments, calls
from harness.records import machine_line
from harness.served import cpp_library, runtime_library, two_pools_library
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
from tvm.relay.collage.measure.peers import PEERS, untouched_variables
from tvm.relay.collage.plans.run_pass import partition

RUNNER, GRAPH_MODULE, RUN_ALONE = "runner", "GraphModule", "run alone"
SPREAD, NOT_SPREAD = "spread", "not spread"
ONE_POOL, TWO_POOLS, SAME_SPINS = "one pool", "two pools", "two, same spins"
ONEDNN, WINOGRAD = "oneDNN", "with Winograd"
PREFERRED, MEASURED = "preferred", "measured"
PYTHON, RUNTIME, CPP = "python", "runtime alone", "c++"
Sides = list[Contestant]


class Setting(NamedTuple):
    """The makings of a net's sides."""

    files: Files  # of the net
    mod: tvm.IRModule  # the net, prepared for partitioning
    backend: str  # that has all that it takes


def call_sides(of: Setting) -> Sides:
    """Make ways to call one library, and runs of it that take and give nothing."""
    alone = of.files.alone(RUN_ALONE, of.mod, of.backend)
    given = {name: alone.arguments[name] for name in ("library", "inputs")}
    ways = {RUNNER: calls.runner_called, GRAPH_MODULE: calls.graph_module_called}
    called = [
        Contestant(name, path_of(way), given, environment=of.files.environment)
        for name, way in ways.items()
    ]
    return [*called, alone]


def call_peers(files: Files) -> Sides:
    """Make onnxruntime's `run`, and its run on arrays that are bound."""
    peer = PEERS["onnxruntime"]
    if not peer.is_installed():
        return []
    called = dataclasses.replace(peer, factory=path_of(calls.onnxruntime_called))
    bound = dataclasses.replace(peer, name="onnxruntime, bound")
    return [
        each.contestant(files.file, files.inputs, files.environment) for each in (called, bound)
    ]


def spread_sides(of: Setting) -> Sides:
    """Make one library on threads that are kept on CPUs of their own, or not."""
    spread = of.files.alone(SPREAD, of.mod, of.backend, COLLAGE_SPREAD_THREADS="1")
    return [spread, _with(spread, NOT_SPREAD, COLLAGE_SPREAD_THREADS="0")]


def pool_sides(of: Setting) -> Sides:
    """Make one library, whose parts TVM and the backend have in turns, as made-up costs place
    them; on two pools with the usual waiting of users, and with ours."""
    host, file = host_target(), str(of.files.folder / "mixed.so")
    with tvm.transform.PassContext(opt_level=3):
        placed = partition(of.mod, parse_targets([host, of.backend]), RandomCosts(0))
        build_library(placed, host).export_library(file)
    given = {"library": file, "inputs": of.files.inputs}
    users = {**of.files.environment, **untouched_variables()}
    two = Contestant(TWO_POOLS, path_of(two_pools_library), given, environment=users)
    return [
        Contestant(ONE_POOL, path_of(runtime_library), given, environment=of.files.environment),
        two,
        _with(two, SAME_SPINS, GOMP_SPINCOUNT="1000", TVM_BIND_THREADS="0"),
    ]


def winograd_sides(of: Setting) -> Sides:
    """Make the net on targets of dnnl; the backend is not asked for."""
    kinds = {ONEDNN: "never", WINOGRAD: "auto"}
    return [of.files.alone(side, of.mod, f"dnnl -winograd={kind}") for side, kind in kinds.items()]


def kernel_sides(of: Setting) -> Sides:
    """Make the net by preferred and by measured kernels; print each step that has another one."""
    chosen = measured_kernels(of.mod, of.backend, of.files.environment)
    for choice in chosen:
        if not choice.is_usual:
            print(choice.Summary(), flush=True)
    preferred = of.files.alone(PREFERRED, of.mod, of.backend)
    return [preferred, of.files.alone(MEASURED, of.mod, of.backend, kernels=chosen)]


def deployed_sides(of: Setting) -> Sides:
    """Make one library in Python with Relay, in Python without, and in C++."""
    ours = of.files.alone(PYTHON, of.mod, of.backend)
    given = {name: ours.arguments[name] for name in ("library", "inputs")}
    program = {"program": build_program(of.files.folder), **given}
    return [
        ours,
        Contestant(RUNTIME, path_of(runtime_library), given, environment=ours.environment),
        Contestant(CPP, path_of(cpp_library), program, environment=ours.environment),
    ]


def _with(side: Contestant, name: str, **variables: str) -> Contestant:
    return dataclasses.replace(side, name=name, environment={**side.environment, **variables})


def build_program(folder: Path) -> str:
    """Build the C++ example; RuntimeError with what make said."""
    command = ["make", "-s", "-C", arguments.ROOT / "demos/cpp_deploy", f"BUILD={folder}"]
    done = subprocess.run(
        [*command, f"PYTHON={sys.executable}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"make of demos/cpp_deploy failed: {done.stderr[-500:]}")
    return str(folder / "cpp_deploy")


def installed_peers(files: Files) -> Sides:
    return [files.peer(name) for name, peer in PEERS.items() if peer.is_installed()]


def no_peers(files: Files) -> Sides:
    return []


@dataclasses.dataclass(frozen=True)
class Study:
    """A question about one net, and the sides that answer it."""

    asks: str
    sides: Callable[[Setting], Sides]  # ours, of which none may fail
    right: str  # the side whose outputs are right
    over: str  # the side that times are put over
    peers: Callable[[Files], Sides] = no_peers
    beyond: str = ""  # the side whose time is taken off those of ours; "" for none
    nets: str = "resnet50"
    pauses: str = "0"  # milliseconds, 0 for call after call
    after_pause: Mapping[str, float] = dataclasses.field(default_factory=dict)  # of samples then


STUDIES = {
    "calls": Study(
        "What does a call cost that takes arrays and gives arrays?",
        call_sides,
        RUN_ALONE,
        over=RUNNER,
        peers=call_peers,
        beyond=RUN_ALONE,
        nets="two_inputs,mobilenetv2",
        pauses="0,2",
    ),
    "spread": Study(
        "What do threads of their own CPUs save after pauses?",
        spread_sides,
        NOT_SPREAD,
        over=SPREAD,
        peers=installed_peers,
        nets="mobilenetv2",
        pauses="0,20,100",
        # One run a sample and no warm-up: what a run is like after a pause is the question.
        after_pause={"warm_seconds": 0.0, "sample_seconds": 1e-6},
    ),
    "pool": Study(
        "What does one pool of threads save?",
        pool_sides,
        ONE_POOL,
        over=ONE_POOL,
        nets="resnet50,bert",
    ),
    "winograd": Study(
        "What does our kernel for convolutions by Winograd's algorithm save?",
        winograd_sides,
        ONEDNN,
        over=WINOGRAD,
    ),
    "kernels": Study(
        "What do kernels save that were chosen by measuring?",
        kernel_sides,
        PREFERRED,
        over=MEASURED,
        nets="bert,vit",
    ),
    "deployed": Study(
        "Is a library as fast wherever it is deployed?",
        deployed_sides,
        PYTHON,
        over=PYTHON,
        nets="resnet50,mobilenetv2",
    ),
}


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="study", required=True)
    for name, study in STUDIES.items():
        shared = arguments.make_parser(
            study.asks, nets=study.nets, rounds=20, threads=None, batch=1
        )
        command = commands.add_parser(name, parents=[shared], add_help=False, help=study.asks)
        add = command.add_argument
        of_backend = "that has all that it takes; or tvm"
        add("--backend", type=arguments.backend, default="dnnl", help=of_backend)
        pauses = "milliseconds of sleep before each run, 0: none"
        add("--pauses", type=_seconds, default=study.pauses, help=pauses)
    options = parser.parse_args(given)
    print(machine_line(options.threads), flush=True)
    return print_each(options.nets, lambda net: net.name, lambda net: measure(net, options))


def measure(net: models.Net, options: argparse.Namespace) -> Iterator[str]:
    """Measure a net and give its lines. FileNotFoundError for a real net that is not there,
    RuntimeError for a side of ours that failed."""
    study = STUDIES[options.study]
    with files_of(net, options.threads, options.batch) as files:
        ours = study.sides(Setting(files, prepared(files.model), options.backend))
        sides = [*ours, *study.peers(files)]
        for pause in options.pauses:
            chosen = [calls.paused(side, pause) for side in sides] if pause else sides
            settings = study.after_pause if pause else {}
            found = compare(chosen, study.right, rounds=options.rounds, rtol=1e-3, **settings)
            way = f"after {1e3 * pause:g} ms of sleep" if pause else "call after call"
            yield f"{net.name}, {way}"
            yield table(found, study, [side.name for side in ours])


def table(found: list[Comparison], study: Study, ours: Sequence[str]) -> str:
    """Return a row for each side, ours first. RuntimeError for a side of ours that failed."""
    by_name = usable_by_name(found, ours)
    head = ["side", "median us", f"over {study.over}"]
    head += [f"beyond {study.beyond}, us"] if study.beyond else []
    rows: list[list[Any]] = []
    for name in [*ours, *sorted(set(by_name) - set(ours))]:
        item = by_name[name]
        if not item.cost.is_usable:
            rows.append([name, *["-"] * len(head), item.cost.Summary()])
            continue
        ratio = ratio_text(item, by_name[study.over])
        row = [name, f"{1e6 * item.cost.seconds:.1f}", ratio]
        if study.beyond:
            is_beyond = name in ours and name != study.beyond
            row.append(_difference(item, by_name[study.beyond]) if is_beyond else "")
        error = item.output_error
        rows.append([*row, "-" if error is None else f"{error:.1e}"])
    return text_table([*head, "error"], rows)


def _difference(above: Comparison, below: Comparison) -> str:
    """Return microseconds of above beyond those of below, round by round."""
    differences = [1e6 * (a - b) for a, b in zip(above.samples, below.samples, strict=True)]
    return interval_text(median_interval(differences), "+.1f")


@arguments.checked
def _seconds(text: str) -> list[float]:
    """Return seconds of a list of milliseconds."""
    return [float(item) / 1e3 for item in arguments.listed(text)]


if __name__ == "__main__":
    sys.exit(main())
