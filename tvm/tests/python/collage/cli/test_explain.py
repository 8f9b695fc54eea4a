# SPDX-License-Identifier: Apache-2.0
"""`collage explain`, and where it finds reports: in files, libraries, beside placements."""

import json
import shutil

import pytest
from cli_nets import QUICK, call, with_made_up_costs, write_net
from tvm.relay.collage import CollageError, load
from tvm.relay.collage.cli.decisions import placement_in
from tvm.relay.collage.report import explain_lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("explain")
    write_net(path / "net.onnx")
    files = ("--save-placement", path / "placement.json", "--report", path / "report.json")
    with pytest.MonkeyPatch.context() as monkeypatch:
        with_made_up_costs(monkeypatch)
        assert call("compile", path / "net.onnx", "-o", path / "net.so", *files, *QUICK) == 0
    return path


@pytest.mark.parametrize("name", ["net.so", "report.json", "placement.json"])
def test_a_node_is_explained_from_any_of_the_files(folder, capsys, name):
    assert call("explain", folder / name, "--op", "cos") == 0
    out = capsys.readouterr().out
    assert "cos1: cos float32[1, 4, 8, 8]" in out and "  tvm runs it: " in out
    assert "  dnnl: no pattern: the backend has no pattern for it here" in out


def test_a_library_is_copied_with_its_reasons(folder, tmp_path, capsys):
    shutil.copy(folder / "net.so", tmp_path / "other.so")
    assert call("explain", tmp_path / "other.so", "--backend", "dnnl", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["backend"] for node in told["nodes"] for row in node["backends"]} == {"dnnl"}
    assert call("explain", tmp_path / "other.so", "--plan", "tvm") == 0
    assert "Parts of plan tvm" in capsys.readouterr().out


def test_all_parts_are_an_option(folder, capsys, monkeypatch):
    monkeypatch.setattr(explain_lines, "MOST_TOLD", 1)
    assert call("explain", folder / "net.so") == 0
    assert "2 other parts" in capsys.readouterr().out
    assert call("explain", folder / "net.so", "--all") == 0
    assert "other parts" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["net.so", "report.json"])
def test_report_shows_a_library_too(folder, capsys, name):
    assert call("report", folder / name) == 0
    assert capsys.readouterr().out.startswith("Plan collage ships")


def test_a_placement_without_its_report_says_what_is_missing(folder, tmp_path, capsys):
    shutil.copy(folder / "placement.json", tmp_path)
    assert call("explain", tmp_path / "placement.json") == 1
    err = capsys.readouterr().err
    assert "placement.json.report is not there" in err and err.count("\n") == 1


def test_a_library_without_a_report_says_how_to_write_one(folder, tmp_path, capsys):
    whole = (folder / "net.so").read_bytes()
    (tmp_path / "bare.so").write_bytes(whole[:-9])
    assert call("explain", tmp_path / "bare.so") == 1
    assert "carries no report: write it by `collage compile`" in capsys.readouterr().err
    (tmp_path / "cut.so").write_bytes(whole[:1000])
    assert call("explain", tmp_path / "cut.so") != 0
    err = capsys.readouterr().err
    assert "cut.so is cut off: its last " in err and err.count("\n") == 1
    with pytest.raises(CollageError, match="cut.so is cut off"):
        load(tmp_path / "cut.so")
    (tmp_path / "damaged.so").write_bytes(whole[:-200] + b"\0" * 100 + whole[-100:])
    assert call("explain", tmp_path / "damaged.so") == 1
    assert "is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["explain", "report"])
def test_an_older_version_s_report_says_what_to_do_and_is_replayed(
    folder, tmp_path, capsys, command
):
    report = json.loads((folder / "report.json").read_text())
    report["plans"] = [{"name": "tvm"}]
    old, placement = tmp_path / "old.json", tmp_path / "placement.json"
    old.write_text(json.dumps(report))
    shutil.copy(folder / "placement.json", placement)
    shutil.copy(old, f"{placement}.report")
    for path, named in ((old, old), (placement, f"{placement}.report")):
        assert call(command, path) == 1
        assert capsys.readouterr().err == (
            f"collage: {named} was written by an older version of tvm-collage (its plans lack "
            "ratio_to_chosen): compile again\n"
        )
    assert placement_in(old) == placement_in(folder / "report.json")


@pytest.mark.parametrize("command", ["explain", "report"])
def test_a_file_that_is_none_is_said_as_of_a_model(tmp_path, capsys, command):
    for path, reason in ((tmp_path / "no.so", "there is no such file"), (tmp_path, "it is a f")):
        assert call(command, path) == 1
        err = capsys.readouterr().err
        assert err.startswith(f"collage: {path} cannot be read: {reason}") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--node", "999"), "no node 999: the graph's nodes are 0 to "),
        (("--node", "-1"), "no node -1: the graph's nodes are 0 to "),
        (("--op", "nope"), "no node is nope"),
        (("--backend", "nope"), "no backend 'nope'"),
        (("--plan", "nope"), "no plan 'nope'"),
        (("--node", "0"), "node 0 is an input, no call; the nearest calls are "),
    ],
)
def test_what_is_not_there_is_one_line(folder, capsys, arguments, says):
    assert call("explain", folder / "net.so", *arguments) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1
