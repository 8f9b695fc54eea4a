# SPDX-License-Identifier: Apache-2.0
"""What a notebook's cell shows of a result, and keeps in the notebook's file."""

import base64
import html
import re

import pytest
from made_reports import made
from tvm.relay.collage.report import head_lines, notebook_html
from tvm.relay.collage.report.picture import Picture, to_svg

MOST_BYTES = 150_000


@pytest.mark.parametrize("blocks", [1, 60])
def test_the_lines_and_the_picture_stand_in_a_small_output_without_scripts(blocks):
    report = made(blocks)
    shown = notebook_html(report)
    assert len(shown) <= MOST_BYTES and "<script" not in shown and "<iframe" not in shown
    assert all(html.escape(line) in shown for line in head_lines(report)[:2])
    assert "save_html(&quot;report.html&quot;) writes the page" in shown
    pictures = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', shown)
    assert [base64.b64decode(each).decode() for each in pictures] == [to_svg(Picture(report))]


def test_doubtful_figures_say_so():
    assert "Doubtful: 3 costs" in notebook_html(made(1, costs={"busy": 3}))
    assert "Doubtful" not in notebook_html(made(1))


def test_a_net_that_was_not_searched_has_the_lines_and_says_why():
    report = made(1, functions=[])
    shown = notebook_html(report)
    assert "<img" not in shown and "there is nothing to draw" in shown
    assert html.escape(head_lines(report)[0]) in shown
