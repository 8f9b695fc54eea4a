#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure nets in fewer bits within an error: Collage beside OpenVINO and onnxruntime.

    python bench/precision.py                              # it goes on where it stopped
    python bench/precision.py --nets mobilenetv2 --budgets 0.01,0.05

A net is compiled in a process of its own with samples (of trained nets such as they are made for,
harness/real_inputs.py, else random numbers), and runs beside the peers in rounds of all, on samples
that nobody chose by: the libraries in each precision that they have (precision/peers.py). Errors
are beside onnxruntime in float32. Docs: docs/precision.md.
Test: bench/test_precision_bench.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness import arguments, child, records
from harness.real_inputs import TASKS, find_task
from harness.resume import Book, Job, run
from summaries import precisions

KEY = ("net", "budget")
OURS = "collage"
# Samples: of nets with random weights, of which more tell nothing; and of others.
COUNT, REAL_COUNT = 16, 32
NETS = ",".join([*TASKS, "mobilenetv2", "resnet50", "bert", "vit", "gpt2"])
MEASURE = "precision:measure_net"
_SETTINGS = ("threads", "rounds", "metric", "backends")


def main(given: Sequence[str] | None = None) -> int:
    options = parse(given)
    settings = {name: getattr(options, name) for name in _SETTINGS}
    packages = ("onnxruntime", "openvino", "nncf")
    conditions = records.conditions(settings, packages)
    jobs = [
        Job(
            f"{net} within {budget:g}",
            {"net": net, "budget": budget},
            partial(measure, {"name": net, "budget": budget, **settings}, options.limit),
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
    from harness.sides import row_of, with_threads
    from tvm.relay import collage
    from tvm.relay.collage.measure.race.race import RaceOptions
    from tvm.relay.collage.precision.calibration import Calibration, load_calibration
    from tvm.relay.collage.precision.metrics import find_metric
    from tvm.relay.collage.precision.peers import beside_peers

    task = find_task(name)
    model, metric = task.build(), metric or task.metric
    count = REAL_COUNT if task.is_trained else COUNT
    samples = load_calibration(task.samples(model, count), model)
    targets = [collage.host_target(), *backends]
    given = collage.CollageOptions(accuracy_budget=budget, metric=metric, progress="lines")
    with tempfile.TemporaryDirectory(prefix="collage-bench-") as folder:
        import tvm

        with tvm.transform.PassContext(opt_level=3):
            found = collage.optimize_precision(model, targets, given, calibration=samples)
        library = str(Path(folder, "ours.so"))
        found.save_library(library)
        compared = beside_peers(
            OURS,
            library,
            model,
            Calibration.of(samples),
            folder,
            metric=find_metric(metric, [value.name for value in model.graph.output]),
            environment=with_threads(threads),
            race=RaceOptions(rounds=rounds),
        )
    ours = next(item for item in compared if item.name == OURS)
    told = found.precision
    return {
        "is_trained": task.is_trained,
        "used_metric": metric,
        "ships": told.chosen.name,
        "plan": found.plan,
        "operators": {row.backend: row.operators for row in found.record.placement},
        "layers": dict(told.counts()),
        "left_out": told.left_out,
        "built": {row.name: [row.seconds, row.output_error] for row in told.plans},
        "phases": found.seconds,
        "rows": [row_of(item, ours) for item in compared],
    }


@arguments.checked
def known(text: str) -> list[str]:
    """Return names of nets; ValueError for one that there is not."""
    return [find_task(name).name for name in arguments.listed(text)]


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.make_parser(
        __doc__,
        threads=None,
        rounds=30,
        backends="dnnl,onnxruntime,openvino,openvino_bf16,dnnl_bf16,openvino_w8",
        record=arguments.RESULTS / "precision.jsonl",
        **arguments.RESUMED,
    )
    parser.add_argument("--budgets", default="0.01", help="errors, with commas between")
    parser.add_argument("--nets", type=known, default=NETS, help="default: %(default)s")
    parser.add_argument("--metric", default="", help="max, rms or argmax; by default each net's")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds for a net")
    options = parser.parse_args(given)
    options.budgets = [float(text) for text in arguments.listed(options.budgets)]
    return options


if __name__ == "__main__":
    sys.exit(main())
