# SPDX-License-Identifier: Apache-2.0
"""What runs in the processes of bench/search.py: a net prepared and saved, our pass, and TVM's own
prototype of Collage. Modules in files keep large constants as zeros of the same type, since no
search reads their values. Test: bench/test_search.py, bench/test_search_stock.py.
"""

from __future__ import annotations

import ctypes
import gc
import json
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

import models
import numpy as np
import tvm
from tvm import relay

_LARGE = 16  # elements; smaller constants may decide what a predicate says
_PREFIX = "large_constant_"
# The one external target kind of the base package.
EXTERNAL = "ccompiler"


def prepare_net(name: str, path: str) -> None:
    """Prepares a net as `optimize` would and saves it."""
    from tvm.relay.collage.compile import prepare

    (net,) = models.find(name)
    mod, params = models.to_relay(net.build(1))
    save_module(prepare(mod, params, tvm.target.Target("llvm"), opt_level=3), Path(path))


def partition_net(path: str, depth: int, side: str, prices: dict[str, float]) -> dict[str, Any]:
    """The saved net through our pass; `side` is one of search.SIDES."""
    from random_costs import AskedCosts, BoundedCosts, RandomCosts
    from tvm.relay.collage import MockCostEstimator
    from tvm.relay.collage.optimizer import partition
    from tvm.relay.collage.targets import parse_targets
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
    """The same by the prototype, in a process of stock TVM: EXTERNAL gets TVM's oneDNN pattern
    table. What the plan costs is in the prototype's own log."""
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


class _Lifter(relay.ExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.lifted: list[relay.Var] = []

    def visit_constant(self, constant: relay.Constant) -> relay.Expr:
        if int(np.prod(constant.data.shape, dtype=np.int64)) <= _LARGE:
            return constant
        kind = relay.TensorType(constant.data.shape, constant.data.dtype)
        self.lifted.append(relay.var(f"{_PREFIX}{len(self.lifted)}", kind))
        return self.lifted[-1]


def save_module(mod: tvm.IRModule, path: Path) -> None:
    """Write the module, which has only ``main``."""

    def save() -> None:
        lifter = _Lifter()
        main = lifter.visit(mod["main"])
        main = relay.Function([*main.params, *lifter.lifted], main.body)
        text = tvm.ir.save_json(tvm.IRModule.from_expr(main))
        path.write_text(json.dumps({"module": text}))

    # Mutators go as deep as the net is.
    threading.stack_size(1 << 29)
    sys.setrecursionlimit(1 << 20)
    thread = threading.Thread(target=save)
    thread.start()
    thread.join()
    threading.stack_size(0)


def load_module(path: Path) -> tvm.IRModule:
    """The typed module, its large constants zeros."""
    mod = tvm.ir.load_json(json.loads(path.read_text())["module"])
    zeros = {
        var: relay.const(np.zeros([int(dim) for dim in var.type_annotation.shape], "float32")
                         .astype(var.type_annotation.dtype))
        for var in mod["main"].params
        if var.name_hint.startswith(_PREFIX)
    }  # fmt: skip
    main = relay.bind(mod["main"], zeros)
    return relay.transform.InferType()(tvm.IRModule.from_expr(main))


class PeakMemory:
    """MB by which resident memory of this process has been above what it was here.

    What was freed before goes back to the system first, where glibc can do that, so that it cannot
    hide what comes. Without Linux's /proc the peak counts from the process's highest mark so far.
    """

    def __init__(self) -> None:
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self._before: int | None = _status_kilobytes("VmRSS")
        except OSError:
            self._before = None
            self._highest_before = _highest_kilobytes()

    def megabytes(self) -> float:
        """The peak so far."""
        if self._before is None:
            return (_highest_kilobytes() - self._highest_before) / 1024
        return (_status_kilobytes("VmHWM") - self._before) / 1024


def _status_kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(field + ":")]
    return int(line.split()[1])


def _highest_kilobytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
