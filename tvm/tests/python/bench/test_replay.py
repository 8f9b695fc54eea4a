# SPDX-License-Identifier: Apache-2.0
"""The benchmark of replays: a placement saved in one process, built from in another."""

import replay


def test_a_small_net_is_replayed_equal(capfd):
    assert replay.main(["--nets", "chain:12", "--rounds", "1", "--limit", "1000"]) == 0
    summary, search, again = capfd.readouterr().out.splitlines()
    assert summary.startswith("chain:12: ") and "dnnl" in summary
    assert search.startswith("search ") and search.endswith(" KiB")
    assert "import tvm" in again and again.endswith("; module equal")


def test_a_replay_that_takes_too_long_fails(monkeypatch):
    runs = {
        "save": {"summary": "", "search_seconds": 1.0, "hash": 1, "plan": "op-level"},
        "replay": {"hash": 1, "plan": "op-level", "seconds": {}, "relay.build": 30.0, "cpu": 1.0},
    }

    def made_up(function, given):
        open(given["path"], "w").close()
        return runs[function.removeprefix("replay:")]

    monkeypatch.setattr(replay.child, "call", made_up)
    assert replay.main(["--rounds", "1"]) == 1
    assert replay.main(["--rounds", "1", "--limit", "40"]) == 0
    runs["replay"]["hash"] = 2
    assert replay.main(["--rounds", "1", "--limit", "40"]) == 1
