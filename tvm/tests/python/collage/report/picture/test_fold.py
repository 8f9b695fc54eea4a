# SPDX-License-Identifier: Apache-2.0
"""Boxes folded into few: what any fold must keep, and which boxes are folded."""

import dataclasses
import importlib.util
import itertools
import random
import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest
from made_graphs import net_of, node
from made_reports import made, made_report, record
from tvm.relay.collage.report.boxes import Box, BoxGraph, Edge
from tvm.relay.collage.report.picture import Picture, to_pdf, to_svg
from tvm.relay.collage.report.picture.draw import text_width
from tvm.relay.collage.report.picture.fold import Fold, fold

SPACE = "{http://www.w3.org/2000/svg}"


def graph_of(seconds, links, inputs=0, backends="alpha"):
    """Boxes of one operator each, which is named by its number; inputs come first, and each result
    leads to the output. links: pairs of parts by number. backends: of each part, in turns."""
    backends = itertools.cycle(backends.split())
    boxes = [Box("input", "", (k,), f"in{k}", "") for k in range(inputs)]
    boxes += [
        Box("part", next(backends), (k,), f"op{k}", "", "rule", each)
        for k, each in enumerate(seconds, inputs)
    ]
    pairs = [(inputs + source, inputs + target) for source, target in links]
    ends = {source for source, _ in pairs}
    pairs += [(k, len(boxes)) for k in range(inputs, len(boxes)) if k not in ends]
    pairs += [(k, inputs + k % len(seconds)) for k in range(inputs)]
    boxes.append(Box("output", "", (), "output", ""))
    return BoxGraph(boxes, [Edge(*pair, (pair[0],)) for pair in pairs])


def folded(graph, most):
    nodes = {k for box in graph.boxes for k in box.nodes}
    return fold(graph, net_of(*(node(k, op=f"op{k}") for k in sorted(nodes))), most)


def chain(*seconds, backends="alpha"):
    return graph_of(seconds, itertools.pairwise(range(len(seconds))), backends=backends)


def held(graph):
    """The operators of each box of parts."""
    return [box.nodes for box in graph.boxes if box.kind == "part"]


def test_a_folded_box_gives_what_others_read_of_it_if_that_is_one():
    """Of 0 both 1 and 2 read, and of these 3."""
    whole = graph_of([1.0, 1.0, 1.0, 9.0], [(0, 1), (0, 2), (1, 3), (2, 3)])
    whole = BoxGraph(
        [dataclasses.replace(box, type=f"type{k}") for k, box in enumerate(whole.boxes)],
        whole.edges,
    )
    assert [box.type for box in folded(whole, 2).boxes] == ["", "type3", "type4"]
    assert [box.type for box in folded(whole, 1).boxes] == ["type3", "type4"]


@pytest.mark.parametrize("seed", range(30))
def test_no_cycle_no_part_lost_and_few_boxes_whatever_the_graph(seed):
    draw = random.Random(seed)
    count, inputs = draw.randint(1, 60), draw.randint(0, 9)
    links = [(a, b) for a, b in itertools.combinations(range(count), 2) if draw.random() < 0.1]
    seconds = [draw.choice([None, 0.0, draw.random() ** 4]) for _ in range(count)]
    graph = graph_of(seconds, links, inputs, "alpha beta gamma")
    draw.shuffle(graph.edges)
    most = draw.randint(1, 25)
    found = folded(graph, most)
    kinds = Counter(box.kind for box in found.boxes)
    assert kinds["part"] == min(count, most) and kinds["output"] == 1
    assert kinds["input"] == min(inputs, max(4, most - count))
    assert len(found.order()) == len(found.boxes), "the boxes have a cycle"
    assert found.seconds == pytest.approx(graph.seconds)
    box_of = {node: k for k, box in enumerate(found.boxes) for node in box.nodes}
    box_of[len(graph.boxes) - 1] = len(found.boxes) - 1  # the output has no operator
    assert len(box_of) == len(graph.boxes)
    pairs = {(box_of[edge.source], box_of[edge.target]) for edge in graph.edges}
    assert {(edge.source, edge.target) for edge in found.edges} == {
        (a, b) for a, b in pairs if a != b
    }
    assert len(found.edges) == len({(edge.source, edge.target) for edge in found.edges})


def test_what_is_dear_stands_alone_and_small_neighbours_share_a_box():
    found = folded(chain(1e-6, 2e-6, 1e-3, 3e-6, 1e-6, 2e-3), 4)
    assert held(found) == [(0, 1), (2,), (3, 4), (5,)]
    assert [box.seconds for box in found.boxes[:-1]] == pytest.approx([3e-6, 1e-3, 4e-6, 2e-3])


def test_times_that_nobody_knows_are_folded_evenly():
    found = folded(chain(*[None] * 8), 2)
    assert held(found) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert [box.time for box in found.boxes[:2]] == ["not measured"] * 2
    [half, _] = folded(chain(None, 1e-3), 1).boxes
    assert (half.time, half.count) == ("1 ms", "1 of 2 parts measured")


def test_a_box_of_one_backend_is_its_and_one_of_several_tells_what_each_has():
    found = folded(chain(1e-3, 2e-3, 5e-3, 9e-1, backends="alpha beta alpha alpha"), 2)
    [several, alone] = found.boxes[:2]
    assert isinstance(several, Fold) and several.backend == "" and not isinstance(alone, Fold)
    assert {name: len(of) for name, of in several.by_backend().items()} == {"alpha": 2, "beta": 1}
    assert list(several.by_backend()) == ["alpha", "beta"], "the one with the most time first"
    assert folded(chain(1.0, 2.0), 1).boxes[0].backend == "alpha"


def test_few_boxes_stay_as_they_are_and_many_inputs_do_not():
    graph = graph_of([1e-3] * 3, [(0, 1), (1, 2)], inputs=7)
    assert folded(graph, 10) is graph
    found = folded(graph, 9)
    assert Counter(box.label for box in found.boxes if box.kind == "input")["2 inputs"] == 1
    assert held(found) == held(graph)


def test_a_picture_of_a_large_net_has_few_boxes_unless_all_are_asked_for():
    report = made(40)
    picture, whole = Picture(report), Picture(report, boxes=0)
    assert len(picture.graph.boxes) == 22 and len(whole.graph.boxes) == 126
    assert picture.graph.seconds == pytest.approx(whole.graph.seconds)
    assert picture.legend == whole.legend
    assert picture.remarks[0].startswith("124 parts in 20 boxes") and whole.remarks == []


def test_a_box_of_several_parts_says_what_is_in_it():
    report = made(40)
    folds = [box for box in Picture(report).graph.boxes if isinstance(box, Fold)]
    shown = list(ElementTree.fromstring(to_svg(Picture(report))).iter(f"{SPACE}text"))
    # Of a text that is cut, the whole stands in its title.
    found = [text[0].text if len(text) else text.text for text in shown]
    assert any(not box.backend for box in folds)
    for box in folds:
        if box.backend:
            assert any(words.startswith(f"{len(box.boxes)} parts, ") for words in found)
        else:
            assert f"{len(box.boxes)} parts" in found
            for name, of in box.by_backend().items():
                assert any(words.startswith(f"{len(of)} on {name}: ") for words in found)
        assert box.label in found and box.time in found
    if has_reportlab():
        assert to_pdf(Picture(report)).startswith(b"%PDF-")


def test_name_time_and_operators_of_several_parts_stand_whole_and_apart():
    """Where some were not measured and what was has all notes that there are."""
    report = made_report(40)
    parts = report["placements"]["functions"][0]["parts"]
    for k, part in enumerate(parts):
        part["backend"] = "onnxruntime"
        part["cost"] |= {"flags": ["busy", "noisy"]} if k % 3 else {"seconds": None}
    report["functions"][0]["graph"]["costed"] = []
    picture = Picture(record(report))
    shown = list(ElementTree.fromstring(to_svg(picture)).iter(f"{SPACE}text"))
    found = [text.text for text in shown]
    assert not any(len(text) for text in shown), "cut"
    for k, box in enumerate(picture.graph.boxes):
        if isinstance(box, Fold):
            assert box.label in found and box.time.endswith(" (noisy, busy)")
            assert any(words.startswith(f"{box.count}, ") for words in found)
            words = box.backend + box.time
            assert text_width(words, 12, is_bold=True) + 28 < picture.layout.widths[k]
    assert any(" of " in box.count for box in picture.graph.boxes if isinstance(box, Fold))


def has_reportlab():
    return importlib.util.find_spec("reportlab") is not None
