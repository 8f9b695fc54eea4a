# SPDX-License-Identifier: Apache-2.0
"""The page as text: whole, without the network, and nobody's names are markup in it."""

import json
import re
from pathlib import Path

import pytest
from made_reports import made, made_report, record
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


def test_what_is_doubtful_is_what_to_do_next():
    report = made_report(1)
    report["costs"]["busy"] = 3
    assert data_of(to_html(record(report)))["head"][2].startswith("Doubtful: 3 costs")


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
