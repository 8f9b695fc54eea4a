#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure nets in fewer bits within an error: Collage beside OpenVINO and onnxruntime.

    python bench/precision.py                              # it goes on where it stopped
    python bench/precision.py --nets mobilenetv2 --budgets 0.01,0.05

A net is compiled in a process of its own with samples (text that is drawn for the nets that read
it, else random numbers), and runs beside the peers in rounds of all, on samples that nobody chose
by: the libraries in float32 and bfloat16, and on the same net in 8 bits as NNCF quantises it.
Errors are by one metric, beside onnxruntime in float32. Docs: docs/precision.md.
Test: bench/test_precision_bench.py.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness import arguments, child, records
from harness.resume import Book, Job, run
from summaries import precisions

KEY = ("net", "budget")
OURS, COUNT, SEED = "collage", 16, 1
DRAWN = {"ppocr_rec": (320, 48), "ppocr_cls": (192, 48), "ppocr_det": (640, 640)}
NETS = "ppocr_cls,ppocr_rec,ppocr_det,mobilenetv2,resnet50,bert"
MEASURE = "precision:measure_net"
_SETTINGS = ("threads", "rounds", "metric", "backends")


def main(given: Sequence[str] | None = None) -> int:
    options = parse(given)
    settings = {name: getattr(options, name) for name in _SETTINGS}
    packages = ("onnxruntime", "openvino", "nncf")
    conditions = records.conditions(settings, packages)
    jobs = [
        Job(
            f"{net.name} within {budget:g}",
            {"net": net.name, "budget": budget},
            partial(measure, {"name": net.name, "budget": budget, **settings}, options.limit),
        )
        for net in options.nets
        for budget in options.budgets
    ]
    book = Book(options.record, KEY, conditions, is_failed=lambda found: bool(found["failure"]))
    found = run(jobs, book, precisions.summary_of, budget=options.budget, keep=options.keep)
    print(precisions.totals(found))
    return 0


def measure(given: dict[str, Any], limit: float) -> dict[str, Any]:
    """Return what a record says of a net within a budget."""
    ended = child.run(MEASURE, given, limit=limit)
    found = ended.values[-1] if ended.values else {}
    return {"failure": ended.failure, **found}


def measure_net(
    name: str, budget: float, threads: int, rounds: int, metric: str, backends: Sequence[str]
) -> dict[str, Any]:
    """Compile a net within the budget and measure it beside the peers; in a process of its own."""
    import models
    from tvm.relay import collage
    from tvm.relay.collage.precision.calibration import Calibration, load_calibration

    net = models.find(name)[0]
    model = net.build(1)
    samples = load_calibration(samples_of(net, model), model)
    targets = [collage.host_target(), *backends]
    given = collage.CollageOptions(accuracy_budget=budget, metric=metric, progress="lines")
    with tempfile.TemporaryDirectory(prefix="collage-bench-") as folder:
        import tvm

        with tvm.transform.PassContext(opt_level=3):
            found = collage.optimize_precision(model, targets, given, calibration=samples)
        library = str(Path(folder, "ours.so"))
        found.save_library(library)
        rows = beside_peers(
            model,
            library,
            Calibration.of(samples),
            folder,
            threads=threads,
            rounds=rounds,
            metric=metric,
        )
    told = found.precision
    return {
        "ships": told.chosen.name,
        "plan": found.plan,
        "operators": {row.backend: row.operators for row in found.record.placement},
        "layers": dict(told.counts()),
        "left_out": told.left_out,
        "built": {row.name: [row.seconds, row.output_error] for row in told.plans},
        "phases": found.seconds,
        "rows": rows,
    }


def samples_of(net: Any, model: Any) -> list[dict[str, Any]]:
    """Return inputs by name: lines of text for the nets that read it, else random numbers."""
    import models

    if net.name not in DRAWN:
        return [models.random_inputs(net, model, seed) for seed in range(COUNT)]
    sys.path.append(str(arguments.ROOT / "demos"))
    import numpy as np
    from demo_ocr import draw_line, to_tensor

    rng = np.random.default_rng(SEED)
    letters = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
    (image,) = models.random_inputs(net, model)
    found = []
    for _ in range(COUNT):
        word = "".join(rng.choice(letters, rng.integers(4, 13)))
        drawn = draw_line(word, *DRAWN[net.name])
        turned = drawn.rotate(180) if net.name == "ppocr_cls" and rng.random() < 0.5 else drawn
        found.append({image: to_tensor(turned)})
    return found


def beside_peers(
    model: Any,
    library: str,
    samples: Any,
    folder: str,
    *,
    threads: int,
    rounds: int,
    metric: str,
) -> list[dict[str, Any]]:
    """Measure a library beside the peers in turns; return a row for each."""
    import onnx
    from harness.sides import row_of, with_threads
    from tvm.relay.collage.errors import ModelError
    from tvm.relay.collage.exec.arrays import load_arrays, save_arrays
    from tvm.relay.collage.measure.race.comparison import OutputMetric, RightOutputs, compared
    from tvm.relay.collage.measure.race.race import Contestant, RaceOptions
    from tvm.relay.collage.plans.original.runtimes import run_original
    from tvm.relay.collage.precision.calibration import by_sample, stacked
    from tvm.relay.collage.precision.metrics import find_metric
    from tvm.relay.collage.precision.quantiser import quantise

    plain, inputs, truth = (
        str(Path(folder, name)) for name in ("plain.onnx", "check.npz", "truth.npz")
    )
    onnx.save(model, plain)
    save_arrays(inputs, stacked(samples.check))
    count = len(samples.check)
    run_original(plain, inputs, truth, sets=count)
    files = {"float32": plain}
    try:
        files["int8"] = quantise(model, samples.ranges, folder).quantised
    except ModelError as error:
        print(f"no net in 8 bits: {error}")
    environment = with_threads(threads)
    contestants = [
        Contestant.of_library(OURS, library, inputs, environment, sets=count, timed=1),
        *peers_of(files, inputs, count, threads=threads, environment=environment),
    ]
    found = find_metric(metric, [value.name for value in model.graph.output])
    right = by_sample(list(load_arrays(truth).values()), count)

    def error_of(outputs: Sequence[Any], _: Sequence[Any]) -> float:
        return found.error(by_sample(outputs, count), right)

    judged = RightOutputs(rtol=math.inf, truth=truth, metric=OutputMetric(metric, error_of))
    comparisons = compared(contestants, judged, RaceOptions(rounds=rounds))
    ours = next(item for item in comparisons if item.name == OURS)
    return [row_of(item, ours) for item in comparisons]


def peers_of(
    files: dict[str, str], inputs: str, count: int, *, threads: int, environment: dict[str, str]
) -> list[Any]:
    """Return the contestants of the libraries on each form of the net."""
    from tvm.relay.collage.measure.peers import untouched_variables
    from tvm.relay.collage.measure.race.race import Contestant

    variables = {**environment, **untouched_variables()}
    shared = {"inputs": inputs, "count": count, "threads": threads}
    found = []
    for form, file in files.items():
        given = {"model": file, **shared}
        found.append(
            Contestant(f"onnxruntime {form}", "precision:onnxruntime_on", given, variables)
        )
        for kind in ("f32", "bf16"):
            name = f"openvino {form} {kind}"
            arguments_of = {**given, "kind": kind}
            found.append(Contestant(name, "precision:openvino_on", arguments_of, variables))
    return found


def onnxruntime_on(model: str, inputs: str, count: int, threads: int) -> Any:
    """onnxruntime on samples that are stacked in a file: it is timed on the first."""
    from tvm.relay.collage.exec.arrays import load_arrays, sets_of
    from tvm.relay.collage.measure.peers import PeerRunnable
    from tvm.relay.collage.ops.onnx_session import session_of

    session = session_of(model, threads, is_optimized=True)
    rows = sets_of(load_arrays(inputs), count)

    def outputs(_: Any) -> list[Any]:
        return [array for row in rows for array in session.run(None, row)]

    return PeerRunnable(lambda: session.run(None, rows[0]), outputs)


def openvino_on(model: str, inputs: str, count: int, threads: int, kind: str) -> Any:
    """OpenVINO set up for latency with this type inside, on samples as above."""
    import numpy as np
    import openvino
    from tvm.relay.collage.exec.arrays import load_arrays, sets_of
    from tvm.relay.collage.measure.peers import PeerRunnable

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": kind,
        "INFERENCE_NUM_THREADS": threads,
    }
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    request = compiled.create_infer_request()
    rows = sets_of(load_arrays(inputs), count)

    def set_inputs(row: dict[str, Any]) -> None:
        for name, value in row.items():
            request.set_tensor(name, openvino.Tensor(value))

    def outputs(_: Any) -> list[Any]:
        found = []
        for row in rows:
            set_inputs(row)
            request.infer(share_outputs=True)
            found += [np.array(request.get_tensor(port).data) for port in compiled.outputs]
        set_inputs(rows[0])
        return found

    set_inputs(rows[0])
    return PeerRunnable(lambda: request.infer(share_outputs=True), outputs)


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.make_parser(
        __doc__,
        threads=None,
        rounds=30,
        nets=NETS,
        backends="dnnl,onnxruntime,openvino,openvino_bf16",
        record=arguments.RESULTS / "precision.jsonl",
        **arguments.RESUMED,
    )
    parser.add_argument("--budgets", default="0.01", help="errors, with commas between")
    parser.add_argument("--metric", default="max", help="max, rms or argmax")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds for a net")
    options = parser.parse_args(given)
    options.budgets = [float(text) for text in arguments.listed(options.budgets)]
    return options


if __name__ == "__main__":
    sys.exit(main())
