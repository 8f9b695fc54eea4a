# SPDX-License-Identifier: Apache-2.0
"""Pictures of what tuning gained."""

import pytest
from tvm.relay.collage.cli.tt.plot import plot_gains
from tvm.relay.collage.costs.statistics import Interval
from tvm.relay.collage.tuner.gain import Gain, Side

pytest.importorskip("matplotlib", reason="the extra peers is not installed")


def gain(name, **speedups):
    sides = [Side("untuned", 0.0, Interval(1.0, 1.0, 1.0), 1e-2)]
    for place, (side, value) in enumerate(speedups.items()):
        interval = None if value is None else Interval(value, 0.9 * value, 1.1 * value)
        sides.append(Side(side.replace("_", " "), 10.0 * place, interval, 1e-3, "no"))
    return Gain(name, tuple(sides), {}, 5.0)


def test_a_picture_has_each_net_and_side_and_leaves_out_what_failed(tmp_path):
    picture = tmp_path / "gains.svg"
    nets = [
        gain("small", transferred=1.2, ansor_same_time=None, ansor_matching=1.2, ansor=1.5),
        gain("large", transferred=None, ansor_same_time=1.1, ansor=1.3),
    ]
    plot_gains(nets, picture)
    text = picture.read_text()
    for word in ("small", "large", "ansor same time", "small, transferred", "seconds of search"):
        assert f"<!-- {word} -->" in text
    plot_gains([gain("ansor's alone", ansor=1.3)], picture)  # without transferred schedules
    assert "<!-- ansor matching -->" not in text and "<!-- large, transferred -->" not in text
