# SPDX-License-Identifier: Apache-2.0
"""The benchmark of replays: a placement saved in one process, built from in another."""

import subprocess

import pytest
import replay
from peer.child import run_child


def test_a_small_net_is_replayed_equal(capfd):
    assert replay.main(["--net", "chain:12", "--rounds", "1", "--limit", "1000"]) == 0
    summary, search, again = capfd.readouterr().out.splitlines()
    assert summary.startswith("chain:12: ") and "dnnl" in summary
    assert search.startswith("search ") and search.endswith(" KiB")
    assert "import tvm" in again and again.endswith("; module equal")


def test_a_replay_that_takes_too_long_fails(monkeypatch):
    runs = {
        "save": {"summary": "", "search_seconds": 1.0, "hash": 1, "plan": "op-level"},
        "replay": {"hash": 1, "plan": "op-level", "seconds": {}, "relay.build": 30.0, "cpu": 1.0},
    }

    def made_up(_, step, name, *arguments):
        open(arguments[arguments.index("--path") + 1], "w").close()
        return runs[name]

    monkeypatch.setattr(replay, "run_child", made_up)
    assert replay.main(["--rounds", "1"]) == 1
    assert replay.main(["--rounds", "1", "--limit", "40"]) == 0
    runs["replay"]["hash"] = 2
    assert replay.main(["--rounds", "1", "--limit", "40"]) == 1


def test_a_child_that_fails_is_an_error(tmp_path):
    script = tmp_path / "child.py"
    script.write_text("import os, sys; print('{\"a\": 1}'); sys.exit(int(os.environ['CODE']))")
    assert run_child(str(script), environment={"CODE": "0"}) == {"a": 1}
    with pytest.raises(subprocess.CalledProcessError, match="status 3"):
        run_child(str(script), environment={"CODE": "3"})
