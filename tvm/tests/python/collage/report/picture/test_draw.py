# SPDX-License-Identifier: Apache-2.0
"""Pictures of plans as SVG and PDF."""

import itertools
import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from made_precisions import ALPHA_TRADES
from made_reports import made, made_report, record
from tree import ROOT
from tvm.relay.collage.backends import declared_colours
from tvm.relay.collage.errors import CollageError
from tvm.relay.collage.report.looks import looks_of, mixed, precision_look
from tvm.relay.collage.report.picture import Picture, to_pdf, to_svg
from tvm.relay.collage.report.picture.draw import text_width

SPACE = "{http://www.w3.org/2000/svg}"


def texts(svg):
    root = ElementTree.fromstring(svg)
    return [element.text for element in root.iter(f"{SPACE}text")]


def test_a_picture_says_plan_backends_times_operators_and_shapes():
    report = made_report(2)
    found = texts(to_svg(Picture(record(report))))
    assert found[0].startswith("Plan collage: ") and found[0].endswith("a run, which ships")
    for words in ("alpha", "conv2d", "bias_add", "1x64x56x56", "data", "output"):
        assert words in found
    assert sum(words.endswith("of the parts' time") for words in found) == 10
    other = texts(to_svg(Picture(record(report), "beta")))
    assert other[0].startswith("Plan beta: ") and "alpha" not in other
    assert "which ships" not in other[0]


def test_fewer_bits_are_a_strip_at_the_right_and_stand_in_the_legend():
    report = made(2, trades=ALPHA_TRADES)
    drawn = to_svg(Picture(report))
    found = texts(drawn)
    boxes = [box for box in Picture(report).graph.boxes if box.backend == "alpha"]
    assert drawn.count(precision_look("bfloat16").colour) == len(boxes) + 1
    assert sum(words.startswith("bfloat16, ") for words in found) == len(boxes)
    assert [words for words in found if words.startswith("bfloat16: ")]
    assert precision_look("bfloat16").colour not in to_svg(Picture(made(2)))


def test_the_picture_in_the_docs_is_what_is_drawn():
    """Else: python tvm/tests/python/support/made_reports.py > made.json, then collage report
    made.json --svg docs/pictures/placed_graph.svg."""
    report = made(colours=declared_colours())
    assert (ROOT / "docs/pictures/placed_graph.svg").read_text() == to_svg(Picture(report))


def test_notes_of_a_time_give_way_to_the_backend_s_name():
    report = made_report(2)
    for part in report["placements"]["functions"][0]["parts"]:
        part["cost"]["flags"] = ["noisy", "busy", "unverified"]
    picture = Picture(record(report))
    found = texts(to_svg(picture))
    boxes = [box for box in picture.graph.boxes if box.flags]
    assert boxes and all(found.count(box.backend) >= 1 for box in boxes)
    assert sum(" us (noisy, busy, unverified)" in words for words in found) >= len(boxes)
    for part in report["placements"]["functions"][0]["parts"]:
        part["backend"] = "a_backend_of_a_name_that_is_too_long_for_notes"
    narrow = texts(to_svg(Picture(record(report))))
    assert sum(words.endswith(" us") for words in narrow) >= len(boxes)
    assert narrow.count("a_backend_of_a_name_that_is_too_long_for_notes") >= len(boxes)


def test_the_title_is_whole_and_on_the_page():
    report = made_report(1)
    row = next(row for row in report["plans"] if row["name"] == report["plan"])
    row["flags"] = ["busy", "noisy", "estimated"]
    picture = Picture(record(report))
    assert picture.title.endswith(" (estimated, noisy, busy) a run, which ships")
    assert texts(to_svg(picture))[0] == picture.title
    assert text_width(picture.title, 17, is_bold=True) + 28 < picture.width


def test_operators_that_are_left_out_are_counted_and_not_their_rows():
    report = made_report(8, has_region=True)
    for k, node in enumerate(report["functions"][0]["graph"]["nodes"]):
        node.update(type="", **({"op": f"op{k // 12}"} if node["op"] else {}))
    [picture] = [Picture(record(report), "alpha", boxes=0)]
    rows = [words for words in texts(to_svg(picture)) if re.match(r"op\d+ x|and \d+ more", words)]
    assert len(rows) == 6 and rows[-1] == f"and {60 - counted(rows[:-1])} more operators"


def counted(rows):
    """The operators of rows such as "op1 x3"."""
    return sum(int(words.split(" x")[1]) for words in rows)


def test_the_concept_s_picture_has_the_colours_of_reports():
    words = (ROOT / "docs/pictures/concept.svg").read_text()
    looks = looks_of(["dnnl", "openvino"], declared_colours())
    for name, look in looks.items():
        assert re.search(rf"\.{name} {{ fill: {mixed(look.colour, 0.45)}; ", words), name


def test_a_legend_counts_what_its_time_is_of_and_no_share_is_nothing():
    report = made_report(2)
    parts = report["placements"]["functions"][0]["parts"]
    first = next(part for part in parts if part["backend"] == "alpha" and part["cost"]["seconds"])
    first["cost"]["seconds"] = None
    report["functions"][0]["graph"]["costed"] = []
    assert any(" us for the " in words for words in texts(to_svg(Picture(record(report)))))


def test_the_legend_and_remarks_stay_on_the_page():
    report = made_report(1)
    for row, part in enumerate(report["placements"]["functions"][0]["parts"]):
        part["backend"] = f"backend{row % 9}"
    report["plans"][0]["seconds"] *= 5
    picture = Picture(record(report))
    assert len(picture.legend) > 1 and len(picture.remarks) > 1
    root = ElementTree.fromstring(to_svg(picture))
    shown = {e.text: e for e in root.iter(f"{SPACE}text")}
    for _, words in itertools.chain(*picture.legend):
        assert float(shown[words].get("x")) + 6 * len(words) < picture.width
    assert all(line in shown and len(shown[line]) == 0 for line in picture.remarks), "cut"


def test_the_page_is_as_wide_as_the_longest_entry_of_the_legend():
    report = made_report(1)
    report["functions"][0]["graph"]["costed"] = []
    parts = report["placements"]["functions"][0]["parts"]
    for part in parts:
        part["backend"] = "a_backend_with_a_long_name"
        part["cost"]["flags"] = ["estimated", "noisy", "busy", "unverified"]
    parts[0]["cost"]["seconds"] = None
    picture = Picture(record(report))
    [[(_, words)]] = picture.legend
    root = ElementTree.fromstring(to_svg(picture))
    [entry] = [each for each in root.iter(f"{SPACE}text") if each.text == words]
    assert float(entry.get("x")) + 6 * len(words) < picture.width


def test_boxes_lie_on_the_page_and_on_nothing_else():
    picture = Picture(made(4))
    boxes = range(len(picture.graph.boxes))
    for layer in picture.layout.layers:
        for k in layer:
            assert picture.tops[k] > 0 and picture.bottoms[k] < picture.height
    areas = sorted((picture.tops[k], picture.tops[k] + picture.heights[k]) for k in boxes)
    tall = {}
    for top, bottom in areas:
        tall[top] = max(bottom, tall.get(top, 0))
    rows = sorted(tall.items())
    assert all(rows[k][1] < rows[k + 1][0] for k in range(len(rows) - 1))


def test_names_are_text_and_long_ones_are_cut_with_the_whole_beside():
    report = made_report(1)
    node = report["functions"][0]["graph"]["nodes"][0]
    node["name"] = 'a<b>&"c" which is far too long for its box'
    root = ElementTree.fromstring(to_svg(Picture(record(report))))
    [cut] = [e for e in root.iter(f"{SPACE}text") if (e.text or "").startswith("a<b>")]
    assert cut.text.endswith("…") and cut[0].text == node["name"]


def test_a_pdf_has_one_page_with_the_same_texts():
    pytest.importorskip("reportlab")
    found = to_pdf(Picture(made(2)))
    assert found.startswith(b"%PDF-") and found.count(b"/Type /Page\n") == 1
    assert to_pdf(Picture(made(2))) == found, "the same report gives another file"


def test_a_net_of_many_layers_fits_the_largest_page():
    pytest.importorskip("reportlab")
    picture = Picture(made(1))
    picture.height = 20000.0
    found = to_pdf(picture)
    box = found.split(b"/MediaBox [ ")[1].split(b"]")[0].split()
    assert max(map(float, box)) <= 14400


def test_without_reportlab_it_is_said_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "reportlab.pdfgen.canvas", None)
    with pytest.raises(CollageError, match=r"tvm-collage\[pdf\]"):
        to_pdf(Picture(made(1)))
