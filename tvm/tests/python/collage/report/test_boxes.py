# SPDX-License-Identifier: Apache-2.0
"""Boxes and edges of plans, read off reports made by hand."""

import dataclasses
import json

import pytest
from json_schema import errors
from made_graphs import costed, node
from made_reports import made, made_report
from tree import ROOT
from tvm.relay.collage.costs.cost import PartCost
from tvm.relay.collage.errors import CollageError
from tvm.relay.collage.plans.placement import PlacedPart
from tvm.relay.collage.plans.placement.seen import SeenFunction, SeenPlan, SeenPlans
from tvm.relay.collage.report.boxes import box_graph, check_names, chosen, plan_names
from tvm.relay.collage.report.record import Trade
from tvm.relay.collage.views.function_report import FunctionGraph


def report_of(nodes, parts=(), costed=(), places=None, skipped=""):
    """A report with one plan, `p`."""
    report = made(1, plan="p", host="llvm -mcpu=x")
    graph = FunctionGraph(nodes=tuple(nodes), costed=tuple(costed))
    function = dataclasses.replace(report.functions[0], graph=graph, skipped=skipped)
    made_with = report.placements.plans[0].made_with
    where = {"main": tuple(range(len(parts)) if places is None else places)}
    seen = SeenPlans(
        (SeenFunction("main", "0" * 16, "1" * 16, (), tuple(parts)),),
        (SeenPlan("p", made_with, (), where),),
    )
    return dataclasses.replace(report, functions=(function,), placements=seen)


def part(backend, nodes, seconds=1e-3, status="measured"):
    return PlacedPart(backend, "r", "", tuple(nodes), (), True, PartCost(status, seconds, ""))


def drawn(report):
    """(kind, backend, label, seconds) of each box, and labels that edges join."""
    graph = box_graph(report, report.functions[0], "p")
    boxes = [(box.kind, box.backend, box.label, box.seconds) for box in graph.boxes]
    return boxes, [(boxes[e.source][2], boxes[e.target][2]) for e in graph.edges]


TUPLES = [
    node(0, "var", name="x"),
    node(1, "const"),
    node(2, "call", "nn.dense", [0, 1]),
    node(3, "tuple", inputs=[2, 0]),
    node(4, "call", "concatenate", [3]),
    node(5, "call", "split", [4]),
    node(6, "projection", inputs=[5]),
    node(7, "call", "exp", [6]),
    node(8, "tuple", inputs=[7, 2], is_result=True),
]


def test_the_made_report_is_one():
    schema = json.loads((ROOT / "docs/report.schema.json").read_text())
    assert errors(schema, json.loads(json.dumps(made_report(2)))) == []


def test_tuples_are_seen_through_and_constants_left_out():
    boxes, edges = drawn(report_of(TUPLES, [part("b", [2, 3, 4]), part("llvm", [5, 6])]))
    assert boxes == [
        ("input", "", "x", None),
        ("part", "b", "dense + concatenate", 1e-3),
        ("part", "tvm", "split", 1e-3),  # the host's kind is TVM
        ("rest", "tvm", "exp", None),
        ("output", "", "output", None),
    ]
    assert edges == [
        ("x", "dense + concatenate"),
        ("dense + concatenate", "split"),
        ("split", "exp"),
        ("exp", "output"),
        ("dense + concatenate", "output"),
    ]


def test_what_no_part_holds_is_cut_into_kernels_that_were_measured():
    chain = [node(0, "var", name="x")]
    chain += [node(k, "call", f"op{k}", [k - 1]) for k in range(1, 6)]
    chain[-1] = dataclasses.replace(chain[-1], is_result=True)
    rows = [costed("tvm", nodes, 2e-6) for nodes in ([2], [2, 3])]
    boxes, _ = drawn(report_of(chain, costed=rows))
    assert [(label, seconds) for _, _, label, seconds in boxes[1:-1]] == [
        ("op1", None),
        ("op2 + op3", 2e-6),
        ("op4 + op5", None),
    ]


def test_a_part_without_a_cost_of_its_own_has_that_of_the_same_candidate():
    rows = [costed("b", [2], 5e-6), costed("b", [7], None)]
    parts = [part("b", [1, 2], None, "unknown"), part("b", [7], None, "unknown")]
    boxes, _ = drawn(report_of(TUPLES, parts, rows))
    assert [row[3] for row in boxes if row[1] == "b"] == [5e-6, None]


def test_boxes_come_after_what_they_read():
    report = made(3)
    for plan in plan_names(report):
        graph = box_graph(report, report.functions[0], plan)
        order = graph.order()
        place = {k: at for at, k in enumerate(order)}
        assert sorted(order) == list(range(len(graph.boxes)))
        assert all(place[edge.source] < place[edge.target] for edge in graph.edges)


def test_what_ships_comes_first_and_other_names_are_refused():
    report = made(plan="tvm")
    assert plan_names(report) == ["tvm", "collage", "alpha", "beta"]
    assert chosen(report, None, "")[1] == "tvm"
    with pytest.raises(CollageError, match=r"no plan 'nobody' .* tvm, collage"):
        check_names(report, "nobody", "")
    with pytest.raises(CollageError, match=r"no function 'f' .* it has main"):
        check_names(report, None, "f")


@pytest.mark.parametrize("place", [7, -1])
def test_a_damaged_report_is_told_by_name(place):
    report = report_of(TUPLES, [part("b", [2])], places=[place])
    with pytest.raises(CollageError, match=f"damaged: plan 'p' has part {place} of @main"):
        drawn(report)


def test_why_there_is_nothing_to_draw():
    with pytest.raises(CollageError, match="no function was searched"):
        chosen(report_of([]), None, "")
    with pytest.raises(CollageError, match="nothing to draw: it is recursive"):
        chosen(report_of([], skipped="it is recursive"), None, "")


def test_parts_of_fewer_bits_have_a_precision():
    nodes = [
        node(0, "var", name="x"),
        node(1, "call", "qnn.quantize", [0], type_="int8[4]"),
        node(2, "call", "nn.dense", [1], type_="int32[4]"),
        node(3, "call", "qnn.dequantize", [2]),
        node(4, "call", "nn.dense", [3]),
        node(5, "call", "cast", [4], type_="int8[4]", is_result=True),
    ]
    parts = [part("b", [1]), part("llvm", [2]), part("c", [3, 4]), part("d", [5])]
    trades = (Trade("c", "bfloat16", ()), Trade("d", "int8 weights", ("nn.dense",)))
    report = dataclasses.replace(report_of(nodes, parts), trades=trades)
    boxes = box_graph(report, report.functions[0], "p").boxes
    found = [(box.backend, box.precision) for box in boxes]
    assert found == [
        ("", ""),
        ("b", "int8"),
        ("tvm", "int8"),
        ("c", "bfloat16"),
        ("d", ""),  # a cast, which is no product
        ("", ""),
    ]


@pytest.mark.parametrize(
    "kept, precision",
    [
        ((), "bfloat16"),
        ((1,), "bfloat16 and float32"),
        ((1, 3), ""),
        ((2,), "bfloat16"),  # no layer
    ],
)
def test_a_part_that_keeps_layers_exact_says_so(kept, precision):
    nodes = [
        node(0, "var", name="x"),
        node(1, "call", "nn.dense", [0]),
        node(2, "call", "nn.relu", [1]),
        node(3, "call", "nn.dense", [2], is_result=True),
    ]
    report = report_of(nodes, [part("b", [1, 2, 3])])
    plan = dataclasses.replace(report.placements.plans[0], kept=kept)
    report = dataclasses.replace(
        report,
        trades=(Trade("b", "bfloat16", ()),),
        placements=dataclasses.replace(report.placements, plans=(plan,)),
    )
    boxes = box_graph(report, report.functions[0], "p").boxes
    assert [box.precision for box in boxes if box.kind == "part"] == [precision]
