# SPDX-License-Identifier: Apache-2.0
"""The page as text: whole, without the network, and nobody's names are markup in it."""

import json
import re
from pathlib import Path

import pytest
from made_precisions import told
from made_reports import made, made_report, record
from tvm.relay.collage.files.records import to_json
from tvm.relay.collage.report import html
from tvm.relay.collage.report.html import to_html


def data_of(page):
    [line] = re.findall(r"^const DATA = (.*);$", page, re.MULTILINE)
    return json.loads(line)


def report_of(page):
    [text] = re.findall(r'<script type="application/json" id="report">(.*)</script>', page)
    return json.loads(text)


def test_all_that_the_page_names_is_in_it():
    page = to_html(made(1))
    assert not re.search(r"/\* (data|report) \*/", page) and not re.search(
        r"/\* \w+\.(js|css) \*/", page
    )
    folder = Path(html.__file__).parent
    for path in [*folder.glob("*.js"), *folder.glob("*.css")]:
        assert path.read_text() in page, f"page.html does not name {path.name}"


def test_ratios_are_of_whole_plans_and_parts_are_compared_as_times():
    for script in ("details.js", "charts.js"):
        words = (Path(html.__file__).parent / script).read_text()
        assert "times as long" not in words and "times the fastest" not in words


def test_it_asks_nothing_of_the_network():
    page = to_html(made(1))
    addresses = set(re.findall(r"https?://[^\s\"']+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which nobody fetches
    assert "default-src 'none'" in page
    assert not re.search(r"<(link|img|script|iframe)[^>]+(src|href)=", page)


def test_data_is_the_report_with_places():
    report = made_report(1)
    page = to_html(record(report))
    assert report_of(page) == json.loads(json.dumps(record(report).to_json()))
    data = data_of(page)
    assert data["head"][0].startswith("Plan collage ships")
    assert "Click a part" in data["head"][2]
    assert list(data["functions"][0]["plans"]) == ["collage", "alpha", "beta", "tvm"]
    assert set(data["looks"]) == {"tvm", "alpha", "beta", "gamma"}


@pytest.mark.parametrize(
    "text", ["</script><script>alert(1)</script>", "\u2028 /* data */ /* report */"]
)
def test_a_name_ends_no_script(text):
    report = made_report(1)
    report["functions"][0]["graph"]["nodes"][2]["name"] = text
    page = to_html(record(report))
    assert page.count("</script>") == 2
    assert report_of(page)["functions"][0]["graph"]["nodes"][2]["name"] == text


def test_a_report_without_a_search_is_a_page_too():
    empty = {"functions": [], "plans": []}
    data = data_of(to_html(made(1, functions=[], placements=empty, plans=[])))
    assert data["functions"] == []


def test_plans_stand_the_fastest_first_with_what_is_doubtful():
    report = made_report(1)
    report["costs"]["busy"] = 3
    report["plans"][0]["flags"] = ["busy"]
    report["plans"][1]["is_dependent"] = True
    report["plans"][2]["ratio_to_best_single"] = {"value": 0.9, "low": 0.0, "high": None}
    data = data_of(to_html(record(report)))
    assert data["head"][2].startswith("Doubtful: 3 costs")
    [ships, alpha, beta, tvm, gamma] = data["plans"]
    assert [row["name"] for row in data["plans"]] == ["collage", "alpha", "beta", "tvm", "gamma"]
    assert ships["note"] == " (busy)" == data["tiles"][0]["note"] and ships["is_chosen"]
    assert "depend on those before" in alpha["remarks"] and beta["speed"] == "0.90×"
    assert tvm["bar"][2] == 1.0 and tvm["tags"] == ["one backend"] and tvm["memory"] == "52 MB"
    assert gamma["failed"] == "crashed: signal 11 <in> gamma's code" and "bar" not in gamma


def test_gains_that_are_none_or_not_sure_are_said():
    report = made_report(1)
    few = {"value": 1.2, "low": 0.0, "high": None}
    for ratio, below in ((few, "too few rounds to be sure"), (None, ""), ({**few, "low": 1.0}, "")):
        report["plans"][0]["ratio_to_best_single"] = ratio and dict(ratio)
        if ratio and ratio["low"]:
            report["plans"][0]["ratio_to_best_single"] = dict.fromkeys(("value", "low", "high"), 1)
        told = [row["below"] for row in data_of(to_html(record(report)))["tiles"][1:]]
        assert told == ([below] if below else [])


def test_blocks_tell_what_the_tables_of_a_terminal_tell():
    report = made_report(1)
    report["functions"][0]["is_optimal"] = False
    data = data_of(to_html(record(report)))
    search, spent, tried, costs, steps = data["search"]
    assert "over 17 nodes. A limit ended the search" in search["texts"][0]
    assert search["figures"][1] == "Limit that cut: rule combine: limit max_depth cut 3"
    assert spent["rows"][1] == ["partition", "12.5"] and ["crashed", "1"] in costs["rows"]
    assert tried["history"] and tried["texts"][0].startswith(
        "evolutionary, 12 genes, 30 plans, 3 f"
    )
    assert steps["rows"] == [
        [{"backend": "alpha"}, "nn.conv2d 3x3, 64 to 64", "winograd", "jit 31 us, winograd 24 us"]
    ]
    failed, unplaced = data["reasons"]
    assert failed["rows"][0][2:] == ["2", "crashed", "signal 11"]
    assert unplaced["rows"][0][3].startswith("slower: 8 us there, 3 us here")
    environment = dict(map(tuple, data["environment"]))
    assert environment["alpha"] == "3.2" and environment["schedules"] == "12 transferred"


def test_what_was_not_searched_says_why():
    report = made_report(1, costs={}, seconds={}, kernels=[], graph_search=None)
    report["functions"][0].update(skipped="it is recursive", failures=[], unplaced=[])
    data = data_of(to_html(record(report)))
    assert [row["texts"] for row in data["search"]] == [
        ["@main was left as it was: it is recursive"]
    ]
    assert data["reasons"][0]["texts"][0].startswith("Nothing failed")


def test_precisions_are_a_section_of_their_own():
    assert data_of(to_html(made(1)))["precision"] == []
    data = data_of(to_html(made(1, precision=to_json(told()))))
    first, layers = data["precision"]
    assert first["front"] and first["texts"][0].startswith("Precision mixed ships")
    columns = ["layer", "operator", "precision", ">int8 saves", ">error in int8"]
    assert layers["columns"] == [*columns, ">bfloat16 saves", ">error in bfloat16"]
    assert layers["rows"] == [
        ["a", "Conv", "int8", "40 us", "0.10%", "", ""],
        ["b", "Conv", "float32", "20 us", "1.00%", "−10 us", "0.10%"],
        ["c", "Gemm", "float32", "not known", "0.50%", "", ""],
    ]


def test_a_choice_without_layers_is_told_all_the_same():
    data = data_of(to_html(made(1, precision=to_json(told(layers=())))))
    assert len(data["precision"]) == 1
