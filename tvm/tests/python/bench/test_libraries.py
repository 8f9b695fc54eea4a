# SPDX-License-Identifier: Apache-2.0
"""Tables of bench/zoo.py at the depth seconds: ratios from records, and what counts nowhere."""

import pytest
from summaries import libraries


def row(name, ratio, is_peer):
    return {"name": name, "ratio": ratio, "is_peer": is_peer, "noisy": False, "seconds": 1e-3}


def one(ours=(1.2, 1.1, 1.3), onnxruntime=(0.8, 0.7, 0.9)):
    """A record: OpenVINO is the fastest peer, onnxruntime takes 1 / 0.8 of its time."""
    return {
        "net": "resnet18", "size": 224, "batch": 1, "depth": "seconds", "date": "2026-11-24",
        "conditions": {"machine": {"cpu": "A CPU"}, "threads": 2},
        "rows": [
            row("dnnl alone", list(ours), False),
            row("openvino alone", [0.9, 0.8, 1.0], False),
            row("openvino", [1.0, 1.0, 1.0], True),
            row("onnxruntime", onnxruntime and list(onnxruntime), True),
        ],
    }  # fmt: skip


def test_a_ratio_is_the_librarys_time_over_that_of_our_fastest_backend():
    assert libraries.ratios_of(one()) == pytest.approx(
        {"onnxruntime": 1.5, "openvino": 1.2, "the faster of the two": 1.2}
    )


@pytest.mark.parametrize(
    "record",
    [
        one(ours=(1.2, 1.1, None)),
        one(onnxruntime=(0.8, 0.7, None)),
        one(onnxruntime=None),
        one() | {"rows": []},
    ],
    ids=["ours has no end", "theirs has no end", "theirs failed", "it failed"],
)
def test_what_is_not_known_counts_nowhere(record):
    assert libraries.ratios_of(record) == {}
    known = libraries.by_family([one()])
    assert "| **all** | 1 |" in known
    both = libraries.by_family([one(), record])
    assert "| **all** | 1 |" in both and "1 have no ratio" in both


def test_the_summary_is_of_the_newest_machine():
    older = one(ours=(9.0, 8.0, 9.9)) | {"date": "2026-11-22"}
    older["conditions"] = {"machine": {"cpu": "An older CPU"}, "threads": 2}
    text = libraries.summary([older, one(), one(ours=(0.9, 0.8, 1.0)), one() | {"rows": []}])
    assert "| the faster of the two | 2 | 1.04 | 0.90 | 1.20 | 1 |" in text
    assert "Measured on A CPU, 2 threads, on 2026-11-24." in text
    assert "Of the 3 models 1 have no known ratio." in text and "older" not in text
    with pytest.raises(ValueError, match="there are no records"):
        libraries.summary([])


def test_one_line_says_what_was_found():
    failed = row("onnxruntime", None, True)
    failed |= {"seconds": None, "status": "crashed", "message": "signal 11"}
    found = one() | {"rows": [*one()["rows"][:1], failed], "failure": None, "seconds": 9.0}
    said = "dnnl alone 1.20 of the fastest peer's speed; onnxruntime crashed: signal 11; 9 s"
    assert libraries.summary_of(found) == said
    early = {"failure": {"stage": "export", "message": "no torch"}, "seconds": 1.0}
    assert libraries.summary_of(early) == "export no torch; 1 s"
