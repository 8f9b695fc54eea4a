#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From model to plan with real measurements, cold and warm: how long, and where the time went.

`cold` starts with an empty store, `warm` is another process with the store that the cold one left;
each with the guard off (the op-level search alone) and on. Targets are llvm and dnnl. The phases of
a run add up to its wall time, with what none of them names as `other`; what worker processes did
meanwhile is told apart. The import of TVM is not part of a run.

Ends with 1 when a search took longer than its limit with the guard off, in the median of the
rounds: 180 s cold, 5 s warm; `--allow-slow` leaves that out on a machine that has other work. See
docs/measuring.md. Test: bench/test_measuring.py.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from typing import Any

from harness import arguments, child, records

LIMITS = {"cold": 180.0, "warm": 5.0}  # seconds to a plan, with the guard off
Seconds = list[float]  # wall, CPU


def run_net(net: str, guards: list[bool], args: Any) -> list[dict]:
    """All runs of one net: each round, for guard off and on, cold and then warm."""
    runs = []
    for number in range(args.rounds):
        for has_guard in guards:
            with tempfile.TemporaryDirectory(prefix="collage-bench-") as folder:
                for kind in ("cold", "warm"):
                    given = {"net": net, "store": f"{folder}/costs.db", "has_guard": has_guard}
                    given["seconds"] = args.measure_seconds
                    run = child.call("measuring:search", given)
                    runs.append({"kind": kind, "round": number, **run})
                    print(row(runs[-1]), flush=True)
    return runs


def row(run: dict) -> str:
    """One run: time, load, and how many candidates were measured of how many."""
    costs, answered = run["costs"], run["answered"]
    wall, cpu = run["seconds"]
    return (
        f"{run['net']:12} {run['kind']} guard {'on ' if run['guard'] else 'off'} {wall:7.1f} s, CPU"
        f" {cpu:5.1f} s + workers {run['children_cpu_seconds']:6.1f} s (load {run['load']:.1f},"
        f" import {run['import'][0]:.1f} s); asked for {costs['asked']} of {costs['distinct']}"
        f" distinct candidates ({costs['candidates']} in all) in {costs['rounds']} rounds;"
        f" {answered['measured']} measured with transitions, {answered['store']} from the store,"
        f" {answered['memory']} in memory, {run['failed']} failed; plan {run['plan']}"
    )


def breakdown(run: dict) -> str:
    """Where one run's wall time went, the most first, and what the workers did meanwhile."""
    whole = run["seconds"][0]
    lines = [f"{run['net']} {run['kind']} guard {'on' if run['guard'] else 'off'}: {whole:.1f} s"]
    phases = sorted(run["phases"].items(), key=lambda item: -item[1][0])
    for name, (wall, cpu) in phases:
        lines.append(f"  {name:20} {wall:8.2f} s {wall / whole:6.1%}   CPU {cpu:7.2f} s")
    lines.append(f"  {'together':20} {sum(wall for _, (wall, _) in phases):8.2f} s")
    if run["workers"]:
        lines.append("  in workers, all added up:")
    for name, (wall, cpu) in sorted(run["workers"].items(), key=lambda item: -item[1][0]):
        lines.append(f"    {name:18} {wall:8.2f} s          CPU {cpu:7.2f} s")
    return "\n".join(lines)


def faults(runs: list[dict]) -> list[str]:
    """A line for each net whose search took too long with the guard off."""
    found = []
    for kind, limit in LIMITS.items():
        for net in dict.fromkeys(run["net"] for run in runs):
            own = [r for r in runs if (r["net"], r["kind"], r["guard"]) == (net, kind, False)]
            seconds = [run["seconds"][0] for run in own]
            if seconds and statistics.median(seconds) >= limit:
                found.append(f"{net}, {kind}: {statistics.median(seconds):.1f} s to a plan")
    return found


def search(net: str, store: str, has_guard: bool, seconds: float) -> dict:
    """From the model to a plan. All seconds are (wall, CPU of this process)."""
    began = _now()
    import models
    import tvm
    from tvm.relay import collage
    from tvm.relay.collage.exec.spent import recording
    from tvm.relay.collage.report.facts import costs_asked

    imported = _minus(_now(), began)
    mod, params = models.relay_of(net)
    options = collage.CollageOptions(
        guard=has_guard, store=store, measure_seconds=seconds, progress="quiet"
    )
    targets = [collage.host_target(), tvm.target.Target("dnnl")]
    children = _children_cpu()
    with tvm.transform.PassContext(opt_level=3), recording() as spent:
        result = collage.optimize(mod, params, targets, options)
    of_pass = {
        name: [seconds["wall"], seconds["cpu"]]
        for name, seconds in json.loads(tvm.get_global_func("collage.LastPhases")()).items()
    }
    [report] = [row for row in result.partitioned if not row.skipped]
    return {
        "net": net,
        "guard": has_guard,
        "plan": result.plan,
        "is_optimal": report.is_optimal,
        "import": imported,
        "seconds": [sum(pair[k] for pair in spent.phases.values()) for k in (0, 1)],
        "children_cpu_seconds": _children_cpu() - children,
        "phases": by_phase(spent.phases, of_pass),
        "workers": spent.workers,
        "costs": costs_asked(report),
        "answered": {
            "measured": result.costs["measured"],
            "store": result.costs["from_store"],
            "memory": result.costs["from_memory"],
        },
        "failed": len(report.failed),
        "load": os.getloadavg()[0],
    }


def by_phase(phases: dict[str, Seconds], of_pass: dict[str, Seconds]) -> dict[str, Seconds]:
    """Rows of the table, which add up to the phases.

    "partition" is told apart by the phases of the pass. One of these, "estimate", holds Python's
    inner phases; the rest of it makes modules of candidates and hands them over.
    """
    inner = [pair for path, pair in phases.items() if path.startswith("partition/")]
    rows = {**of_pass, "graph": of_pass["import"]}
    del rows["import"]
    rows["candidate modules"] = _minus(rows.pop("estimate"), *inner)
    around = _minus(phases["partition"], *rows.values())
    for path, pair in [*phases.items(), ("other", around)]:
        outer, _, rest = path.partition("/")
        leaf = rest.rpartition("/")[2]
        name = f"guard {leaf or 'measure'}" if outer == "guard" else leaf or outer
        if path != "partition":
            row = rows.setdefault(name, [0.0, 0.0])
            rows[name] = [row[k] + pair[k] for k in (0, 1)]
    return rows


def _minus(whole: Seconds, *parts: Seconds) -> Seconds:
    return [whole[k] - sum(part[k] for part in parts) for k in (0, 1)]


def _now() -> Seconds:
    return [time.perf_counter(), time.process_time()]


def _children_cpu() -> float:
    """CPU seconds of the processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(given: list[str] | None = None) -> int:
    """Runs, reports, and ends with 1 where there are faults."""
    parser = arguments.make_parser(
        __doc__,
        nets="resnet50,mobilenetv2,bert",
        rounds=1,
        allow_slow=False,
        output=arguments.ROOT / "build/bench/measuring.json",
    )
    parser.add_argument("--guard", choices=("off", "on", "both"), default="both")
    parser.add_argument("--measure-seconds", type=float, default=0.3, help="for one candidate")
    args = parser.parse_args(given)
    guards = {"off": [False], "on": [True], "both": [False, True]}[args.guard]
    runs = [run for net in args.nets for run in run_net(net.name, guards, args)]
    for run in runs:
        if run["round"] == 0:
            print(breakdown(run), flush=True)
    records.write_figures(args.output, runs)
    return arguments.status_of([] if args.allow_slow else faults(runs))


if __name__ == "__main__":
    sys.exit(main())
