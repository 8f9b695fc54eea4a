#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One run of the pass for bench/search.py in a process of its own; prints one line of JSON.

Test: bench/test_search.py.
"""

from __future__ import annotations

import argparse
import json
import time

import search_nets
import tvm
from peak_memory import PeakMemory
from random_costs import AskedCosts, BoundedCosts, RandomCosts
from search_module import load_module, save_module
from tvm.relay.collage import MockCostEstimator
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.optimizer import partition
from tvm.relay.collage.targets import parse_targets
from tvm.relay.op.contrib import dnnl, register_pattern_table


def prepare_net(name: str, path: str) -> dict:
    """Prepares the net as `optimize` would and saves it."""
    mod, params = search_nets.build(name)
    save_module(prepare(mod, params, tvm.target.Target("llvm"), opt_level=3), path)
    return {}


def partition_net(path: str, depth: int, side: str, prices: dict) -> dict:
    """The saved net through the pass; `side` is one of search.SIDES. Seconds are (wall, CPU)."""
    external = "ccompiler" if side == "same" else "dnnl"
    if external == "ccompiler":
        table = dnnl.pattern_table()
        register_pattern_table(external, lambda: table)
    mod = load_module(path)
    targets = parse_targets([tvm.target.Target("llvm"), tvm.target.Target(external)])
    if side in ("asked", "bounded"):
        estimator = AskedCosts() if side == "asked" else BoundedCosts()
    elif side == "random":
        estimator = RandomCosts(seed=1, fails=0.1, transition=3e-7)
    else:
        estimator = MockCostEstimator(prices)
    peak = PeakMemory()
    began, began_cpu = time.perf_counter(), time.process_time()
    partition(mod, targets, estimator, tvm_max_depth=depth, byoc_max_depth=depth)
    whole = (time.perf_counter() - began, time.process_time() - began_cpu)
    peak_mb = peak.megabytes()
    [report] = estimator.reports
    limit = f"{report.states_cut} cut by max_states_per_position"
    phases = {
        name: (seconds["wall"], seconds["cpu"])
        for name, seconds in json.loads(tvm.get_global_func("collage.LastPhases")()).items()
    }
    # Around the pass: TVM's pass context, and what is loaded when it is first used.
    phases["other"] = tuple(
        whole[k] - sum(seconds[k] for seconds in phases.values()) for k in (0, 1)
    )
    return {
        "seconds": whole[0],
        "cpu_seconds": whole[1],
        "plan_seconds": whole[0] - phases["rewrite"][0],
        "plan_cpu_seconds": whole[1] - phases["rewrite"][1],
        "phases": {name: seconds[0] for name, seconds in phases.items()},
        "cpu_phases": {name: seconds[1] for name, seconds in phases.items()},
        "peak_mb": peak_mb,
        "price": report.seconds,
        "lower_bound": report.lower_bound_seconds,
        "distinct": report.costs.distinct,
        "asked": report.costs.asked,
        "rounds": report.costs.rounds,
        "nodes": report.nodes,
        "candidates": report.candidates,
        "states": report.states_expanded,
        "widest": report.widest_position,
        "limit": limit if report.states_cut else "no limit binding",
        "cuts": report.cuts,
        "optimal": report.is_optimal,
    }


def main() -> None:
    """Either of `prepare NAME FILE` and `partition FILE DEPTH SIDE PRICES`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare")
    preparing.add_argument("name")
    preparing.add_argument("path")
    partitioning = commands.add_parser("partition")
    partitioning.add_argument("path")
    partitioning.add_argument("depth", type=int)
    partitioning.add_argument("side")
    partitioning.add_argument("prices", type=json.loads)
    args = parser.parse_args()
    if args.command == "prepare":
        result = prepare_net(args.name, args.path)
    else:
        result = partition_net(args.path, args.depth, args.side, args.prices)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
