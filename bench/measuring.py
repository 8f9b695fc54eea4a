#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From model to plan with real measurements, cold and warm, and from the saved placement to a
library: how long, and where the time went.

`cold` starts with an empty store, `warm` is another process with the store that the cold one left;
each with the guard off (the op-level search alone) and on. `replay` is a process that builds from
the placement that the warm one saved, and can measure nothing; with `--made-up` that of a search by
made-up costs, which takes no time and spreads the net over the targets. These are llvm and the
external ones of `--backends`. With the guard on, `again` is a process that compiles once more, and
builds what the store says was decided.
The phases of a run add up to its wall time, with what none of them names as `other`; what worker
processes did meanwhile is told apart. The import of TVM is not part of a run.

Ends with 1 when a replay gave another module, or when with the guard off, for oneDNN, one of them
took longer than its limit in the median of the rounds: 180 s cold, 5 s warm, 20 s for a replay,
or, with it on, 5 s for a decision that was used again;
`--allow-slow` leaves time out on a machine that has other work. See docs/measuring.md and
docs/placement.md.
Test: bench/test_measuring.py.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from harness import arguments, child, records

MADE_UP, REPLAY, AGAIN = "made-up", "replay", "again"
BACKENDS = "dnnl"
LIMITS = {"cold": 180.0, "warm": 5.0, REPLAY: 20.0}  # seconds, with the guard off, for BACKENDS
AGAIN_LIMIT = 5.0  # seconds, for BACKENDS
Seconds = list[float]  # wall, CPU


def run_net(net: str, guards: list[bool], args: Any) -> list[dict]:
    """Make all runs of one net: each round, for guard off and on, cold and then warm, and the
    replay."""
    runs: list[dict] = []

    def add(kind: str, run: dict) -> None:
        runs.append({"kind": kind, "backends": ",".join(args.backends), **run})
        print(row(runs[-1]), flush=True)

    for number in range(args.rounds):
        for has_guard in guards:
            with tempfile.TemporaryDirectory(prefix="collage-bench-") as folder:
                given = {
                    "net": net,
                    "backends": args.backends,
                    "placement": f"{folder}/placement.json",
                }
                # The warm run has the costs, and decides again by them.
                settings = {"store": f"{folder}/costs.db", "reuse_decision": False}
                settings |= {"guard": has_guard}
                settings |= {"measure_seconds": args.measure_seconds}
                options = {"settings": settings, "made_up": args.made_up}
                for kind in [MADE_UP] if args.made_up else ["cold", "warm"]:
                    run = child.call("measuring:search", given | options) | {"round": number}
                    add(kind, run)
                of_file = child.call("measuring:replay", given)
                is_same = (of_file["hash"], of_file["plan"]) == (run["hash"], run["plan"])
                add(REPLAY, {**of_file, "guard": has_guard, "round": number, "is_same": is_same})
                if has_guard and not args.made_up:
                    given = {"net": net, "backends": args.backends}
                    given["settings"] = settings | {"reuse_decision": True}
                    add(AGAIN, child.call("measuring:again", given) | {"round": number})
    return runs


def _title(run: dict) -> str:
    guard = "on" if run["guard"] else "off"
    return f"{run['net']} with {run['backends']} {run['kind']} guard {guard}"


def row(run: dict) -> str:
    """Tell of one run: time, load, and how many candidates were measured of how many."""
    wall, cpu = run["seconds"]
    text = f"{_title(run):40} {wall:7.1f} s, CPU {cpu:5.1f} s"
    if run["kind"] == REPLAY:
        return f"{text}; plan {run['plan']}, module {'equal' if run['is_same'] else 'DIFFERENT'}"
    if run["kind"] == AGAIN:
        how = "as decided" if run["is_reused"] else "decided anew: see what a store does not keep"
        return f"{text}; plan {run['plan']}, {how}"
    costs, answered = run["costs"], run["answered"]
    return (
        f"{text} + workers {run['children_cpu_seconds']:6.1f} s (load {run['load']:.1f},"
        f" import {run['import'][0]:.1f} s); asked for {costs['asked']} of {costs['distinct']}"
        f" distinct candidates ({costs['candidates']} in all) in {costs['rounds']} rounds;"
        f" {answered['measured']} measured with transitions, {answered['store']} from the store,"
        f" {answered['memory']} in memory, {run['failed']} failed; plan {run['plan']}"
    )


def breakdown(run: dict) -> str:
    """Tell where one run's wall time went, the most first, and what the workers did meanwhile."""
    whole = run["seconds"][0]
    lines = [f"{_title(run)}: {whole:.1f} s"]
    phases = sorted(run["phases"].items(), key=lambda item: -item[1][0])
    for name, (wall, cpu) in phases:
        lines.append(f"  {name:20} {wall:8.2f} s {wall / whole:6.1%}   CPU {cpu:7.2f} s")
    lines.append(f"  {'together':20} {sum(wall for _, (wall, _) in phases):8.2f} s")
    if run["workers"]:
        lines.append("  in workers, all added up:")
    for name, (wall, cpu) in sorted(run["workers"].items(), key=lambda item: -item[1][0]):
        lines.append(f"    {name:18} {wall:8.2f} s          CPU {cpu:7.2f} s")
    return "\n".join(lines)


def faults(runs: list[dict], allow_slow: bool = False) -> list[str]:
    """Return a line for each net that took too long where there is a limit, and each other
    module."""
    found = [f"{_title(run)}: another module" for run in runs if not run.get("is_same", True)]
    for kind, limit in {} if allow_slow else LIMITS.items():
        for net in dict.fromkeys(run["net"] for run in runs):
            wanted = {"net": net, "kind": kind, "guard": False, "backends": BACKENDS}
            own = [run for run in runs if wanted.items() <= run.items()]
            seconds = [run["seconds"][0] for run in own]
            if seconds and statistics.median(seconds) >= limit:
                found.append(f"{net}, {kind}: {statistics.median(seconds):.1f} s")
    wanted = {"kind": AGAIN, "is_reused": True, "backends": BACKENDS}
    again = [run for run in runs if wanted.items() <= run.items() and not allow_slow]
    for net in dict.fromkeys(run["net"] for run in again):
        median = statistics.median(run["seconds"][0] for run in again if run["net"] == net)
        if median >= AGAIN_LIMIT:
            found.append(f"{net}, {AGAIN}: {median:.1f} s")
    return found


def _net(name: str, backends: list[str]) -> tuple[Any, Any, list[Any]]:
    """Module, parameters and targets."""
    import models
    import tvm
    from tvm.relay import collage

    external = [tvm.target.Target(backend) for backend in backends]
    return *models.relay_of(name), [collage.host_target(), *external]


def search(
    net: str,
    backends: list[str],
    placement: str,
    settings: dict[str, Any],
    made_up: bool,
) -> dict:
    """Search from the model to a plan, whose placement is saved, with these settings of
    CollageOptions. All seconds are (wall, CPU of this process)."""
    began = _now()
    import tvm
    from random_costs import RandomCosts
    from tvm.relay import collage
    from tvm.relay.collage import optimizer
    from tvm.relay.collage.exec.spent import recording
    from tvm.relay.collage.files.records import to_json
    from tvm.relay.collage.report.make import wanted_costs

    imported = _minus(_now(), began)
    mod, params, targets = _net(net, backends)
    if made_up:
        optimizer.CostEstimator = lambda *_: RandomCosts(0)
    options = collage.CollageOptions(**settings, measure_kernels=not made_up, progress="quiet")
    children = _children_cpu()
    with tvm.transform.PassContext(opt_level=3), recording() as spent:
        result = collage.optimize(mod, params, targets, options=options)
    of_pass = {
        name: [seconds["wall"], seconds["cpu"]]
        for name, seconds in json.loads(tvm.get_global_func("collage.LastPhases")()).items()
    }
    [report] = [row for row in result.partitioned if not row.skipped]
    result.save_placement(placement)
    answered = {"measured": "measured", "store": "from_store", "memory": "from_memory"}
    return {
        "net": net,
        "guard": settings["guard"],
        "plan": result.plan,
        "hash": tvm.ir.structural_hash(result.mod),
        "is_optimal": report.is_optimal,
        "import": imported,
        "seconds": _together(spent.phases),
        "children_cpu_seconds": _children_cpu() - children,
        "phases": by_phase(spent.phases, of_pass),
        "workers": spent.workers,
        "costs": to_json(wanted_costs(report)),
        "answered": {name: result.costs.get(key, 0) for name, key in answered.items()},
        "failed": len(report.failed),
        "load": os.getloadavg()[0],
    }


def replay(net: str, backends: list[str], placement: str) -> dict:
    """Build from the model and a placement to a library. Who starts a process to measure gets an
    error."""
    import tvm
    from tvm import relay
    from tvm.relay.collage.exec.spent import recording

    mod, params, targets = _net(net, backends)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a replay starts no process")

    subprocess.Popen.__init__ = refuse
    config = {"relay.collage.enable_collage": True, "relay.collage.placement": placement}
    with tvm.transform.PassContext(opt_level=3, config=config), recording() as spent:
        found = relay.build(mod, target=targets, params=params).collage
    return {
        "net": net,
        "plan": found.plan,
        "hash": tvm.ir.structural_hash(found.mod),
        "seconds": _together(spent.phases),
        "phases": spent.phases,
        "workers": {},
    }


def again(net: str, backends: list[str], settings: dict[str, Any]) -> dict:
    """Compile to a library with the store of a compile before."""
    import tvm
    from tvm.relay import collage
    from tvm.relay.collage.exec.spent import phase, recording

    mod, params, targets = _net(net, backends)
    options = collage.CollageOptions(**settings, progress="quiet")
    with (
        tempfile.TemporaryDirectory() as folder,
        tvm.transform.PassContext(opt_level=3),
        recording() as spent,
    ):
        result = collage.optimize(mod, params, targets, options=options)
        with phase("library"):
            result.save_library(f"{folder}/net.so")
    return {
        "net": net,
        "guard": True,
        "plan": result.plan,
        "is_reused": result.record.decision is not None,
        "seconds": _together(spent.phases),
        "phases": spent.phases,
        "workers": spent.workers,
    }


def _together(phases: dict[str, Seconds]) -> Seconds:
    return [sum(pair[k] for pair in phases.values()) for k in (0, 1)]


def by_phase(phases: dict[str, Seconds], of_pass: dict[str, Seconds]) -> dict[str, Seconds]:
    """Return rows of the table, which add up to the phases.

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
    """Run and report; end with 1 where there are faults."""
    parser = arguments.make_parser(
        __doc__,
        nets="resnet50,mobilenetv2,bert",
        rounds=1,
        allow_slow=False,
        backends=BACKENDS,
        output=arguments.ROOT / "build/bench/measuring.json",
    )
    parser.add_argument("--guard", choices=("off", "on", "both"), default="both")
    parser.add_argument("--measure-seconds", type=float, default=0.3, help="for one candidate")
    parser.add_argument("--made-up", action="store_true", help="costs, for the replay alone")
    args = parser.parse_args(given)
    guards = {"off": [False], "on": [True], "both": [False, True]}[args.guard]
    guards = [False] if args.made_up else guards
    runs = [run for net in args.nets for run in run_net(net.name, guards, args)]
    for run in runs:
        if run["round"] == 0:
            print(breakdown(run), flush=True)
    records.write_figures(args.output, runs)
    return arguments.status_of(faults(runs, args.allow_slow))


if __name__ == "__main__":
    sys.exit(main())
