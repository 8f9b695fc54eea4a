# SPDX-License-Identifier: Apache-2.0
"""`collage completion`."""

import json
import shutil
import subprocess
import sys

import pytest
from cli_nets import call
from tvm_collage import cli


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_knows_commands_and_flags(shell, capsys):
    assert call("completion", shell) == 0
    script = capsys.readouterr().out
    for word in ("compile", "explain", "save-placement", "graph-search-trials"):
        assert word in script


def test_bash_takes_the_script(tmp_path, capsys):
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    assert call("completion", "bash", "--json") == 0
    (tmp_path / "script").write_text(json.loads(capsys.readouterr().out)["script"])
    done = subprocess.run(["bash", "-n", str(tmp_path / "script")], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "arguments", [["backends"], ["backends", "--json"], ["completion", "bash"]], ids=" ".join
)
def test_a_full_disk_is_told_once(arguments, monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert cli.main(arguments) == 1
        monkeypatch.undo()
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("collage: ") and line.endswith("No space left on device")


def test_a_full_disk_is_one_line_of_a_program_that_ends():
    program = "import sys; from tvm_collage import cli; sys.exit(cli.main(['completion', 'bash']))"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE)
    assert done.stderr == b"collage: standard output: No space left on device\n"
    assert done.returncode == 1
