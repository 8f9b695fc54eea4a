# SPDX-License-Identifier: Apache-2.0
"""Seconds of layers by profiles, the layers of a module in order, and nodes that stay exact."""

from types import SimpleNamespace

import pytest
from relay_text import parse
from tvm.relay.collage.backends import Backend
from tvm.relay.collage.estimators.calibration import Multiples
from tvm.relay.collage.estimators.profiles import Profiles
from tvm.relay.collage.precision import layer_times
from tvm.relay.collage.precision.layer_times import (
    grouped,
    is_layer,
    nodes_kept,
    precisions_of,
    saved_by_layer,
    seconds_of_layers,
)
from tvm.relay.collage.relay_util.node_spans import node_of, stamp_nodes
from tvm.relay.collage.relay_util.walk import operator_calls


@pytest.mark.parametrize(
    "op, is_one",
    [
        *[(op, True) for op in ("nn.conv2d", "nn.conv2d_transpose", "nn.dense", "qnn.dense")],
        *[(op, True) for op in ("nn.batch_matmul", "nn.contrib_conv2d_NCHWc", "qnn.conv2d")],
        *[(op, False) for op in ("nn.relu", "add", "concatenate", "qnn.quantize", "nn.max_pool2d")],
    ],
)
def test_layers_are_convolutions_and_products(op, is_one):
    assert is_layer(op) == is_one


def test_other_operators_belong_to_the_layer_before_them():
    calls = [("cast", 1.0), ("nn.conv2d", 10.0), ("nn.relu", 2.0), ("nn.dense", 5.0), ("add", 0.5)]
    assert grouped(calls) == [13.0, 5.5]
    assert grouped([]) == [] and grouped([("add", 1.0)]) == []


def result(ops, seconds):
    nodes = [SimpleNamespace(index=k, op=op) for k, op in enumerate(ops)]
    function = SimpleNamespace(skipped="", graph=SimpleNamespace(nodes=nodes))
    return SimpleNamespace(partitioned=[function], profiles=Profiles(seconds, {}))


OPS = ("", "nn.conv2d", "nn.relu", "", "nn.dense")


def test_the_fastest_backend_alone_counts():
    seconds = {"slow": {1: 9.0, 4: 1.0}, "fast": {1: 4.0, 2: 1.0, 4: 2.0}}
    assert seconds_of_layers(result(OPS, seconds)) == [5.0, 2.0]


def test_what_is_saved_is_the_difference_layer_by_layer():
    plain, bytes_of = result(OPS, {"a": {1: 4.0, 4: 2.0}}), result(OPS, {"b": {1: 1.0, 4: 3.0}})
    assert saved_by_layer(["x", "y"], plain, bytes_of) == {"x": 3.0, "y": -1.0}


def test_without_profiles_or_with_other_layers_nothing_is_known():
    plain = result(OPS, {"a": {1: 4.0}})
    assert saved_by_layer(["x"], plain, plain) is None
    assert saved_by_layer(["x", "y"], plain, result(OPS[:3], {"a": {1: 4.0}})) is None
    without = SimpleNamespace(partitioned=plain.partitioned, profiles=None)
    assert saved_by_layer(["x", "y"], plain, without) is None


def module():
    return stamp_nodes(
        parse("""
      def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 1, 1), float32],
                %v: Tensor[(4, 4, 1, 1), float32]) {
        %0 = nn.relu(nn.conv2d(%x, %w, kernel_size=[1, 1]));
        nn.conv2d(%0, %v, kernel_size=[1, 1])
      }""")
    )


def test_layers_that_no_precision_was_chosen_for_stay_exact():
    mod = module()
    first, _, second = map(node_of, operator_calls(mod["main"]))
    assert nodes_kept(["a", "b"], {"a": "bfloat16"}, mod) == [second]
    assert nodes_kept(["a", "b"], {"a": "bfloat16", "b": "int8"}, mod) == []
    assert nodes_kept(["a", "b"], {}, mod) == [first, second]
    # Of other layers than those of the order nobody knows which is which.
    assert nodes_kept(["a"], {"a": "bfloat16"}, mod) == [first, second]


def placed(monkeypatch, parts, nodes=(1, 4)):
    """A result whose layers have these nodes, and whose parts are of these backends."""
    exact, fast = Backend(), Backend()
    fast.trades_accuracy, fast.traded_ops = "bfloat16", frozenset(("nn.dense",))
    monkeypatch.setattr(layer_times, "find_backend", {"exact": exact, "fast": fast}.get)
    rows = [SimpleNamespace(backend=name, nodes=of) for name, of in parts]
    found = result(["" if k not in nodes else "nn.dense" for k in range(6)], {})
    found.placement = SimpleNamespace(functions=[SimpleNamespace(parts=rows)])
    return found


def test_a_layers_precision_is_that_of_who_runs_it(monkeypatch):
    chosen = {"a": "bfloat16", "b": "int8"}
    taken = placed(monkeypatch, [("fast", (1, 2)), ("exact", (4,))])
    assert precisions_of(taken, ["a", "b"], chosen) == chosen
    # An exact backend was the faster one after all.
    left = placed(monkeypatch, [("exact", (1, 2)), ("exact", (4,))])
    assert precisions_of(left, ["a", "b"], chosen) == {"b": "int8"}
    # Nobody chose by layer: those on TVM are in float32.
    assert precisions_of(placed(monkeypatch, [("fast", (1,))]), ["a", "b"], {}) == {"a": "bfloat16"}


def test_where_layers_are_others_the_choice_is_told(monkeypatch):
    chosen = {"a": "bfloat16"}
    assert precisions_of(placed(monkeypatch, []), ["a"], chosen) == chosen


def test_a_border_is_half_of_what_a_part_takes_besides_its_operators(monkeypatch):
    monkeypatch.setattr(layer_times, "traders_in", lambda mod: {"fast": "bfloat16"})
    doubled = Multiples([1.0] * 6, [2.0] * 6)
    profiles = Profiles({}, {"fast": doubled, "other": Multiples([1.0] * 6, [9.0] * 6)})
    found = SimpleNamespace(mod=None, profiles=profiles)
    assert layer_times.border_seconds(found) == pytest.approx(2.5e-4)
    assert layer_times.border_seconds(SimpleNamespace(mod=None, profiles=None)) == 0.0


def test_a_conversion_takes_as_long_as_a_value_is_large():
    mod = parse(
        """
        def @main(%x: Tensor[(1, 8, 4, 4), float32], %w: Tensor[(16, 8, 1, 1), float32],
                  %v: Tensor[(10, 256), float32]) {
          %0 = nn.conv2d(%x, %w, padding=[0, 0, 0, 0], channels=16, kernel_size=[1, 1]);
          %1 = nn.relu(%0);
          %2 = nn.batch_flatten(%1);
          nn.dense(%2, %v, units=None)
        }
        """
    )
    (found,) = layer_times.conversion_seconds(mod)
    assert found == pytest.approx(256 * layer_times._AN_ELEMENT)
