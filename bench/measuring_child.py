#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One search for bench/measuring.py in a process of its own; prints one line of JSON.

Test: bench/test_measuring.py.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time

Seconds = list[float]  # wall, CPU


def search(net: str, store: str, has_guard: bool, seconds: float) -> dict:
    """From the model to a plan. All seconds are (wall, CPU of this process)."""
    began = _now()
    import search_nets
    import tvm
    from tvm.relay import collage
    from tvm.relay.collage.exec.spent import recording
    from tvm.relay.collage.measured import measuring_session
    from tvm.relay.collage.report.facts import costs_asked

    imported = _minus(_now(), began)
    mod, params = search_nets.build(net)
    options = collage.CollageOptions(
        guard=has_guard, store=store, measure_seconds=seconds, progress="quiet"
    )
    targets = [collage.host_target(), tvm.target.Target("dnnl")]
    children = _children_cpu()
    with (
        tvm.transform.PassContext(opt_level=3),
        recording() as spent,
        measuring_session(options) as session,
    ):
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
            "measured": session.estimator.misses,
            "store": session.estimator.stored,
            "memory": session.estimator.hits,
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("net")
    parser.add_argument("store")
    parser.add_argument("--guard", action="store_true")
    parser.add_argument("--measure-seconds", type=float, default=0.3)
    args = parser.parse_args()
    print(json.dumps(search(args.net, args.store, args.guard, args.measure_seconds)))


if __name__ == "__main__":
    main()
