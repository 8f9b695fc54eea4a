# SPDX-License-Identifier: Apache-2.0
"""The picture of a search of whole plans, and what is said where it cannot be drawn."""

import sys

import pytest
from tvm.relay.collage.costs.cost import Cost
from tvm.relay.collage.files.records import read
from tvm.relay.collage.plans.graph_search.search import GraphSearch, PlanTrial
from tvm.relay.collage.report import PlanSearch, plot_history

TRIALS = (
    PlanTrial("trial-1", "a", "2 dnnl", Cost.given(2e-3), 1.0, 2e-3, False),
    PlanTrial("trial-2", "b", "1 dnnl", Cost.failed("crashed", "signal 11"), 1.5, 2e-3, False),
    PlanTrial("trial-3", "c", "tvm", Cost.given(1e-3), 2.0, 1e-3, True),
)
SEARCH = read(PlanSearch, GraphSearch("local", 3, TRIALS, 2e-3, "all trials were made").to_json())


def test_a_search_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    plot_history(SEARCH, tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert text.count('<g id="axes_') == 2 and len(text) > 1000


def test_without_matplotlib_it_is_said_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plot_history(SEARCH, tmp_path / "plot.png")
