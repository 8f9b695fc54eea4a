# SPDX-License-Identifier: Apache-2.0
"""`collage completion`."""

import json
import shutil
import subprocess

import pytest
from cli_nets import call


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
