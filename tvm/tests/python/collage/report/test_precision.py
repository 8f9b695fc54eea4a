# SPDX-License-Identifier: Apache-2.0
"""What is said of precisions, and their record in a report's file."""

import dataclasses

from made_reports import made
from tvm.relay.collage.costs.compared import ComparedPlan, Ratio
from tvm.relay.collage.costs.cost import CostStatus
from tvm.relay.collage.report import head_lines, read_report
from tvm.relay.collage.report.explain import explain
from tvm.relay.collage.report.precision import (
    FrontPoint,
    LayerPrecision,
    PlacedLayer,
    Precisions,
    layer_lines,
    precision_lines,
)


def plan(name, seconds, error, *, chosen=False, ratio=1.0):
    status = CostStatus.MEASURED if seconds else CostStatus.WRONG_RESULT
    return ComparedPlan(
        *(name, False, chosen, status, seconds, None, None, 15),
        ratio_to_chosen=Ratio(ratio, ratio - 0.1, ratio + 0.1) if seconds else None,
        output_error=error,
        message="" if seconds else "its output is off by 0.0654 by the metric max (limit 0.01)",
    )


def told(**changes):
    layers = (
        PlacedLayer("a", "Conv", "int8", (LayerPrecision("int8", 4e-5, 0.001),)),
        PlacedLayer(
            "b",
            "Conv",
            "float32",
            (LayerPrecision("int8", 2e-5, 0.01), LayerPrecision("bfloat16", -1e-5, 0.001)),
        ),
        PlacedLayer("c", "Gemm", "float32", (LayerPrecision("int8", None, 0.005),)),
    )
    values = {
        "metric": "max",
        "budget": 0.01,
        "samples": {"ranges": 8, "errors": 4, "check": 4},
        "plans": (
            plan("mixed", 1e-3, 0.004, chosen=True),
            plan("float32", 2e-3, 0.0, ratio=2.0),
            plan("int8", None, 0.0654),
        ),
        "layers": layers,
        "front": (FrontPoint({"int8": 1}, 4e-5, 0.001, 0.0012),),
        "left_out": {"bfloat16": "its error is 1.71%, over the budget"},
    }
    return Precisions(**{**values, **changes})


def test_what_ships_is_told_beside_the_others():
    assert precision_lines(told()) == [
        "Precision mixed ships (layers: 2 in float32, 1 in int8): 1 ms, error 0.40%; the budget is "
        "1.00% by the metric max, on 4 samples.",
        "  float32: 2 ms (2.00 [1.90, 2.10] times as long), error 0.00%.",
        "  int8: its error is 6.54%, over the budget.",
        "  bfloat16: its error is 1.71%, over the budget.",
    ]


def test_without_layers_nothing_is_said_of_them():
    assert precision_lines(told(layers=()))[0].startswith("Precision mixed ships: 1 ms")


def test_layers_in_float_are_told_with_what_other_precisions_would_do():
    assert layer_lines(told()) == [
        "In int8: Conv a.",
        "Conv b stays in float32: int8 would save 20 us, and its squared error by rms is 100.0% of "
        "the budget's.",
        "Gemm c stays in float32: int8 would bring an error: its squared error by rms is 25.0% "
        "of the budget's.",
        "Conv b stays in float32: bfloat16 would cost 10 us.",
    ]


def test_a_report_keeps_them():
    report = dataclasses.replace(made(1), precision=told())
    again = read_report(report.to_json(), "report.json")
    assert again.precision == told()
    assert read_report(made(1).to_json(), "report.json").precision is None


def test_a_replay_has_those_of_its_decision():
    report = dataclasses.replace(made(1), precision=told())
    assert made(1).with_search_of(report).precision == told()


def test_an_explanation_begins_with_them():
    report = dataclasses.replace(made(1), precision=told())
    head = explain(report, report.plan).head
    assert list(head[:2]) == list(head_lines(report)[:2])
    assert [*precision_lines(told()), *layer_lines(told())] == list(head[-8:])
