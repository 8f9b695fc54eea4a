# SPDX-License-Identifier: Apache-2.0
"""What transfers gained beside what Ansor gained, on faked measurements; real ones:
cli/test_tt_compare.py."""

import json
import math

import pytest
from transfer_nets import conv, kernel, source
from tvm.relay.collage.cli.tt import gain
from tvm.relay.collage.cli.tt.gain import Gain, Side, compare_searches
from tvm.relay.collage.cli.tt.gain_picture import plot_gains
from tvm.relay.collage.costs.cost import Cost, CostStatus
from tvm.relay.collage.costs.statistics import Interval
from tvm.relay.collage.files.text import append_line
from tvm.relay.collage.measure import candidate_module
from tvm.relay.collage.measure.race.comparison import Comparison
from tvm.relay.collage.tuning.model import Model
from tvm.relay.collage.tuning.transfer.log import note_trial


def write(log, *trials):
    for began, seconds, steps in trials:
        row = json.loads(source(steps).line)
        row["r"] = [[seconds], 0, 1.0, began]
        append_line(log, json.dumps(row))


@pytest.fixture
def logs(tmp_path):
    transferred, ansor = tmp_path / "transferred.jsonl", tmp_path / "ansor.jsonl"
    write(transferred, (10, 2e-3, [["CI", 5]]))
    note_trial(transferred, "a", {"outcome": "adapted", "seconds": 2e-3, "reason": "", "took": 4.0})
    write(ansor, (100, 4e-3, []), (110, 2e-3, [["CI", 5]]), (150, 1e-3, [["AN", 6, 0, 3]]))
    return transferred, ansor


def compared(logs, monkeypatch, **seconds):
    """A comparison whose measurements are these, 10 ms for those that are not named."""
    asked = {}

    def compare_records(candidate, records, workers, rounds, on_step=None):
        asked.update(records)
        found = []
        for name in ("untuned", *records):
            took = seconds.get(name.replace(" ", "_"), 10e-3)
            if took is None:
                found.append(Comparison(name, Cost.failed(CostStatus.COMPILE_FAILED, "no")))
            else:
                found.append(Comparison(name, Cost.estimated(took), samples=(took,) * 8))
        return found

    monkeypatch.setattr(gain, "compare_records", compare_records)
    candidate = candidate_module(conv(), "tvm", "llvm", label="net.onnx")
    return compare_searches(Model(candidate, [kernel(conv)]), *logs, None), asked


def test_ansors_log_is_cut_after_the_time_of_the_transfers_and_where_it_matches(logs, monkeypatch):
    found, asked = compared(logs, monkeypatch, transferred=5e-3, ansor=4e-3, ansor_same_time=8e-3)
    assert [side.name for side in found.sides] == [
        "untuned",
        "transferred",
        "ansor same time",
        "ansor matching",
        "ansor",
    ]
    assert [side.search_seconds for side in found.sides] == [0.0, 4.0, 4.0, 11.0, 51.0]
    assert found.model == "net" and found.matching_seconds == 11.0
    assert found.of("transferred").speedup.value == pytest.approx(2.0)
    assert found.share_of_gain.value == pytest.approx(1.0 / 1.5)
    digests = {name: records.digest() for name, records in asked.items()}
    assert len(set(digests.values())) == 3  # the transferred one is that which matches
    assert digests["transferred"] == digests["ansor matching"]
    text = "\n".join(found.lines())
    assert "matched after 11 s, 2.8 times as long" in text and "Ansor's gain: 67 %" in text
    assert Gain.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_what_failed_has_its_reason_and_no_share(logs, monkeypatch):
    found, _ = compared(logs, monkeypatch, transferred=None)
    assert found.of("transferred").speedup is None and "no" in found.of("transferred").failure
    assert found.share_of_gain is None
    assert "compile_failed" in found.lines()[2]


def test_a_search_that_never_matches_says_how_long_it_was(logs, monkeypatch, tmp_path):
    slow = tmp_path / "slow.jsonl"
    write(slow, (0, 9e-3, []))
    found, asked = compared((logs[0], slow), monkeypatch)
    assert found.matching_seconds is None and "ansor matching" not in asked
    assert "did not match within 1 s" in "\n".join(found.lines())


@pytest.mark.parametrize(
    ("transferred", "share"),
    [(Interval(1.5, 1.4, 1.6), (0.5, 0.2, 1.2)), (Interval(0.9, 0.8, 1.1), (-0.1, -0.4, 0.2))],
    ids=str,
)
def test_the_share_is_as_sure_as_both_speed_ups(transferred, share):
    speedups = {"transferred": transferred, "ansor": Interval(2.0, 1.5, 3.0)}
    sides = [Side(name, 1.0, speedup, 1e-3) for name, speedup in speedups.items()]
    assert Gain("net", tuple(sides), {}, None).share_of_gain == pytest.approx(share)


@pytest.mark.parametrize("gained", [Interval(1.0, 1.0, 1.0), Interval(1.5, 0.9, 2.0)], ids=str)
def test_no_sure_gain_of_ansors_is_no_share(gained):
    sides = [Side(name, 1.0, gained, 1e-3) for name in ("transferred", "ansor")]
    assert Gain("net", tuple(sides), {}, None).share_of_gain is None


def test_an_interval_of_too_few_rounds_is_json_and_comes_back():
    side = Side("ansor", 1.0, Interval(1.2, 0.0, math.inf), 1e-3)
    found = Gain("net", (side,), {"ansor": 2}, None)
    text = json.dumps(found.to_json(), allow_nan=False)
    assert '"speedup": {"value": 1.2, "low": 0.0, "high": null}' in text
    assert Gain.from_json(json.loads(text)) == found


def gained(name, **speedups):
    sides = [Side("untuned", 0.0, Interval(1.0, 1.0, 1.0), 1e-2)]
    for place, (side, value) in enumerate(speedups.items()):
        interval = None if value is None else Interval(value, 0.9 * value, 1.1 * value)
        sides.append(Side(side.replace("_", " "), 10.0 * place, interval, 1e-3, "no"))
    return Gain(name, tuple(sides), {}, 5.0)


def test_a_picture_has_each_net_and_side_and_leaves_out_what_failed(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra peers is not installed")
    picture = tmp_path / "gains.svg"
    nets = [
        gained("small", transferred=1.2, ansor_same_time=None, ansor_matching=1.2, ansor=1.5),
        gained("large", transferred=None, ansor_same_time=1.1, ansor=1.3),
    ]
    plot_gains(nets, picture)
    text = picture.read_text()
    for word in ("small", "large", "ansor same time", "small, transferred", "seconds of search"):
        assert f"<!-- {word} -->" in text
    plot_gains([gained("ansor's alone", ansor=1.3)], picture)  # without transferred schedules
    assert "<!-- ansor matching -->" not in text and "<!-- large, transferred -->" not in text
