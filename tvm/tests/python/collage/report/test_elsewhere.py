# SPDX-License-Identifier: Apache-2.0
"""Operators that another backend runs faster, by profiles."""

import dataclasses
from types import SimpleNamespace

import pytest
from tvm.relay.collage.report.elsewhere import elsewhere_text, faster_elsewhere
from tvm.relay.collage.views.function_report import FunctionGraph, FunctionReport, GraphNode

OPS = ["", "nn.conv2d", "nn.softmax", "nn.softmax"]


def report_of(ops):
    nodes = tuple(
        GraphNode(
            index=index,
            kind="call" if op else "var",
            op=op,
            name="",
            type="",
            attrs={},
            inputs=(),
            is_kernel=bool(op),
            is_opaque=False,
            is_result=False,
            device="",
        )
        for index, op in enumerate(ops)
    )
    report = FunctionReport("main")
    vars(report)["graph"] = FunctionGraph(nodes)
    return report


def test_equal_operators_are_told_together_and_the_most_gain_first():
    profiles = {
        "one": {1: 4e-3, 2: 2e-3, 3: 3e-3},
        "two": {1: 3e-3, 2: 1e-3, 3: 1e-3},
        "three": {1: 5e-3},
    }
    rows = faster_elsewhere(profiles, "one", [report_of(OPS)])
    assert [(row.op, row.backend, row.operators) for row in rows] == [
        ("nn.softmax", "two", 2),
        ("nn.conv2d", "two", 1),
    ]
    assert rows[0].here_seconds == pytest.approx(5e-3)
    text = elsewhere_text(SimpleNamespace(elsewhere=rows))
    assert "nn.softmax x2 5 ms, on two 2 ms; nn.conv2d x1 4 ms, on two 3 ms." in text


@pytest.mark.parametrize(
    "profiles, best",
    [
        ({"one": {1: 1e-3}, "two": {1: 0.95e-3}}, "one"),  # as from run to run
        ({"one": {1: 1e-3}, "two": {1: 2e-3}}, "one"),
        ({"one": {1: 1e-3}}, "one"),
        ({"one": {1: 1e-3}, "two": {1: 1e-4}}, "one-thread"),  # no profile of the best
        ({}, ""),
    ],
)
def test_nothing_is_told_where_nobody_is_faster(profiles, best):
    assert faster_elsewhere(profiles, best, [report_of(OPS)]) == ()
    assert elsewhere_text(SimpleNamespace(elsewhere=())) == ""


def test_of_several_functions_nothing_is_told():
    profiles = {"one": {1: 1e-3}, "two": {1: 1e-4}}
    both = [report_of(OPS), dataclasses.replace(report_of(OPS), function="other")]
    assert faster_elsewhere(profiles, "one", both) == ()
