#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seconds from a saved placement to a built library, by phase, in a process that measures nothing.

One process searches and saves the placement: with made-up costs, which spread the net over both
targets, or with `--measured` in earnest (minutes). Another one, fresh, gets the net and the file
and builds by `relay.build` alone. What the two ship is compared by structural hash, weights
included. See docs/placement.md. Test: bench/test_replay.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import arguments, child


def targets() -> list:
    import tvm
    from tvm.relay import collage

    return [collage.host_target(), tvm.target.Target("dnnl")]


def save(net: str, path: str, is_measured: bool) -> dict:
    """Search, and save the placement of what ships."""
    import models
    import tvm
    from random_costs import RandomCosts
    from tvm.relay import collage
    from tvm.relay.collage import CollageOptions, optimizer

    mod, params = models.relay_of(net)
    if not is_measured:
        optimizer.CostEstimator = lambda _: RandomCosts(0)
    began = time.perf_counter()
    options = CollageOptions(guard=is_measured, progress="auto" if is_measured else "quiet")
    with tvm.transform.PassContext(opt_level=3):
        result = collage.optimize(mod, params, targets(), options)
    seconds = time.perf_counter() - began
    result.save_placement(path)
    return {
        "plan": result.plan,
        "hash": tvm.ir.structural_hash(result.mod),
        "search_seconds": seconds,
        "summary": result.placement.Summary(),
    }


def replay(net: str, path: str) -> dict:
    """Build from the file; seconds by phase. Who starts a process to measure gets an error."""
    began = time.perf_counter()
    import tvm
    from tvm import relay

    seconds = {"import tvm": time.perf_counter() - began}
    began = time.perf_counter()
    import models

    mod, params = models.relay_of(net)
    seconds["import net"] = time.perf_counter() - began

    def refuse(*_, **__):
        raise AssertionError("a replay starts no process")

    subprocess.Popen.__init__ = refuse
    config = {"relay.collage.enable_collage": True, "relay.collage.placement": path}
    began, cpu = time.perf_counter(), time.process_time()
    with tvm.transform.PassContext(opt_level=3, config=config):
        library = relay.build(mod, target=targets(), params=params)
    total, cpu = time.perf_counter() - began, time.process_time() - cpu
    found = library.collage
    seconds |= found.seconds
    seconds["build"] = total - sum(found.seconds.values())
    return {
        "plan": found.plan,
        "hash": tvm.ir.structural_hash(found.mod),
        "seconds": seconds,
        "relay.build": total,
        "cpu": cpu,
    }


def main(given: list[str] | None = None) -> int:
    parser = arguments.make_parser(__doc__, nets="resnet50", rounds=3)
    parser.add_argument("--measured", action="store_true", help="search in earnest, with the guard")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of relay.build allowed")
    options = parser.parse_args(given)
    verdicts = [is_replayed(net.name, options) for net in options.nets]
    return 0 if all(verdicts) else 1


def is_replayed(net: str, options: Any) -> bool:
    """Whether each replay of a net's placement gave the same module in time; printed."""
    with tempfile.TemporaryDirectory(prefix="collage-bench-") as folder:
        path = str(Path(folder) / "placement.json")
        saved = {"net": net, "path": path, "is_measured": options.measured}
        first = child.call("replay:save", saved)
        print(f"{net}: {first['summary']}")
        kilobytes = os.path.getsize(path) / 1024
        print(f"search {first['search_seconds']:.1f} s, file {kilobytes:.0f} KiB", flush=True)
        is_good = True
        for _ in range(options.rounds):
            again = child.call("replay:replay", {"net": net, "path": path})
            phases = ", ".join(f"{name} {value:.2f} s" for name, value in again["seconds"].items())
            is_same = (again["hash"], again["plan"]) == (first["hash"], first["plan"])
            print(
                f"relay.build {again['relay.build']:.2f} s, {again['cpu']:.2f} s of CPU "
                f"({phases}); module {'equal' if is_same else 'DIFFERENT'}",
                flush=True,
            )
            is_good &= is_same and again["relay.build"] <= options.limit
    return is_good


if __name__ == "__main__":
    sys.exit(main())
