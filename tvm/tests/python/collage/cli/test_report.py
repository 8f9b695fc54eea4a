# SPDX-License-Identifier: Apache-2.0
"""`collage report`."""

import json

import pytest
from tvm.relay.collage.cli import main

REPORT = {
    "plan": "dnnl",
    "summary": "plan dnnl",
    "host": "llvm",
    "plans": [],
    "placement": [
        {"backend": "dnnl", "label": "part", "what": "", "parts": 1, "operators": 3, "ops": "add"}
    ],
    "functions": [],
    "guard_skipped": "if is [not] supported",
    "unverified": "",
    "graph_search": None,
    "kernels": [],
    "costs": {},
    "seconds": {"prepare": 1.5},
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(REPORT))
    return path


def test_a_report_is_three_lines_and_tables_on_demand(file, capsys):
    assert main(["report", str(file)]) == 0
    short = capsys.readouterr().out
    assert short.splitlines()[:2] == [
        "Plan dnnl ships: operators 3 on dnnl.",
        "How fast it is was not measured: if is [not] supported.",
    ]
    assert len(short.splitlines()) == 3
    assert main(["report", str(file), "--details"]) == 0
    long = capsys.readouterr().out
    assert long.startswith(short) and "What ships" in long and "prepare 1.5 s" in long
    assert main(["report", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ships"] == short.splitlines()[0]


@pytest.mark.parametrize("text", ["{", "[]", '{"plan": "dnnl"}', "\x00"])
def test_another_file_is_refused_by_name(text, tmp_path, capsys):
    path = tmp_path / "other.json"
    path.write_text(text)
    assert main(["report", str(path)]) == 1
    error = capsys.readouterr().err
    assert "other.json is no report" in error and "option report" in error
    assert main(["report", str(tmp_path / "absent")]) == 1
    assert "absent" in capsys.readouterr().err
