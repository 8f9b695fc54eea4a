# SPDX-License-Identifier: Apache-2.0
"""`collage report`."""

import json

import pytest
from made_reports import made_report
from tvm.relay.collage import load_placement
from tvm_collage.cli import main
from tvm_collage.words import FORMS

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


@pytest.mark.parametrize(
    "text, kind",
    [
        ("", "an empty file"),
        ("{", "JSON that is cut off"),
        ("[]", "JSON of another kind"),
        ('{"plan": "dnnl"}', "JSON of another kind"),
        ("\x00", "a binary file"),
    ],
)
def test_another_file_is_refused_by_name(text, kind, tmp_path, capsys):
    path = tmp_path / "other.json"
    path.write_text(text)
    assert main(["report", str(path)]) == 1
    error = capsys.readouterr().err
    assert f"other.json seems to be {kind}" in error and "option report" in error
    assert ", and a library, a report or a placement is needed: name a library, rep" in error
    assert main(["report", str(tmp_path / "absent")]) == 1
    assert "absent" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "explain"])
def test_of_a_model_the_command_to_use_is_told(command, tmp_path, capsys):
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x07")
    assert main([command, str(path)]) == 1
    error = capsys.readouterr().err
    assert f"{path} seems to be an ONNX model" in error
    assert f"`collage compile {path} -o LIB.so`" in error


@pytest.fixture
def full(tmp_path):
    path = tmp_path / "full.json"
    path.write_text(json.dumps(made_report(1)))
    return path


def test_all_forms_are_written_at_once(full, tmp_path, capsys):
    paths = {form: tmp_path / f"out.{form}" for form in FORMS}
    wanted = [word for form, path in paths.items() for word in (f"--{form}", str(path))]
    assert main(["report", str(full), *wanted]) == 0
    assert capsys.readouterr().out.splitlines() == [f"wrote {path}" for path in paths.values()]
    assert all(path.stat().st_size > 1000 for path in paths.values())
    assert main(["report", str(full), *wanted[:2], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == {"html": str(paths["html"])}


def test_any_plan_that_was_seen_is_drawn(full, tmp_path, capsys):
    path = tmp_path / "beta.svg"
    wanted = ["--svg", str(path), "--plan", "beta", "--function", "main"]
    assert main(["report", str(full), *wanted]) == 0
    assert "Plan beta" in path.read_text()


def test_any_plan_that_was_seen_is_saved_for_replay(full, tmp_path, capsys):
    path = tmp_path / "beta.json"
    assert main(["report", str(full), "--save-placement", str(path), "--plan", "beta"]) == 0
    assert capsys.readouterr().out == f"wrote {path}\n"
    assert load_placement(path).plan == "beta"
    # Its report lies beside it, so that it is drawn like any decision.
    assert main(["report", str(path), "--svg", str(tmp_path / "beta.svg")]) == 0
    assert "Plan beta" in (tmp_path / "beta.svg").read_text()
    assert main(["report", str(full), "--save-placement", str(full)]) == 2
    assert "would replace what is read" in capsys.readouterr().err
    assert main(["report", str(full), "--save-placement", str(path), "--plan", "gamma"]) == 2
    assert load_placement(path).plan == "beta"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plan", "gamma"], "no plan 'gamma' to draw: it has collage, alpha, beta, tvm"),
        (["--function", "f"], "no function 'f' to draw: it has main"),
    ],
)
@pytest.mark.parametrize("form", ["html", "svg"])
def test_names_that_are_not_there_are_refused(form, arguments, message, full, tmp_path, capsys):
    path = tmp_path / "out"
    assert main(["report", str(full), f"--{form}", str(path), *arguments]) == 2
    assert message in capsys.readouterr().err and not path.exists()


def test_a_picture_has_so_many_boxes(full, tmp_path, capsys):
    path = tmp_path / "net.svg"
    for boxes, is_folded in (([], False), (["--boxes", "0"], False), (["--boxes", "2"], True)):
        assert main(["report", str(full), "--svg", str(path), *boxes]) == 0
        assert ("parts in 2 boxes" in path.read_text()) == is_folded


def test_an_older_report_has_no_graph(file, tmp_path, capsys):
    assert main(["report", str(file), "--html", str(tmp_path / "out.html")]) == 1
    error = capsys.readouterr().err
    assert "report.json: it was written by an older version" in error
    assert main(["report", str(file), "--svg", str(tmp_path / "x"), "--json"]) == 1
    assert "older version" in json.loads(capsys.readouterr().out)["error"]


def test_a_folder_that_is_not_there_is_named(full, tmp_path, capsys):
    written = ["--html", str(tmp_path / "page.html"), "--svg", str(tmp_path / "absent" / "net.svg")]
    assert main(["report", str(full), *written]) == 2
    assert "collage: --svg: '" in (err := capsys.readouterr().err) and err.count("\n") == 1
    assert not (tmp_path / "page.html").exists(), "nothing is begun"
