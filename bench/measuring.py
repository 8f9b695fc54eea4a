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

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from peer.child import run_child

ROOT = Path(__file__).resolve().parent.parent
NETS = ("resnet50", "mobilenetv2", "bert")
LIMITS = {"cold": 180.0, "warm": 5.0}  # seconds to a plan, with the guard off


def run_once(net: str, store: Path, has_guard: bool, measure_seconds: float) -> dict:
    """A fresh process of measuring_child.py."""
    flag = ["--guard"] if has_guard else []
    script = str(Path(__file__).with_name("measuring_child.py"))
    return run_child(script, net, str(store), "--measure-seconds", str(measure_seconds), *flag)


def run_net(net: str, guards: list[bool], args) -> list[dict]:
    """All runs of one net: each round, for guard off and on, cold and then warm."""
    runs = []
    for number in range(args.rounds):
        for has_guard in guards:
            with tempfile.TemporaryDirectory(prefix="collage-bench-") as folder:
                for kind in ("cold", "warm"):
                    run = run_once(net, Path(folder) / "costs.db", has_guard, args.measure_seconds)
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


def main() -> None:
    """Runs, reports, and ends with 1 where there are faults."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("nets", nargs="*", default=NETS, help="as in bench/search.py")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--guard", choices=("off", "on", "both"), default="both")
    parser.add_argument("--measure-seconds", type=float, default=0.3, help="for one candidate")
    parser.add_argument(
        "--allow-slow", action="store_true", help="do not fail on time: a busy machine"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "build/bench/measuring.json")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    guards = {"off": [False], "on": [True], "both": [False, True]}[args.guard]
    runs = [run for net in args.nets or NETS for run in run_net(net, guards, args)]
    for run in runs:
        if run["round"] == 0:
            print(breakdown(run), flush=True)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(runs, indent=2) + "\n")
    found = [] if args.allow_slow else faults(runs)
    for line in found:
        print(f"FAULT {line}", flush=True)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
