#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From an ONNX model to a library, ours beside TVM's own: how long the import and the build take,
and whether modules are equal and libraries alike.

    python bench/build_time.py --nets resnet50
    python bench/build_time.py --import-only --nets mobilenetv2,bert --files model.onnx

Each runs in a fresh process, the two sides in turn; TVM's own under COLLAGE_DISABLE=1. Then both
libraries run in processes that are woken one at a time, on the same input, in TVM's own runtime:
what is compared there is the libraries. See docs/compile.md for what the columns mean.
Test: bench/test_build_time.py.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import arguments, child, records

SIDES = ("ours", "stock")
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


def convolution() -> Any:
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


def build_side(side: str, model: str, library: str | None) -> dict[str, Any]:
    """In a process of its own: imports the model and, for a library, builds it once, then a lone
    convolution three times."""
    import models
    import onnx
    import tvm
    from tvm import relay
    from tvm.ir.instrument import PassTimingInstrument

    graph = onnx.load(model)
    started = time.perf_counter()
    mod, params = models.to_relay(graph)
    found: dict[str, Any] = {"import": time.perf_counter() - started}
    # The hash does not see which expressions are shared, the text does.
    text = f"{mod.astext(show_meta_data=False)}{sorted(params)}{tvm.ir.structural_hash(mod)}"
    found["module"] = hashlib.sha256(text.encode()).hexdigest()
    if library is None:
        return found
    if side == "ours":
        from tvm.relay.collage.compile import build_library, host_target

        target, build = host_target(), build_library
    else:
        cpu = tvm.target.codegen.llvm_get_system_cpu()
        target, build = tvm.target.Target(f"llvm -mcpu={cpu}"), relay.build
    with tvm.transform.PassContext(opt_level=3, instruments=[PassTimingInstrument()]):
        started = time.perf_counter()
        made = build(mod, target, params=params)
        found["seconds"] = time.perf_counter() - started
        found["phases"] = phases_of(PassTimingInstrument.render(), found["seconds"])
    made.export_library(library)
    candidate = []
    for _ in range(3):
        with tvm.transform.PassContext(opt_level=3):
            started = time.perf_counter()
            build(convolution(), target)
            candidate.append(time.perf_counter() - started)
    return found | {"candidate_seconds": statistics.median(candidate)}


def compare_latency(libraries: dict[str, str], inputs: str, threads: int, rounds: int) -> dict:
    """Outputs and interleaved latencies of both libraries; RuntimeError for one that fails."""
    from harness.contestants import stock
    from harness.sides import ratio_of, usable_by_name, with_threads
    from tvm.relay.collage.measure import compare

    environment = with_threads(threads)
    contestants = [stock(side, libraries[side], inputs, environment) for side in SIDES]
    found = usable_by_name(compare(contestants, "stock", rounds, rtol=None))
    return {
        "output_difference": found["ours"].output_error,
        "latency_ms": {side: 1e3 * found[side].cost.seconds for side in SIDES},
        "latency_ratio": ratio_of(found["ours"], found["stock"]),
        "latency_rounds": rounds,
    }


def measure(net: Any, options: argparse.Namespace) -> dict[str, Any]:
    """One net's figures. FileNotFoundError for a real net that is not there, RuntimeError for a
    side that fails, and for modules that differ."""
    from harness.sides import files_of

    wanted = {"ours": options.rounds, "stock": options.stock_rounds}
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES if wanted[side]}
    with files_of(net, options.threads) as files:
        libraries = {side: str(files.folder / f"{side}.so") for side in runs}
        for index in range(max(wanted.values())):
            for side in runs:
                if index < wanted[side]:
                    library = None if options.import_only else libraries[side]
                    given = {"side": side, "model": files.file, "library": library}
                    settings = {"is_stock": side == "stock", "environment": files.environment}
                    runs[side].append(child.call("build_time:build_side", given, **settings))
        if len({run["module"] for found in runs.values() for run in found}) > 1:
            raise RuntimeError("the modules differ")
        result = {"model": net.name, "threads": options.threads}
        if len(runs) == len(SIDES) and not options.import_only:
            rounds = options.latency_rounds
            result |= compare_latency(libraries, files.inputs, options.threads, rounds)
    names = ["import"] if options.import_only else ["import", "seconds", "candidate_seconds"]
    for side, found in runs.items():
        result[side] = {name: statistics.median(run[name] for run in found) for name in names}
        result[side] |= {"all": [[run[name] for name in names] for run in found]}
        result[side] |= {} if options.import_only else {"phases": found[-1]["phases"]}
    return result


def lines_of(result: dict[str, Any]) -> Iterator[str]:
    """The figures as a table."""
    from harness.tables import interval_text, text_table

    sides = {side: result[side] for side in SIDES if side in result}
    is_built = "phases" in sides["ours"]
    rows = []
    for side, of in sides.items():
        seconds = [of["import"]]
        if is_built:
            seconds += [of["seconds"], *of["phases"].values(), of["candidate_seconds"]]
        rows.append([side, *(f"{value:.2f}" for value in seconds)])
    head = ["import s", *(["build s", *PHASES, "codegen", "conv s"] if is_built else [])]
    yield f"{result['model']}, {result['threads']} threads"
    yield text_table(["", *head], rows)
    if len(sides) == len(SIDES):
        for name, what in {"import": "import", "seconds": "build"}.items():
            if name in sides["ours"]:
                ratio = sides["ours"][name] / sides["stock"][name]
                yield f"{what} time, ours / stock: {ratio:.3f}"
        yield "modules: equal"
    if "latency_ratio" in result:
        yield f"outputs: max|ours - stock| / max|stock| = {result['output_difference']:.1e}"
        yield f"latency, ours / stock: {interval_text(result['latency_ratio'])}"


def main(given: list[str] | None = None) -> int:
    parser = arguments.make_parser(
        __doc__,
        nets=[],
        rounds=3,
        threads=None,
        output=arguments.ROOT / "build/bench/build_time.json",
    )
    add = parser.add_argument
    add("--files", type=Path, nargs="*", default=[], help="ONNX files")
    add("--import-only", action="store_true", help="nothing is built")
    add("--stock-rounds", type=arguments.at_least(0), default=1, help="of TVM's own; 0: ours alone")
    add("--latency-rounds", type=arguments.at_least(1), default=30)
    options = parser.parse_args(given)
    import models
    import onnx
    from harness.sides import print_each

    files = [
        models.Net(file.name, str(file), lambda _, file=file: onnx.load(file), str(file))
        for file in options.files
    ]
    nets = [*options.nets, *files] or models.find("resnet50")
    results = []

    def lines(net: models.Net) -> Iterator[str]:
        results.append(measure(net, options))
        yield from lines_of(results[-1])

    status = print_each(nets, lambda net: net.name, lines)
    records.write_figures(options.output, results)
    return status


if __name__ == "__main__":
    sys.exit(main())
