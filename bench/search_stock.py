#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs TVM's own prototype of Collage on a saved module, in a process of its own.

Precondition: COLLAGE_DISABLE=1. The base package has one external target kind, ``ccompiler``: it
gets TVM's oneDNN pattern table. Prints one line of JSON; the
plan's cost is in the prototype's own log. Test: bench/test_search_stock.py.
"""

import argparse
import json
import time

import tvm
from peak_memory import PeakMemory
from search_module import load_module
from tvm.relay.collage import MockCostEstimator
from tvm.relay.op.contrib import dnnl, register_pattern_table
from tvm.relay.transform import CollagePartition
from tvm.target import Target, make_compilation_config

EXTERNAL = "ccompiler"


def _always(_) -> bool:
    return True


def main() -> None:
    """Partitions once and prints seconds and peak memory in MB."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("module", help="what search_module.save_module wrote")
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--prices", type=json.loads, required=True, help="target kind -> price")
    args = parser.parse_args()
    # The prototype fails on rows without a predicate.
    table = [row if len(row) > 2 else (*row, _always) for row in dnnl.pattern_table()]
    register_pattern_table(EXTERNAL, lambda: table)
    mod = load_module(args.module)
    config = {
        "relay.collage.tvm_max_depth": args.depth,
        "relay.collage.byoc_max_depth": args.depth,
    }
    with tvm.transform.PassContext(opt_level=3, config=config) as context:
        compilation = make_compilation_config(context, [Target("llvm"), Target(EXTERNAL)])
        run = CollagePartition(compilation, MockCostEstimator(args.prices))
        peak = PeakMemory()
        began, began_cpu = time.perf_counter(), time.process_time()
        run(mod)
        seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "peak_mb": peak.megabytes()}))


if __name__ == "__main__":
    main()
