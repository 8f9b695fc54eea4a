# SPDX-License-Identifier: Apache-2.0
"""bench/comparison.py: ratios from records, and whether the pages have today's tables."""

import json

import comparison
import pytest
from harness.tables import with_part
from tree import ROOT


def row(name, ratio, is_peer):
    return {"name": name, "ratio": ratio, "is_peer": is_peer, "noisy": False}


def one(ours=(1.2, 1.1, 1.3), onnxruntime=(0.8, 0.7, 0.9), depth="seconds"):
    """A record: OpenVINO is the fastest peer, onnxruntime takes 1 / 0.8 of its time."""
    return {
        "net": "resnet18", "size": 224, "batch": 1, "depth": depth, "date": "2026-11-24",
        "conditions": {"machine": {"cpu": "A CPU"}, "threads": 2},
        "rows": [
            row("dnnl alone", list(ours), False),
            row("openvino alone", [0.9, 0.8, 1.0], False),
            row("openvino", [1.0, 1.0, 1.0], True),
            row("onnxruntime", onnxruntime and list(onnxruntime), True),
        ],
    }  # fmt: skip


def test_a_ratio_is_the_librarys_time_over_that_of_our_fastest_backend():
    assert comparison.ratios_of(one()) == pytest.approx(
        {"onnxruntime": 1.5, "openvino": 1.2, "the faster of the two": 1.2}
    )


@pytest.mark.parametrize(
    "record",
    [
        one(ours=(1.2, 1.1, None)),
        one(onnxruntime=(0.8, 0.7, None)),
        one(onnxruntime=None),
        one(depth="minutes"),
        one() | {"rows": []},
    ],
    ids=["ours has no end", "theirs has no end", "theirs failed", "what ships", "it failed"],
)
def test_what_is_not_known_counts_nowhere(record):
    assert comparison.ratios_of(record) == {}
    known = comparison.comparison([one()])
    assert "| **all** | 1 |" in known
    both = comparison.comparison([one(), record])
    assert "| **all** | 1 |" in both and "1 have no ratio" in both


@pytest.mark.parametrize("page", comparison.PAGES)
def test_the_page_has_the_tables_of_the_records(page):
    found = list(comparison.records.load(comparison.RECORDS, comparison.record.KEY).values())
    part = getattr(comparison, comparison.PAGES[page])(found)
    text = (ROOT / page).read_text()
    marks = comparison.BEGIN, comparison.END
    assert text == with_part(text, *marks, part), "python bench/comparison.py --write"


def test_no_records_are_one_line(tmp_path, capsys):
    file = tmp_path / "none.jsonl"
    assert comparison.main(["--record", str(file)]) == 1
    assert capsys.readouterr().err.startswith("comparison: there are no records")
    file.write_text(json.dumps(one()) + "\n")
    assert comparison.main(["--record", str(file)]) == 0
