#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seconds from a saved placement to a built library, by phase, in a process that measures nothing.

One process searches and saves the placement: with made-up costs, which spread the model over both
targets, or with `--measured` in earnest (minutes). Another one, fresh, gets the model and the file
and builds by `relay.build` alone. What the two ship is compared by structural hash, weights
included. See docs/placement.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

MODELS = {
    "resnet50": ("resnet", {"num_layers": 50}),
    "resnet18": ("resnet", {"num_layers": 18}),
    "mobilenet": ("mobilenet", {}),
    "inception_v3": ("inception_v3", {}),
}


def workload(model: str):
    """A model of TVM's own with random weights: (module, params)."""
    from tvm.relay import testing

    name, options = MODELS[model]
    return getattr(testing, name).get_workload(batch_size=1, **options)


def targets() -> list:
    import tvm
    from tvm.relay import collage

    return [collage.host_target(), tvm.target.Target("dnnl")]


def made_up_costs():
    """An estimator: the number of calls, times 1 to 2 at random by candidate and target."""
    import tvm
    from tvm.relay.collage.estimators import FunctionCosts, _count_calls

    def seconds_of(mod, target):
        calls = sum(_count_calls(function.body) for function in mod.functions.values())
        seed = tvm.ir.structural_hash(mod) ^ zlib.crc32(target.kind.name.encode())
        return calls * (1 + random.Random(seed).random())

    return FunctionCosts(seconds_of)


def save(model: str, path: str, is_measured: bool) -> dict:
    """Search, and save the placement of what ships."""
    import tvm
    from tvm.relay import collage
    from tvm.relay.collage import CollageOptions, optimizer

    mod, params = workload(model)
    if not is_measured:
        optimizer.CostEstimator = made_up_costs
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


def replay(model: str, path: str) -> dict:
    """Build from the file; seconds by phase, each child process and measurement refused."""
    began = time.perf_counter()
    import tvm
    from tvm import relay
    from tvm.relay.collage import measured

    def refuse(*_, **__):
        raise AssertionError("a replay starts no worker")

    measured.measuring_session = measured.session._new_estimator = subprocess.Popen.__init__ = (
        refuse
    )
    seconds = {"import tvm": time.perf_counter() - began}
    began = time.perf_counter()
    mod, params = workload(model)
    seconds["import model"] = time.perf_counter() - began
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


def in_process(*arguments: str) -> dict:
    """What a fresh process of this script prints as its last line."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "TOPHUB_LOCATION": "NONE"},
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="resnet50")
    parser.add_argument("--measured", action="store_true", help="search in earnest, with the guard")
    parser.add_argument("--rounds", type=int, default=3, help="replays, each in a fresh process")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of relay.build allowed")
    parser.add_argument("--step", choices=("save", "replay"), help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step == "save":
        print(json.dumps(save(options.model, options.path, options.measured)))
        return 0
    if options.step == "replay":
        print(json.dumps(replay(options.model, options.path)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "placement.json")
        common = ["--model", options.model, "--path", path]
        flag = ["--measured"] if options.measured else []
        first = in_process("--step", "save", *common, *flag)
        size = os.path.getsize(path)
        print(f"{options.model}: {first['summary']}")
        print(f"search {first['search_seconds']:.1f} s, file {size / 1024:.0f} KiB")
        is_good = True
        for _ in range(options.rounds):
            again = in_process("--step", "replay", *common)
            phases = ", ".join(f"{name} {value:.2f} s" for name, value in again["seconds"].items())
            is_same = (again["hash"], again["plan"]) == (first["hash"], first["plan"])
            print(
                f"relay.build {again['relay.build']:.2f} s, {again['cpu']:.2f} s of CPU "
                f"({phases}); module {'equal' if is_same else 'DIFFERENT'}"
            )
            is_good &= is_same and again["relay.build"] <= options.limit
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
