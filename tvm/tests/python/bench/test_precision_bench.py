# SPDX-License-Identifier: Apache-2.0
"""What records of bench/precision.py say; samples; one small net beside the peers."""

import models
import numpy as np
import precision
import pytest
from onnx_nets import conv_net
from summaries import precisions
from tvm.relay import collage
from tvm.relay.collage import CollageOptions
from tvm.relay.collage.precision.calibration import Calibration, load_calibration


def row(name, seconds, error, ratio=None):
    return {"name": name, "seconds": seconds, "output_error": error, "ratio": ratio}


def record(**changes):
    rows = [
        row("collage", 1e-3, 0.004, [1, 1, 1]),
        row("openvino int8 f32", 5e-4, 0.06, [0.5, 0.4, 0.6]),
        row("openvino float32 bf16", 1.5e-3, 0.008, [1.5, 1.4, 1.6]),
        row("onnxruntime float32", 3e-3, 0.0, [3, 2.9, 3.1]),
        row("onnxruntime int8", None, None),
    ]
    found = {
        **{"net": "a", "budget": 0.01, "failure": "", "ships": "mixed", "seconds": 100.0},
        **{"layers": {"int8": 12, "float32": 41}, "rows": rows},
        "built": {"float32": [2e-3, 0.0], "mixed": [1e-3, 0.004]},
    }
    return {**found, **changes}


def test_the_best_peer_is_within_the_budget():
    assert precisions.best_peer(record())["name"] == "openvino float32 bf16"
    assert precisions.best_peer(record(budget=0.1))["name"] == "openvino int8 f32"
    assert precisions.best_peer(record(rows=record()["rows"][:2])) is None


def test_a_line_tells_what_ships_beside_float32_and_the_peer():
    assert precisions.summary_of(record()) == (
        "ships mixed (41 float32, 12 int8), 1.000 ms, error 0.40%; 2.00 of float32, "
        "1.50 [1.40, 1.60] of openvino float32 bf16; 100 s"
    )
    assert precisions.summary_of({"failure": "it died"}) == "failed: it died"


def test_totals_are_geometric_means_by_budget():
    twice = record(net="b", layers={"int8": 53}, built={"float32": [8e-3, 0], "mixed": [1e-3, 0]})
    text = precisions.totals([record(), twice, {"failure": "it died"}])
    assert text.splitlines()[-1] == (
        "Within 0.01: 4.00 times our float32, 1.50 times the best peer within it; 1 of 2 nets mix "
        "precisions."
    )


def test_a_page_has_a_row_for_each_net_and_where_it_was_measured():
    where = {"conditions": {"machine": {"cpu": "a CPU", "cores": 2}}, "date": "2026-12-01"}
    text = precisions.tables([record(**where), record(net="b", budget=0.05, **where)])
    lines = text.splitlines()
    assert lines[0] == "a CPU, 2 CPUs; 2026-12-01"
    rows = [line for line in lines if line.startswith(("| a ", "| b "))]
    assert rows[0].startswith("| a | 0.01 | mixed | 41 float32, 12 int8 | 1.000 | 0.40% | 2.00 |")
    assert len(rows) == 2 and sum(line.startswith("Within ") for line in lines) == 2


def test_samples_are_drawn_or_random_and_differ():
    for name in ("ppocr_cls", "mobilenetv2"):
        net = models.find(name)[0]
        samples = precision.samples_of(net, net.build(1))
        assert len(samples) == precision.COUNT
        first, second = (next(iter(each.values())) for each in samples[:2])
        assert first.dtype == np.float32 and not np.array_equal(first, second)


@pytest.mark.slow("a search, and five peers")
def test_a_small_net_beside_the_peers(tmp_path):
    model, rng = conv_net(), np.random.default_rng(0)
    given = [rng.standard_normal((1, 3, 16, 16)).astype("float32") for _ in range(8)]
    fast = {"measure_seconds": 0.01, "guard_rounds": 6, "guard_seconds": 1.0, "effort": "quick"}
    options = CollageOptions(progress="quiet", accuracy_budget=0.5, **fast)
    found = collage.optimize_precision(model, ["llvm", "dnnl"], options, calibration=given)
    library = str(tmp_path / "ours.so")
    found.save_library(library)
    samples = Calibration.of(load_calibration(given, model))
    rows = precision.beside_peers(
        model, library, samples, str(tmp_path), threads=1, rounds=2, metric="max"
    )
    errors = {item["name"]: item["output_error"] for item in rows}
    assert errors["onnxruntime float32"] < 1e-5 < errors["onnxruntime int8"] < 0.5
    assert errors["collage"] < 0.5
    assert len(rows) == 7 and next(r for r in rows if r["name"] == "collage")["ratio"][0] == 1
