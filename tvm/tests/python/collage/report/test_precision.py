# SPDX-License-Identifier: Apache-2.0
"""What is said of precisions, and their record in a report's file."""

import dataclasses

from made_precisions import told
from made_reports import made
from tvm.relay.collage.report import head_lines, read_report
from tvm.relay.collage.report.explain import explain
from tvm.relay.collage.report.precision import layer_lines, precision_lines


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
