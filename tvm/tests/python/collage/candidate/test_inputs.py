# SPDX-License-Identifier: Apache-2.0
"""Random inputs: each type has its numbers, indices are in range, seeds decide all."""

from importlib import import_module

import numpy as np
import pytest
import tvm
from measure_fakes import measure
from relay_text import parse
from tvm import relay

inputs = import_module("tvm.relay.collage.candidate.inputs")
reference = import_module("tvm.relay.collage.measure.outputs.reference")


def typed(*params, body):
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(list(params), body)))


def values_of(mod, seed=0):
    return inputs.random_inputs(inputs.describe_inputs(mod), seed)


def one(dtype, shape=(4000,)):
    x = relay.var("x", shape=shape, dtype=dtype)
    return values_of(typed(x, body=relay.copy(x)))["x"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_are_normal(dtype):
    x = one(dtype)
    assert x.dtype == dtype
    assert abs(x.mean()) < 0.1 and abs(x.std() - 1) < 0.1 and 2.5 < np.abs(x).max() < 7
    tiny = np.finfo(dtype).tiny
    assert not (np.abs(x[x != 0]) < tiny).any(), "no denormals"


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bytes_use_their_whole_range(dtype):
    x, limits = one(dtype), np.iinfo(dtype)
    assert x.dtype == dtype and (x.min(), x.max()) == (limits.min, limits.max)


def test_booleans_are_both():
    x = one("bool")
    assert x.dtype == bool and 0.4 < x.mean() < 0.6


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
def test_integers_of_no_known_use_are_small_and_not_negative(dtype):
    x = one(dtype)
    assert x.dtype == dtype and (x.min(), x.max()) == (0, 15)


def test_indices_are_known_inside_the_parts_of_external_backends():
    """A global function with a composite inside, as candidates of external backends have it."""
    mod = parse("""
      def @part(%t: Tensor[(50, 8), float32], %i: Tensor[(300), int64],
                %v: Tensor[(8), float32], Compiler="other", Primitive=1, global_symbol="part")
          -> Tensor[(300, 8), float32] {
        %0 = fn (%a: Tensor[(50, 8), float32], %b: Tensor[(300), int64], Composite="c")
            -> Tensor[(300, 8), float32] {
          take(%a, %b, axis=0)
        };
        divide(%0(%t, %i), sqrt(%v))
      }
      def @main(%table: Tensor[(50, 8), float32], %ids: Tensor[(300), int64],
                %variance: Tensor[(8), float32], %loose: Tensor[(99), int64])
          -> (Tensor[(300, 8), float32], Tensor[(99), int64]) {
        (@part(%table, %ids, %variance), negative(%loose))
      }""")
    values = values_of(mod)
    assert 35 < values["ids"].max() < 50 and values["variance"].min() > 0
    assert values["table"].min() < 0 and values["loose"].max() < 50


def test_weights_of_a_part_are_positive_where_they_must_be():
    mod = parse("""
      def @main(%x: Tensor[(4, 32), float32], %w: Tensor[(32), float32]) {
        %0 = fn (%a: Tensor[(4, 32), float32], %b: Tensor[(32), float32], Composite="c") {
          multiply(%a, rsqrt(%b))
        };
        %0(%x, %w)
      }""")
    function = mod["main"]
    [weight] = inputs.random_weights([function.params[1]], function, np.random.default_rng(0))
    assert weight.min() > 0


def test_inputs_without_a_fixed_shape_are_unsupported():
    x = relay.var("x", shape=(relay.Any(), 4))
    with pytest.raises(measure.Unsupported, match="input x is no tensor of a fixed shape"):
        inputs.describe_inputs(typed(x, body=relay.exp(x)))


def test_seeds_decide_inputs_and_weights():
    x = relay.var("x", shape=(4, 64))
    weight = relay.const(np.zeros((32, 64), "float32"))
    function = relay.Function([x], relay.nn.dense(x, weight))
    candidate = measure.candidate_module(function, "tvm", "llvm")

    def drawn(seed):
        mod = candidate.instantiate(seed)
        return values_of(mod, seed)["x"], mod["main"].body.args[1].data.numpy()

    for first, again, other in zip(drawn(3), drawn(3), drawn(4), strict=True):
        assert (first == again).all() and not (first == other).any()


def test_an_index_of_the_greatest_value_is_a_reference_like_any_other(tmp_path):
    x = relay.var("x", shape=(64, 100))
    candidate = measure.candidate_module(
        relay.Function([x], relay.argmax(relay.exp(x), axis=1)), "tvm", "llvm"
    )
    file = str(tmp_path / "r.npz")
    builder = measure.MeasureOptions().builder
    answer = reference.make_reference(candidate.to_json(), file, builder, seed=5)
    expected = values_of(candidate.instantiate(5), 5)["x"].argmax(axis=1).astype("int32")
    reference.check_outputs([expected], file, answer["tolerance"])
    expected[7] += 1
    with pytest.raises(measure.WrongResult, match=r"output 0 at \[7\]"):
        reference.check_outputs([expected], file, answer["tolerance"])
