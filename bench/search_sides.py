# SPDX-License-Identifier: Apache-2.0
"""Processes of bench/search.py: a net prepared and saved, our pass, and TVM's own
prototype of Collage. Modules in files have zeros for weights, whose values no search reads.
Test: bench/test_search.py, bench/test_search_stock.py.
"""

from __future__ import annotations

import ctypes
import gc
import json
import time
from pathlib import Path
from typing import Any

import models
import numpy as np
import tvm
from tvm import relay

# The one external target kind of the base package.
EXTERNAL = "ccompiler"


def prepare_net(name: str, path: str) -> None:
    """Prepare a net as `optimize` would, and save it."""
    from tvm.relay.collage.compile import prepare

    mod, params = models.relay_of(name)
    save_module(prepare(mod, params, tvm.target.Target("llvm"), opt_level=3), Path(path))


def partition_net(path: str, depth: int, side: str, prices: dict[str, float]) -> dict[str, Any]:
    """Run the saved net through our pass; `side` is one of search.SIDES."""
    from random_costs import AskedCosts, BoundedCosts, RandomCosts
    from tvm.relay.collage import MockCostEstimator
    from tvm.relay.collage.backends.targets import parse_targets
    from tvm.relay.collage.optimizer import partition
    from tvm.relay.op.contrib import dnnl, register_pattern_table

    external = EXTERNAL if side == "same" else "dnnl"
    if external == EXTERNAL:
        table = dnnl.pattern_table()
        register_pattern_table(external, lambda: table)
    mod = load_module(Path(path))
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
    phases = {
        name: (seconds["wall"], seconds["cpu"])
        for name, seconds in json.loads(tvm.get_global_func("collage.LastPhases")()).items()
    }
    # Around the pass: TVM's pass context, and what is loaded when it is first used.
    phases["other"] = tuple(
        whole[k] - sum(seconds[k] for seconds in phases.values()) for k in (0, 1)
    )
    limit = f"{report.states_cut} cut by max_states_per_position"
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


def partition_by_prototype(path: str, depth: int, prices: dict[str, float]) -> dict[str, Any]:
    """Run the same through the prototype, in a process of stock TVM: EXTERNAL gets TVM's oneDNN
    pattern table. What the plan costs is in the prototype's own log."""
    from tvm.relay.collage import MockCostEstimator
    from tvm.relay.op.contrib import dnnl, register_pattern_table
    from tvm.relay.transform import CollagePartition
    from tvm.target import Target, make_compilation_config

    # The prototype fails on rows without a predicate.
    table = [row if len(row) > 2 else (*row, lambda _: True) for row in dnnl.pattern_table()]
    register_pattern_table(EXTERNAL, lambda: table)
    mod = load_module(Path(path))
    config = {f"relay.collage.{name}_max_depth": depth for name in ("tvm", "byoc")}
    with tvm.transform.PassContext(opt_level=3, config=config) as context:
        compilation = make_compilation_config(context, [Target("llvm"), Target(EXTERNAL)])
        run = CollagePartition(compilation, MockCostEstimator(prices))
        peak = PeakMemory()
        began, began_cpu = time.perf_counter(), time.process_time()
        run(mod)
        seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_mb": peak.megabytes()}


def save_module(mod: tvm.IRModule, path: Path) -> None:
    """Write the module, which has only ``main``, and the names of its weights."""
    from tvm.relay.collage.candidate.weights import extract_weights

    bare, names = extract_weights(mod)
    saved = {"module": tvm.ir.save_json(bare), "weights": names.get("main", [])}
    path.write_text(json.dumps(saved))


def load_module(path: Path) -> tvm.IRModule:
    """Load the typed module; stock TVM reads it too."""
    saved = json.loads(path.read_text())
    mod = tvm.ir.load_json(saved["module"])
    zeros = {}
    for var in mod["main"].params:
        if var.name_hint in saved["weights"]:
            kind = var.type_annotation
            zeros[var] = relay.const(np.zeros([int(dim) for dim in kind.shape]), kind.dtype)
    main = relay.bind(mod["main"], zeros)
    return relay.transform.InferType()(tvm.IRModule.from_expr(main))


class PeakMemory:
    """MB by which resident memory of this process has been above what it was here.

    What was freed before goes back to the system first, so that it cannot hide what comes.
    """

    def __init__(self) -> None:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        self._before = _status_kilobytes("VmRSS")

    def megabytes(self) -> float:
        """Return the peak so far."""
        return (_status_kilobytes("VmHWM") - self._before) / 1024


def _status_kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(field + ":")]
    return int(line.split()[1])
