# SPDX-License-Identifier: Apache-2.0
"""The option report: its file holds the JSON of the result; bad paths; JSON of others."""

import json
import os
import subprocess
import sys
import tempfile

import pytest
import tvm
from relay_text import parse
from tvm.relay.collage import CollageError, CollageOptions, OptionError, optimize
from tvm.relay.collage.files.text import (
    DEEPEST_JSON,
    check_file_path,
    parse_json,
    why_no_file,
    write_whole,
)


def module():
    return parse("def @main(%x: $T) { nn.relu(%x) }")


def test_the_file_is_the_results_json(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("an older one")
    result = optimize(module(), None, "llvm", CollageOptions(report=str(path)))
    assert json.loads(path.read_text()) == result.to_json()
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_build_writes_it_too(tmp_path):
    path = tmp_path / "report.json"
    config = {"relay.collage.enable_collage": True, "relay.collage.report": str(path)}
    with tvm.transform.PassContext(config=config):
        tvm.relay.build(module(), "llvm")
    assert json.loads(path.read_text())["plan"] == "tvm"


@pytest.mark.parametrize(
    "name, reason", [("no/such.json", "there is no folder"), ("", "it is a folder")]
)
def test_a_path_that_cannot_be_written_is_an_error_at_once(tmp_path, monkeypatch, name, reason):
    monkeypatch.setattr("tvm.relay.collage.optimizer.prepare", lambda *_, **__: pytest.fail("ran"))
    options = CollageOptions(report=os.path.join(tmp_path, name))
    with pytest.raises(OptionError, match="option relay.collage.report: .* cannot be written"):
        optimize(module(), None, "llvm", options)
    with pytest.raises(CollageError, match=reason):
        optimize(module(), None, "llvm", options)


def refused(**_):
    raise OSError(30, "Read-only file system")


def test_a_folder_that_only_says_it_can_be_written_to_is_told():
    with pytest.raises(OptionError, match="'/proc/a.so' cannot be written: files cannot be made"):
        check_file_path("/proc/a.so", "--output")


def test_an_error_of_writing_names_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    path = str(tmp_path / "page.html")
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        write_whole(path, "text")
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_appended_to_needs_no_folder_to_write_in(tmp_path, monkeypatch):
    log = tmp_path / "log.json"
    writable = {str(log), "/dev/null"}
    monkeypatch.setattr(os, "access", lambda path, _: str(path) in writable)
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refused)
    with pytest.raises(OptionError, match="it is no plain file"):
        check_file_path("/dev/null", "--log")
    with pytest.raises(OptionError, match=r"files cannot be made in .* \(Read-only file system\)"):
        check_file_path(str(log), "--log")
    with pytest.raises(OptionError, match="--log: .* files cannot be made in"):
        check_file_path(str(log), "--log", is_appended=True)
    log.touch()
    for path in writable:
        check_file_path(path, "--log", is_appended=True)
    writable.clear()
    with pytest.raises(OptionError, match="--log: .*log.json' cannot be written: it may only be"):
        check_file_path(str(log), "--log", is_appended=True)
    with pytest.raises(OptionError, match="it is a folder"):
        check_file_path(str(tmp_path), "--log", is_appended=True)


def test_a_file_that_fails_at_the_end_keeps_the_result(tmp_path, monkeypatch, caplog):
    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tvm.relay.collage.files.text.write_whole", full)
    result = optimize(module(), None, "llvm", CollageOptions(report=str(tmp_path / "r.json")))
    assert result.plan == "tvm"
    assert "r.json' was not written: [Errno 28] No space left on device" in caplog.text


@pytest.mark.parametrize(
    "value",
    [
        "[" * 100_000,
        "]}" * 600 + '"\\"[[' * 600,
        ["[" * 1000, '"[' * 1000, "\\", '\\"['],
        [[i, {"a": ["[{"]}] for i in range(1000)],
    ],
)
def test_texts_of_brackets_are_texts(value):
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize("bracket, end", ["[]", ("{", "}"), ('{"a":', "}"), ('["]", ', "]")])
def test_json_may_nest_so_deep_and_no_deeper(bracket, end):
    inner = "0" if bracket != "{" else ""
    deep = DEEPEST_JSON if bracket != "{" else 1
    parse_json(bracket * deep + inner + end * deep)
    with pytest.raises(ValueError, match=f"nested more than {DEEPEST_JSON} deep"):
        parse_json(bracket * (DEEPEST_JSON + 1) + inner + end * (DEEPEST_JSON + 1))


@pytest.mark.parametrize("text", ["[" * 100_000, '"' + "[" * 1000, b"\xff\xfe", "{" * 999 + '"\\'])
def test_what_is_no_json_is_a_value_error(text):
    with pytest.raises(ValueError):
        parse_json(text)


def test_a_file_of_brackets_leaves_a_process_of_a_small_stack_alive():
    code = (
        "import sys; from tvm.relay.collage.files.text import parse_json\n"
        "try: parse_json('[' * 100_000)\n"
        "except ValueError as error: print(error, sys.getrecursionlimit())"
    )
    command = f'ulimit -s 1024; exec {sys.executable} -c "{code}"'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"nested more than {DEEPEST_JSON} deep 10000\n")


def test_why_no_file_is_there_to_read(tmp_path, monkeypatch):
    """Root may read all, so that the system's answer is a fake."""
    path = tmp_path / "file"
    assert (
        why_no_file(path) == "there is no such file" and why_no_file(tmp_path) == "it is a folder"
    )
    path.touch()
    assert why_no_file(path) == ""
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)
    assert why_no_file(path) == "it may not be read"
