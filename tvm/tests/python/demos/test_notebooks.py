# SPDX-License-Identifier: Apache-2.0
"""The demos that are scripts and notebooks alike: each runs as a notebook to its end, quickly, and
draws its pictures; their text is for readers."""

import os
import re

import jupytext
import nbclient
import pytest
from tree import ROOT

NAMES = ["performance", "customization", "precision", "autotune"]


def notebook_of(name):
    return jupytext.read(ROOT / f"demos/{name}.py")


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_begins_with_a_title_and_each_step_is_explained(name):
    cells = notebook_of(name).cells
    kinds = [cell.cell_type for cell in cells]
    first = next(cell for cell in cells if cell.cell_type == "markdown")
    assert first.source.startswith("# ") and kinds.count("markdown") >= 3
    assert all(cell.source.strip() for cell in cells)


def run(name, folder):
    """Everything that the notebook's cells print."""
    notebook = notebook_of(name)
    variables = {"COLLAGE_DEMO_QUICK": "1", "COLLAGE_DEMO_OUTPUT": str(folder)}
    variables["PYTHONPATH"] = str(ROOT / "demos")
    client = nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3")
    client.execute(env={**os.environ, **variables})
    outputs = [each for cell in notebook.cells for each in cell.get("outputs", [])]
    return "".join(each.get("text", "") for each in outputs)


def lines_beside(first, text):
    """How many lines compare something with `first`, after however few rounds."""
    return len(
        re.findall(
            rf" x {first}(?: \(too few rounds to be sure\))?(?: \(undecided\))?, ships", text
        )
    )


@pytest.mark.slow("a real net searched, built and timed for three lists of backends")
@pytest.mark.timeout(900)
def test_one_backend_more_at_a_time(tmp_path):
    text = run("performance", tmp_path)
    assert "Magika" in text and lines_beside("tvm", text) == 4
    pictures = sorted(tmp_path.glob("*.svg"))
    assert len(pictures) == 3 and pictures[-1].name == "magika-3-with-the-guard.svg"
    assert all(each.stat().st_size > 1000 for each in pictures)


@pytest.mark.slow("a real net searched three times")
@pytest.mark.timeout(900)
def test_a_backend_of_one_s_own(tmp_path):
    text = run("customization", tmp_path)
    assert "[custom.look_up] by custom.look_up" in text and "[custom.chain]" in text
    assert lines_beside("without", text) == 3
    assert (tmp_path / "customization.svg").stat().st_size > 1000


@pytest.mark.slow("a real net placed in several precisions")
@pytest.mark.timeout(900)
def test_fewer_bits(tmp_path):
    text = run("precision", tmp_path)
    assert re.search(r"^Precision \S.* ships", text, re.MULTILINE)
    answers = [line.split()[1:] for line in text.splitlines() if re.search(r" (0|180) ", line)]
    assert len(answers) == 6 and all(float32 == ships for float32, ships, _ in answers)
    for file in ("precision.svg", "precision.html"):
        assert (tmp_path / file).stat().st_size > 1000


@pytest.mark.slow("a small net searched three times and tuned")
@pytest.mark.timeout(900)
def test_one_net_untuned_transferred_and_tuned(tmp_path):
    text = run("autotune", tmp_path)
    plans = re.findall(r"^(\w+): plan ", text, re.MULTILINE)
    assert plans == ["untuned", "transferred", "tuned"]
    assert "times as fast as untuned" in text and "failed" not in text
    pytest.importorskip("matplotlib", reason="the extra peers is not installed")
    assert (tmp_path / "autotune.png").stat().st_size > 1000
