# SPDX-License-Identifier: Apache-2.0
"""Boxes and edges of plans, read off reports made by hand."""

import json

import pytest
from json_schema import errors
from made_reports import BACKENDS, PLANS, made_report
from tree import ROOT
from tvm.relay import collage
from tvm.relay.collage.errors import CollageError
from tvm.relay.collage.report.html import to_html
from tvm.relay.collage.report.picture import palette, picture_of, to_svg
from tvm.relay.collage.report.picture.palette import PATTERNS, looks_of, report_looks
from tvm.relay.collage.report.picture.parts import box_graph, check_names, chosen, plan_names


def node(index, kind, op="", inputs=(), is_result=False, name=""):
    row = {"index": index, "kind": kind, "op": op, "inputs": list(inputs), "name": name}
    return {**row, "type": "float32[4]", "attrs": {}, "is_result": is_result}


def report_of(nodes, parts=(), costed=()):
    """A report with one plan, `p`."""
    places = {"name": "main", "parts": list(parts)}
    plan = {"plan": "p", "parts": {"main": list(range(len(parts)))}}
    graph = {"nodes": nodes, "costed": list(costed)}
    return {
        "plan": "p",
        "host": "llvm -mcpu=x",
        "functions": [{"function": "main", "graph": graph, "skipped": ""}],
        "placements": {"functions": [places], "plans": [plan]},
    }


def part(backend, nodes, seconds=1e-3, status="measured"):
    return {
        "backend": backend,
        "rule": "r",
        "nodes": nodes,
        "cost": {"status": status, "seconds": seconds},
    }


def drawn(report):
    """(kind, backend, label, seconds) of each box, and labels that edges join."""
    graph = box_graph(report, report["functions"][0], "p")
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
    chain[-1]["is_result"] = True
    cost = {"status": "measured", "seconds": 2e-6}
    costed = [{"backend": "tvm", "nodes": nodes, "cost": cost} for nodes in ([2], [2, 3])]
    boxes, _ = drawn(report_of(chain, costed=costed))
    assert [(label, seconds) for _, _, label, seconds in boxes[1:-1]] == [
        ("op1", None),
        ("op2 + op3", 2e-6),
        ("op4 + op5", None),
    ]


def test_a_part_without_a_cost_of_its_own_has_that_of_the_same_candidate():
    costed = [
        {"backend": "b", "nodes": [2], "cost": {"status": "measured", "seconds": 5e-6}},
        {"backend": "b", "nodes": [7], "cost": {"status": "crashed", "seconds": None}},
    ]
    parts = [part("b", [1, 2], None, "unknown"), part("b", [7], None, "unknown")]
    boxes, _ = drawn(report_of(TUPLES, parts, costed))
    assert [row[3] for row in boxes if row[1] == "b"] == [5e-6, None]


def test_boxes_come_after_what_they_read():
    report = made_report(3)
    for plan in plan_names(report):
        graph = box_graph(report, report["functions"][0], plan)
        order = graph.order()
        place = {k: at for at, k in enumerate(order)}
        assert sorted(order) == list(range(len(graph.boxes)))
        assert all(place[edge.source] < place[edge.target] for edge in graph.edges)


def test_what_ships_comes_first_and_other_names_are_refused():
    report = made_report(plan="tvm")
    assert plan_names(report) == ["tvm", "collage", "alpha", "beta"]
    assert chosen(report, None, "")[1] == "tvm"
    with pytest.raises(CollageError, match=r"no plan 'nobody' .* tvm, collage"):
        check_names(report, "nobody", "")
    with pytest.raises(CollageError, match=r"no function 'f' .* it has main"):
        check_names(report, None, "f")


@pytest.mark.parametrize("place", [7, -1])
def test_a_damaged_report_is_told_by_name(place):
    report = report_of(TUPLES, [part("b", [2])])
    report["placements"]["plans"][0]["parts"]["main"] = [place]
    with pytest.raises(CollageError, match=f"damaged: plan 'p' has part {place} of @main"):
        drawn(report)


def test_why_there_is_nothing_to_draw():
    report = report_of([])
    with pytest.raises(CollageError, match="no function was searched"):
        chosen(report, None, "")
    report["functions"][0]["skipped"] = "it is recursive"
    with pytest.raises(CollageError, match="nothing to draw: it is recursive"):
        chosen(report, None, "")


def test_looks_differ_in_colour_and_pattern():
    looks = looks_of([*BACKENDS, *PLANS])
    assert next(iter(looks)) == "tvm"
    assert len({look.colour for look in looks.values()}) == len(looks) == 5
    many = looks_of(f"b{k}" for k in range(20))
    assert len({(look.colour, look.pattern) for look in many.values()}) == 21
    assert all(look.pattern in PATTERNS for look in many.values())


def test_a_backend_that_declares_its_colour_has_it_beside_whichever_others():
    names = [backend.name for backend in collage.backends.list_backends() if backend.colour]
    alone = {name: looks_of([name])[name] for name in names}
    assert len({look.colour for look in alone.values()}) == len(names) >= 6
    together = looks_of([*names, "aaa", "own"])
    assert {name: together[name] for name in names} == alone
    assert together["own"] not in alone.values()
    # What nobody declares is for the backends of users.
    assert looks_of(["own"])["own"].colour not in {look.colour for look in alone.values()}


def test_backends_of_one_declared_colour_differ_in_their_patterns(monkeypatch):
    class Own(collage.Backend):
        colour = "#123456"

        def __init__(self, name):
            self.name = name

    for names in ([f"one{k}", f"two{k}"] for k in range(40)):
        monkeypatch.setattr(palette, "list_backends", lambda names=names: map(Own, names))
        one, two = (looks_of(names)[name] for name in names)
        assert one.colour == two.colour == "#123456" and one.pattern != two.pattern


def test_a_backend_keeps_its_colour_where_nobody_registered_it():
    kept = {"alpha": "#123456", "delta": "#654321"}
    looks = report_looks(made_report(1, colours=kept))
    assert looks["alpha"].colour == "#123456" and looks["beta"] != looks["gamma"]
    before = made_report(1)
    del before["colours"]
    assert report_looks(before) == report_looks(made_report(1)), "of an older version"


def test_a_backend_looks_the_same_in_every_plan_and_form():
    """Whatever other backends a plan has, and nobody takes what is free for one."""
    report = made_report(1)
    report["functions"][0]["graph"]["backends"].append(
        {"name": "host", "is_external": False, "device": ""}
    )
    looks = report_looks(report)
    assert looks == looks_of(BACKENDS)
    for plan in PLANS:
        assert picture_of(report, plan).looks == looks
    page = to_html(report)
    assert all(f'"{name}":{{"colour":"{look.colour}"' in page for name, look in looks.items())
    # Of a plan without the first of them, too.
    assert looks["beta"].colour in to_svg(picture_of(report, "beta"))
    assert looks["alpha"].colour not in to_svg(picture_of(report, "beta"))
