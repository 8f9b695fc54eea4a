# SPDX-License-Identifier: Apache-2.0
"""Ways to run a choice of precisions: who takes part in each, by whose seconds, at which prices."""

from types import SimpleNamespace

import pytest
from relay_text import parse
from tvm.relay.collage.precision import mixes
from tvm.relay.collage.precision.forms import Trader
from tvm.relay.collage.precision.mixes import Measured, short_floats_of, ways_of

SHORT, INT8 = "bfloat16", "int8"
# Two layers; the second reads 2x8 numbers.
NET = parse(
    """
    def @main(%x: Tensor[(2, 4), float32], %w: Tensor[(8, 4), float32],
              %v: Tensor[(3, 8), float32]) {
      %0 = nn.dense(%x, %w, units=None);
      nn.dense(%0, %v, units=None)
    }
    """
)
KEEPING = Trader("dnnl_bf16", SHORT, keeps_calls=True, share=1.0)
OTHER = Trader("openvino_bf16", SHORT, keeps_calls=False, share=1.0)
WEIGHTS = Trader("openvino_w8", "int8 weights", keeps_calls=False, share=1.0)
SQUARES = {INT8: {"a": 1e-4, "b": 4e-4}, SHORT: {"a": 1e-6, "b": 1e-6}}


def form(name, *backends, seconds=1e-3):
    return SimpleNamespace(result=name, backends=frozenset(backends), seconds=seconds)


@pytest.fixture
def asked(monkeypatch):
    """What each layer saves is twice as much in 8 bits, and more where all backends may run it."""
    found = []

    def saved(names, plain, other, among=()):
        found.append((other, frozenset(among)))
        seconds = (2e-4 if other == "whole" else 1e-4) * (1 if among else 4)
        return dict.fromkeys(names, seconds)

    monkeypatch.setattr(mixes, "saved_by_layer", saved)
    monkeypatch.setattr(mixes, "border_seconds", lambda result: 5e-5)
    return found


def measured(*traded):
    rows = [(trader, form(trader.backend, trader.backend)) for trader in traded]
    return Measured(form("plain", "dnnl"), form("whole", "openvino"), rows, ["a", "b"], SQUARES)


def test_who_keeps_layers_exact_runs_all_of_them(asked):
    keeping, other = ways_of(measured(OTHER, KEEPING), NET)
    assert keeping.traders == {"dnnl_bf16"} and other.traders == {"openvino_bf16"}
    assert keeping.among == {"dnnl", "openvino", "dnnl_bf16"}
    names = frozenset({"dnnl", "dnnl_bf16"})
    assert asked[:2] == [("whole", names), ("dnnl_bf16", names)]
    assert asked[2:] == [("whole", frozenset()), ("openvino_bf16", frozenset())]
    assert keeping.gains["b"][INT8].seconds == 2e-4 and other.gains["b"][INT8].seconds == 8e-4
    assert keeping.gains["b"][SHORT] == (1e-4, 1e-6)


def test_a_change_is_a_conversion_or_a_border_of_parts(asked):
    keeping, other = ways_of(measured(KEEPING, OTHER), NET)
    ((conversion,), (to_bytes,)) = keeping.borders[SHORT], keeping.borders[INT8]
    assert 0 < conversion < 1e-7 and to_bytes == 3 * conversion
    assert other.borders == {SHORT: [5e-5]}


def test_without_short_floats_layers_are_in_8_bits_or_not(asked):
    (way,) = ways_of(measured(), NET)
    assert way.traders == frozenset() and list(way.borders) == [INT8]
    assert list(way.gains["a"]) == [INT8]
    assert [choice.precisions for choice in way.choices()][-1] == {"a": INT8, "b": INT8}


def test_where_no_profile_tells_seconds_all_layers_save_the_same(asked, monkeypatch):
    monkeypatch.setattr(mixes, "saved_by_layer", lambda *_: None)
    (way,) = ways_of(measured(KEEPING), NET)
    assert not way.is_timed and not way.borders
    assert {gain.seconds for each in way.gains.values() for gain in each.values()} == {1.0}


@pytest.mark.parametrize(
    "traders, kind, found",
    [
        ([], "", []),
        ([WEIGHTS], "", []),
        ([WEIGHTS, OTHER, KEEPING], SHORT, [OTHER, KEEPING]),
        ([OTHER, Trader("half", "float16", keeps_calls=False, share=1.0)], SHORT, [OTHER]),
    ],
)
def test_one_kind_of_short_floats_is_mixed(traders, kind, found):
    rows = [(trader, trader.backend) for trader in traders]
    assert short_floats_of(rows) == (kind, [(trader, trader.backend) for trader in found])


def test_a_layer_without_other_precisions_has_its_place_among_the_prices(asked):
    """The model has a layer between the two that are quantised."""
    found = measured(KEEPING)._replace(order=["a", "between", "b"])
    (way,) = ways_of(found, NET)
    assert list(way.gains) == ["a", "between", "b"] and way.gains["between"] == {}
    assert way.borders


def test_layers_that_the_module_calls_otherwise_have_no_prices(asked):
    (way,) = ways_of(measured(KEEPING)._replace(order=["", ""]), NET)
    assert not way.borders and {"a", "b"} <= way.gains.keys()
