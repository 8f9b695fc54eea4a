# SPDX-License-Identifier: Apache-2.0
"""What records of bench/precision.py say."""

from summaries import precisions


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
        **{"used_metric": "max", "is_trained": True},
    }
    return {**found, **changes}


def test_the_best_peer_is_within_the_budget():
    assert precisions.best_peer(record())["name"] == "openvino float32 bf16"
    assert precisions.best_peer(record(budget=0.1))["name"] == "openvino int8 f32"
    assert precisions.best_peer(record(rows=record()["rows"][:2])) is None


def test_a_line_tells_what_ships_beside_float32_and_the_peer():
    assert precisions.summary_of(record()) == (
        "ships mixed (41 float32, 12 int8), 1.000 ms, error 0.40% max; 2.00 of float32, "
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
    other = record(net="b", budget=0.05, is_trained=False, **where)
    lines = precisions.tables([record(**where), other]).splitlines()
    assert lines[0] == "a CPU, 2 CPUs; 2026-12-01"
    rows = [line for line in lines if line.startswith(("| a ", "| b (random) "))]
    assert rows[0].startswith(
        "| a | 0.01 | mixed | 41 float32, 12 int8 | 1.000 | 0.40% max | 2.00 |"
    )
    assert len(rows) == 2 and sum(line.startswith("Within ") for line in lines) == 2


def test_a_headline_is_one_sentence_a_budget_and_where_it_was_measured():
    where = {"conditions": {"machine": {"cpu": "a CPU", "cores": 2}}, "date": "2026-12-01"}
    text = precisions.headline([record(**where), {"failure": "it died"}])
    (line,) = text.splitlines()
    assert line.startswith("Within 0.01: 2.00 times our float32") and "1 of 1 nets mix" in line
    assert line.endswith("a CPU, 2 CPUs; 2026-12-01.")
