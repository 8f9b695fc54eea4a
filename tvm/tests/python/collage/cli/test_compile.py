# SPDX-License-Identifier: Apache-2.0
"""`collage compile`, `search`, `replay`: from an ONNX file to a library; costs are made up."""

import argparse
import contextlib
import json
import sys
import types

import numpy as np
import pytest
from cli_nets import COMPARED, QUICK, SHAPE, call, with_made_up_costs, write_net
from made_reports import made_report, record
from tvm.relay import collage
from tvm.relay.collage import optimizer, result
from tvm.relay.collage.backends.targets import split_targets
from tvm.relay.collage.cli import building, compile
from tvm.relay.collage.errors import CollageError, ModelError
from tvm_collage.words import Effort


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("compile")
    write_net(path / "net.onnx")
    with pytest.MonkeyPatch.context() as monkeypatch:
        with_made_up_costs(monkeypatch)
        made = []
        real = result.graph_of
        monkeypatch.setattr(result, "graph_of", lambda *of: made.append(of) or real(*of))
        arguments = ("--report", path / "report.json", "--save-placement", path / "placement.json")
        with open(path / "told", "w") as told, contextlib.redirect_stdout(told):
            code = call("compile", path / "net.onnx", "-o", path / "net.so", *arguments, *COMPARED)
    assert code == 0 and len(made) == 1, "to make the report of a large net takes seconds"
    return path


def outputs(library):
    x = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    return collage.load(library).runner()(x=x)


def test_the_library_runs_and_carries_its_report(folder):
    library = collage.load(folder / "net.so")
    assert library.report["plan"] == "collage"
    assert library.report == json.loads((folder / "report.json").read_text())
    (output,) = outputs(folder / "net.so")
    assert output.shape == tuple(SHAPE) and np.isfinite(output).all()


def test_ctrl_c_after_the_first_answer_writes_the_best_library_so_far(
    folder, tmp_path, monkeypatch, capsys, caplog
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(optimizer, "partition", interrupt)
    library = tmp_path / "net.so"
    guarded = [flag for flag in COMPARED if flag != "--no-guard"]
    assert call("compile", folder / "net.onnx", "-o", library, *guarded) == 0
    assert "the compile was interrupted: the best plan so far ships, " in caplog.text
    report = collage.load(library).report
    assert f"Plan {report['plan']} ships" in capsys.readouterr().out
    assert report["plan"] in ("dnnl", "tvm")
    assert report["ended_early"] == "the compile was interrupted" and report["plans"]
    np.testing.assert_allclose(outputs(library)[0], outputs(folder / "net.so")[0], rtol=1e-4)


def test_a_placement_is_replayed_without_measuring(folder, capsys):
    replayed = folder / "again.so"
    made = (folder / "net.onnx", folder / "placement.json", "-o", replayed)
    report = folder / "again.json"
    assert call("replay", *made, "--backends", "dnnl", "--json", "--report", report) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"] == {"report": str(report), "library": str(replayed)}
    assert "was not measured: it was built by a decision" in told["latency"]
    assert collage.load(replayed).report["guard_skipped"].startswith("it was built by a decision")
    np.testing.assert_array_equal(outputs(replayed)[0], outputs(folder / "net.so")[0])


def test_no_placement_is_told_before_the_model_is_imported(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(compile, "optimized", lambda *given: pytest.fail("imported"))
    (tmp_path / "none.json").write_text("{}")
    made = (folder / "net.onnx", tmp_path / "none.json", "-o", tmp_path / "again.so")
    assert call("replay", *made) == 1


@pytest.mark.parametrize("name", ["net.so", "report.json", "placement.json"])
def test_a_replay_carries_what_the_source_told_of_its_search(folder, tmp_path, capsys, name):
    replayed, report = tmp_path / "again.so", tmp_path / "again.json"
    made = (folder / "net.onnx", folder / name, "-o", replayed, "--report", report)
    assert call("replay", *made, "--backends", "dnnl") == 0
    assert f"why: collage explain {replayed}" in capsys.readouterr().out
    assert json.loads(report.read_text()) == collage.load(replayed).report
    told = {}
    for library in (folder / "net.so", replayed):
        assert call("explain", library, "--op", "cos") == 0
        told[library] = capsys.readouterr().out
    assert told[replayed] == told[folder / "net.so"] and "tvm runs it: " in told[replayed]
    assert call("explain", replayed) == 0
    assert f"a decision that was made before, {folder / name}." in capsys.readouterr().out


def test_a_replay_of_a_placement_without_its_report_says_whom_to_ask(folder, tmp_path, capsys):
    (tmp_path / "p.json").write_bytes((folder / "placement.json").read_bytes())
    replayed = tmp_path / "again.so"
    made = (folder / "net.onnx", tmp_path / "p.json", "-o", replayed)
    assert call("replay", *made, "--backends", "dnnl") == 0
    assert "why: collage explain" not in capsys.readouterr().out
    assert call("explain", replayed) == 1
    err = capsys.readouterr().err
    assert f"it was built by a decision that was made before, {tmp_path / 'p.json'}; " in err
    assert "`collage explain` of the report or library where that was decided" in err
    # A placement that is another one than its report's is not explained by that.
    placement = json.loads((tmp_path / "p.json").read_text())
    for part in placement["functions"][0]["parts"]:
        part["cost"]["message"] = "another search's"
    (tmp_path / "p.json").write_text(json.dumps(placement))
    (tmp_path / "p.json.report").write_bytes((folder / "placement.json.report").read_bytes())
    assert call("replay", *made, "--backends", "dnnl") == 0
    assert not collage.load(replayed).report["functions"]


def test_replay_has_the_flags_of_what_it_does_alone(capsys):
    with pytest.raises(SystemExit):
        call("replay", "--help")
    out = capsys.readouterr().out
    assert all(flag in out for flag in ("--placement-allow", "--tuning-log", "--report"))
    assert not any(flag in out for flag in ("--guard", "--graph-search", "--tune ", "--store"))


def test_what_keeps_a_placement_from_a_model_is_told(folder, tmp_path, capsys):
    made = ("replay", write_net(tmp_path / "two.onnx", batch=2), folder / "placement.json")
    assert call(*made, "-o", tmp_path / "l.so", "--backends", "dnnl") == 1
    # How far it is, it says too where that takes longer than a second.
    err = capsys.readouterr().err.splitlines()[-1] + "\n"
    assert "input 'x' of function @main is float32[2, 4, 8, 8], and the placement is for " in err
    assert "float32[1, 4, 8, 8]: import" in err and err.count("\n") == 1
    made = ("replay", write_net(tmp_path / "other.onnx", scale=2.0), folder / "placement.json")
    assert call(*made, "-o", tmp_path / "l.so", "--backends", "dnnl") == 1
    assert "or allow it by --placement-allow weights\n" in capsys.readouterr().err
    allowed = ("--placement-allow", "weights")
    assert call(*made, "-o", tmp_path / "l.so", "--backends", "dnnl", *allowed) == 0


def test_what_the_search_warned_of_is_not_said_again(monkeypatch, capsys):
    report = {**made_report(1), "costs": {"busy": 2}}
    for library in ("", "net.so"):
        compile._tell(argparse.Namespace(json=False), record(report), {"library": library})
        out = capsys.readouterr().out
        assert "Doubtful" not in out and "search again" not in out


@pytest.mark.parametrize("flags", [[], ["noisy"], ["busy"], ["noisy", "busy"]], ids=str)
def test_the_mark_of_a_busy_time_is_explained_where_it_stands(flags, capsys):
    report = made_report(1)
    report["plans"][0]["flags"] = flags
    compile._tell(argparse.Namespace(json=False), record(report), {"library": "net.so"})
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Next: collage run net.so --time; why: collage explain net.so")
    told = "; (busy) marks a time that was taken beside other work: run this command again when "
    assert (told in last) == ("busy" in flags)


def test_what_is_next_is_what_can_be_done(folder, capsys):
    made = (folder / "net.onnx", folder / "placement.json", "-o", folder / "next.so")
    assert call("replay", *made, "--backends", "dnnl") == 0
    out = capsys.readouterr().out
    why = f"why: collage explain {folder / 'next.so'}"
    assert out.endswith(f"Next: collage run {folder / 'next.so'} --time; {why}\n")
    told = (folder / "told").read_text()
    assert f"; why: collage explain {folder / 'net.so'}\n" in told
    assert "\nOutputs agree with onnxruntime to " in told


def test_any_plan_of_a_library_is_replayed(folder):
    replayed = folder / "alone.so"
    made = (folder / "net.onnx", folder / "net.so", "--plan", "tvm", "-o", replayed)
    assert call("replay", *made, "--backends", "dnnl", "--quiet") == 0
    assert collage.load(replayed).report["plan"] == "tvm"
    np.testing.assert_allclose(outputs(replayed)[0], outputs(folder / "net.so")[0], rtol=1e-4)


def test_a_search_writes_no_library(folder, capsys, monkeypatch):
    with_made_up_costs(monkeypatch)
    before = set(folder.iterdir())
    assert call("search", folder / "net.onnx", *QUICK) == 0
    out = capsys.readouterr().out
    assert out.startswith("Plan collage ships") and set(folder.iterdir()) == before


@pytest.mark.parametrize("effort", Effort)
def test_each_effort_is_given_by_its_flag(folder, capsys, monkeypatch, effort):
    seen = []

    def optimize(*_, options, **__):
        seen.append(options.effort)
        raise CollageError("enough")

    monkeypatch.setattr(building, "optimize", optimize)
    assert call("search", folder / "net.onnx", *QUICK, "--effort", effort.value) == 1
    assert seen == [effort] and "enough" in capsys.readouterr().err


DAMAGED = {
    "cut.json": "cut.json seems to be JSON that is cut off or damaged (",
    "empty.json": "empty.json seems to be JSON of another kind, and a library, a report or a plac",
    "list.json": "list.json seems to be JSON of another kind",
}


# Words of a command, in which ~ stands for a blank, and what is told.
CANNOT_BE_DONE = {
    "search absent.onnx": "there is no such file",
    "search .": "it is a folder",
    "search broken.onnx": "broken.onnx cannot be read as an ONNX model: it is cut off or d",
    "search cut.onnx": "cut.onnx cannot be read as an ONNX model: it is cut off or damaged",
    "search zero.onnx": "zero.onnx: the ONNX model has no nodes: the file is empty or cut",
    "search text.onnx": "text.onnx cannot be read as an ONNX model: it seems to be a text; n",
    "search net.so": "net.so cannot be read as a model: it seems to be a library; name",
    "replay net.onnx absent -o l.so": "absent",
    "replay net.onnx net.onnx -o l.so": "net.onnx seems to be an ONNX model",
    **{f"replay net.onnx {name} -o l.so": says for name, says in DAMAGED.items()},
    "search net.onnx --backends dnnl --sample-inputs net.onnx": "'net.onnx' is no .npz file",
    "search net.onnx --backends dnnl --sample-inputs none.npz": (
        "--sample-inputs: 'none.npz' cannot be read: there is no such file"
    ),
    "search net.onnx --backends dnnl --sample-inputs wide.npz": (
        "--sample-inputs: 'wide.npz': input 'x' takes float32 of shape (1, 4, 8, 8), got float32"
    ),
}
WRONG = {
    "replay net.onnx net.so --plan nope -o l.so": "no plan 'nope'",
    "replay net.onnx placement.json --plan tvm -o l.so": "alone; --plan",
    "search net.onnx --backends nope": "--backends: unknown backend",
    "search net.onnx --backends dnll": "'dnll', did you mean dnnl?",
    "search net.onnx --backends dnnnl": "'dnnnl', did you mean dnnl?",
    "search net.onnx --host cuda": "Collage places parts on the CPU so far",
    "search net.onnx --guard-rounds -1": "--guard-rounds takes",
    "search net.onnx --host llvm~-nope=1": "--host: ",
    "search net.onnx --host foo": "--host: TVM knows no target 'foo'; give e.g. ",
    "search net.onnx --guard-rounds x": "--guard-rounds takes an int",
    "search net.onnx --effort slow": "--effort takes one of quick, normal, exhaustive, got 'slow'",
    "search net.onnx --save-placement /no/such/p": "there is no folder",
    "search net.onnx --save-placement side": "'side.report' cannot be written",
    "search net.onnx --host llvm --backends dnnl~-a=1,2": "--backends: ",
    "compile net.onnx -o /no/such/l.so": "there is no folder",
    "compile absent.onnx -o l.so --report /no/such/r": (
        "--report: '/no/such/r' cannot be written: there is no folder"
    ),
    f"search net.onnx {' '.join(QUICK)} --graph-search local": (
        "leave --guard on, or set --graph-search to 'none'"
    ),
    "compile net.onnx -o l.so --backends cblas,~dnnl~-x='a,~mkl": (
        "--backends: a quote is not closed: -x='a, mkl"
    ),
}


@pytest.mark.parametrize("line", [*CANNOT_BE_DONE, *WRONG])
def test_what_is_wrong_is_one_line(folder, capfd, monkeypatch, line):
    monkeypatch.chdir(folder)
    (folder / "broken.onnx").write_bytes(b"\xff\x00nothing")
    (folder / "cut.onnx").write_bytes((folder / "net.onnx").read_bytes()[:-9])
    (folder / "zero.onnx").touch()
    (folder / "text.onnx").write_text("hello\n")
    np.savez(folder / "wide.npz", x=np.zeros((1, 4, 8, 9), "float32"))
    for name, text in zip(DAMAGED, ("{", "{}", "[]"), strict=True):
        (folder / name).write_text(text)
    (folder / "side.report").mkdir(exist_ok=True)
    arguments = [word.replace("~", " ") for word in line.split()]
    assert call(*arguments) == (1 if line in CANNOT_BE_DONE else 2)
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("collage: ") and err.count("\n") == 1
    assert {**CANNOT_BE_DONE, **WRONG}[line] in err
    assert not (folder / "l.so").exists()


def why_no_model(path, **more):
    asked = {"model": path, "shape": [], "model_format": None, **more}
    with pytest.raises(ModelError) as caught:
        building.load_model(argparse.Namespace(**asked))
    return str(caught.value).removeprefix(f"{path} cannot be read as a model: ")


def test_models_of_other_kinds_say_what_they_lack(tmp_path, monkeypatch):
    torch, net, other = tmp_path / "net.pth", tmp_path / "net.tflite", tmp_path / "net"
    torch.write_bytes(b"PK\x03\x04")
    monkeypatch.setitem(sys.modules, "torch", None)
    missing = "that takes the Python package torch, which is not here; install torch"
    assert why_no_model(torch) == missing
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    advice = "; see --shape and --model-format, or export the model again"
    assert why_no_model(torch) == f"--shape must be specified for pytorch{advice}"
    (tmp_path / "net.pdmodel").touch()
    monkeypatch.setitem(sys.modules, "paddle", None)
    assert why_no_model(tmp_path / "net.pdmodel").endswith("; install paddle")
    fake = types.SimpleNamespace(Model=types.SimpleNamespace(GetRootAsModel=lambda *_: None))
    monkeypatch.setitem(sys.modules, "tflite.Model", fake)
    net.write_bytes(b"none")
    assert why_no_model(net) == f"input file not tflite{advice}"
    other.write_bytes(b"\xff\x00")
    assert why_no_model(other) == (
        "it seems to be a binary file; name a model's file, or give its format by --model-format"
    )
    assert "unrecognized frontend 'nope'" in why_no_model(other, model_format="nope")


def test_commas_inside_an_option_part_no_backends_and_capitals_are_onnx_too(folder, capsys):
    for backends in ("dnnl -winograd=never , cblas", "dnnl -winograd=never,cblas"):
        asked = argparse.Namespace(backends=backends, host="llvm -mattr=+avx,+fma")
        targets = building.targets_of(asked, collage.CollageOptions())
        assert [target.kind.name for target in targets] == ["llvm", "dnnl", "cblas"]
        assert targets[1].attrs["winograd"] == "never"
    text = """a -x="1, 2" -y=3,4,b -z='it"s'"""
    assert split_targets(text, "--backends") == [text]
    for name in ("NET.ONNX", "net.Onnx"):
        (folder / name).write_bytes((folder / "net.onnx").read_bytes())
        mod, params = building.load_model(
            argparse.Namespace(model=folder / name, shape=[], model_format=None)
        )
        assert params is None and mod["main"].params


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("y=1,4", "a shape is given for y, and the model's inputs are x"),
        ("x=1,4", "the shape [1, 4] of input x has 2 sizes, and the model's"),
        (
            "x=2,5,8,8",
            "open.onnx: the shape [2, 5, 8, 8] of input x differs from the model's own, "
            "[?, 4, 8, 8], in sizes that the model fixes",
        ),
    ],
)
def test_a_shape_that_fits_no_input_is_told(shape, why, tmp_path, monkeypatch, capsys):
    with_made_up_costs(monkeypatch)
    write_net(tmp_path / "open.onnx", batch="N")
    assert call("search", tmp_path / "open.onnx", "--shape", shape, *QUICK) == 2
    assert why in capsys.readouterr().err


def test_an_open_dimension_is_fixed_by_shape(tmp_path, monkeypatch, capsys):
    with_made_up_costs(monkeypatch)
    write_net(tmp_path / "open.onnx", batch="N")
    assert call("search", tmp_path / "open.onnx", *QUICK) == 1
    assert capsys.readouterr().err == (
        f"collage: {tmp_path / 'open.onnx'}: inputs have open dimensions (x [?, 4, 8, 8]): fix "
        "them by --shape x=1,4,8,8; a library of the command collage, unlike one of "
        "relay.vm.compile, takes fixed shapes alone\n"
    )
    write_net(tmp_path / "wide.onnx", batch="N", width="M")
    assert call("search", tmp_path / "wide.onnx", *QUICK) == 1
    assert "by --shape x=1,4,8,W with numbers for W; " in capsys.readouterr().err
    shape = "x=" + ",".join(map(str, SHAPE))
    assert call("search", tmp_path / "open.onnx", "--shape", shape, *QUICK) == 0
