#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build time of a whole network, ours beside TVM's own, and whether the libraries are alike.

Each build runs in a fresh process, the two sides in turn; TVM's own under COLLAGE_DISABLE=1. Then
both libraries run in processes that are woken one at a time, on the same input, in TVM's own
runtime: what is compared there is the libraries. See docs/compile.md for what the columns mean.
Test: bench/test_build_time.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import tempfile
import time
from pathlib import Path

from peer.child import run_child

ROOT = Path(__file__).resolve().parent.parent
SIDES = ("ours", "stock")
MODELS = {
    "resnet50": ("resnet", {"num_layers": 50}, (1, 3, 224, 224)),
    "resnet18": ("resnet", {"num_layers": 18}, (1, 3, 224, 224)),
    "mobilenet": ("mobilenet", {}, (1, 3, 224, 224)),
    "inception_v3": ("inception_v3", {}, (1, 3, 299, 299)),
}
# Which passes make up each column of the breakdown: the first expression that matches a name.
PHASES = {
    "fold": r"FoldConstant",
    "types": r"InferType",
    "simplify": r"Simplify.*|Canonicalize.*|EliminateCommonSubexpr|.*FoldScaleAxis|Combine.*",
    "layout": r"AlterOpLayout|.*Legalize|FlattenAtrousConv",
    "lower": r"LowerTE|LowerTensorExpr|tir\..*|RelayToTIRTargetHook|LabelOps",
    "other": r".*",
}


def phases_of(profile: str, total: float) -> dict[str, float]:
    """Seconds of each phase, from a rendered pass profile; `codegen` is what no pass explains."""
    seconds = dict.fromkeys([*PHASES, "codegen"], 0.0)
    for match in re.finditer(r"^\s*(\S+): \d+us \[(\d+)us\]", profile, re.MULTILINE):
        phase = next(name for name, names in PHASES.items() if re.fullmatch(names, match[1]))
        seconds[phase] += int(match[2]) * 1e-6
    seconds["codegen"] = max(0.0, total - sum(seconds.values()))
    return seconds


def convolution():
    """A candidate as a search measures it: one convolution with bias and ReLU."""
    import numpy as np
    import tvm
    from tvm import relay

    rng = np.random.RandomState(0)
    data = relay.var("data", shape=(1, 64, 56, 56))
    weight = relay.const(rng.randn(256, 64, 1, 1).astype("float32"))
    bias = relay.const(rng.randn(256, 1, 1).astype("float32"))
    body = relay.nn.conv2d(data, weight, channels=256, kernel_size=(1, 1))
    return tvm.IRModule.from_expr(relay.Function([data], relay.nn.relu(body + bias)))


def child_build(side: str, model: str, library_path: str) -> dict:
    """Builds the model once, then a lone convolution three times; runs in its own process."""
    import tvm
    from tvm import relay
    from tvm.ir.instrument import PassTimingInstrument
    from tvm.relay import testing

    name, options, _ = MODELS[model]
    mod, params = getattr(testing, name).get_workload(batch_size=1, **options)
    if side == "ours":
        from tvm.relay.collage.compile import build_library, host_target

        target, build = host_target(), build_library
    else:
        cpu = tvm.target.codegen.llvm_get_system_cpu()
        target, build = tvm.target.Target(f"llvm -mcpu={cpu}"), relay.build
    with tvm.transform.PassContext(opt_level=3, instruments=[PassTimingInstrument()]):
        started = time.perf_counter()
        library = build(mod, target, params=params)
        seconds = time.perf_counter() - started
        profile = PassTimingInstrument.render()
    library.export_library(library_path)
    candidate = []
    for _ in range(3):
        with tvm.transform.PassContext(opt_level=3):
            started = time.perf_counter()
            build(convolution(), target)
            candidate.append(time.perf_counter() - started)
    return {
        "seconds": seconds,
        "phases": phases_of(profile, seconds),
        "candidate_seconds": statistics.median(candidate),
    }


THREADS = str(len(os.sched_getaffinity(0)))


def run_build(side: str, model: str, library_path: Path) -> dict:
    """One build in a fresh process."""
    environment = {"TVM_NUM_THREADS": THREADS} | (
        {"COLLAGE_DISABLE": "1"} if side == "stock" else {}
    )
    arguments = ("--child", side, "--model", model, str(library_path))
    return run_child(__file__, *arguments, environment=environment)


def compare_latency(model: str, folder: Path, rounds: int) -> dict:
    """Outputs and interleaved latencies of both libraries; RuntimeError for one that fails."""
    import numpy as np
    from peer.contestants import untouched_variables
    from peer.served import stock_library
    from tvm.relay.collage.exec.resolve import path_of
    from tvm.relay.collage.measure import Contestant, compare
    from tvm.relay.collage.timing.comparison import paired_ratio

    inputs = str(folder / "inputs.npz")
    np.savez(inputs, data=np.random.default_rng(0).standard_normal(MODELS[model][2], "float32"))
    contestants = [
        Contestant(
            side,
            path_of(stock_library),
            {"library": str(folder / f"{side}.so"), "inputs": inputs},
            {"TVM_NUM_THREADS": THREADS, **untouched_variables()},
        )
        for side in SIDES
    ]
    found = {item.name: item for item in compare(contestants, "stock", rounds, rtol=None)}
    for item in found.values():
        if not item.cost.is_usable:
            raise RuntimeError(item.Summary())
    ours, stock = (found[side] for side in SIDES)
    ratio, *interval = paired_ratio(ours.samples, stock.samples)
    return {
        "output_difference": ours.output_error,
        "latency_ms": {side: 1e3 * found[side].cost.seconds for side in SIDES},
        "latency_ratio": ratio,
        "latency_ratio_95": interval,
        "latency_rounds": rounds,
    }


def report(result: dict) -> None:
    """Prints the figures as a table."""
    columns = ["build s", *PHASES, "codegen", "conv s"]
    print(f"{result['model']}, {result['threads']} threads")
    print(f"{'':8}" + "".join(f"{name:>10}" for name in columns))
    for side in SIDES:
        row = [result[side]["seconds"], *result[side]["phases"].values()]
        row.append(result[side]["candidate_seconds"])
        print(f"{side:8}" + "".join(f"{value:10.2f}" for value in row))
    low, high = result["latency_ratio_95"]
    print(f"build time, ours / stock: {result['build_ratio']:.3f}")
    print(f"outputs: max|ours - stock| / max|stock| = {result['output_difference']:.1e}")
    print(f"latency, ours / stock: {result['latency_ratio']:.3f} [{low:.3f}, {high:.3f}]")


def main() -> None:
    """Parent: builds, compares, reports; with --child one side's process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=sorted(MODELS), default="resnet50")
    parser.add_argument("--rounds", type=int, default=3, help="builds of ours (the median counts)")
    parser.add_argument("--stock-rounds", type=int, default=1, help="builds of TVM's own")
    parser.add_argument("--latency-rounds", type=int, default=30)
    parser.add_argument("--output", type=Path, default=ROOT / "build/bench/build_time.json")
    parser.add_argument("--child", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child_build(args.child, args.model, *args.paths)))
        return
    if min(args.rounds, args.stock_rounds, args.latency_rounds) < 1:
        parser.error("every number of rounds must be at least 1")
    builds = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = {"ours": args.rounds, "stock": args.stock_rounds}
        for index in range(max(wanted.values())):
            for side in SIDES:
                if index < wanted[side]:
                    builds[side].append(run_build(side, args.model, folder / f"{side}.so"))
        comparison = compare_latency(args.model, folder, args.latency_rounds)
    result = {
        "model": args.model,
        "threads": int(THREADS),
        **{
            side: {
                "seconds": statistics.median(b["seconds"] for b in builds[side]),
                "all_seconds": [b["seconds"] for b in builds[side]],
                "phases": builds[side][-1]["phases"],
                "candidate_seconds": statistics.median(
                    b["candidate_seconds"] for b in builds[side]
                ),
            }
            for side in SIDES
        },
        **comparison,
    }
    result["build_ratio"] = result["ours"]["seconds"] / result["stock"]["seconds"]
    report(result)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
