# SPDX-License-Identifier: Apache-2.0
"""An einsum of two operands is a product of matrices; another stays one."""

import random

import numpy as np
import pytest
import tvm
from onednn_nets import run
from relay_text import plain_host
from tvm import relay
from tvm.relay.collage.compile import build_library, prepare

EXTENTS = {"b": 2, "h": 3, "w": 4, "c": 5, "k": 6, "x": 1}
CONSTANTS = {"neither": (), "first": (0,), "second": (1,)}


def net(equation, constants=(), extents=EXTENTS):
    """The module, the values of both operands, and the inputs by name."""
    rng = np.random.default_rng(0)
    operands = equation.split("->")[0].split(",")
    values = [
        rng.standard_normal([extents[letter] for letter in each]).astype("float32")
        for each in operands
    ]
    variables = [relay.var(f"v{i}", shape=value.shape) for i, value in enumerate(values)]
    used = [relay.const(v) if i in constants else variables[i] for i, v in enumerate(values)]
    params = [each for i, each in enumerate(variables) if i not in constants]
    function = relay.Function(params, relay.einsum(relay.Tuple(used), equation))
    inputs = {f"v{i}": v for i, v in enumerate(values) if i not in constants}
    return tvm.IRModule.from_expr(function), values, inputs


def check(equation, constants=()):
    mod, values, inputs = net(equation, constants)
    mod = prepare(mod)
    [got] = run(build_library(mod, plain_host()), inputs)
    np.testing.assert_allclose(got, np.einsum(equation, *values), rtol=1e-4, atol=1e-5)
    return str(mod["main"])


@pytest.mark.parametrize("constants", CONSTANTS)
@pytest.mark.parametrize("equation", ["bhwc,hkc->bhwk", "bhw,kxh->bkxw", "bwc,bkc->bwk"])
def test_products(equation, constants):
    text = check(equation, CONSTANTS[constants])
    is_dense = equation == "bhw,kxh->bkxw" and constants != "neither"
    assert "einsum" not in text
    assert ("nn.dense" in text, "nn.batch_matmul" in text) == (is_dense, not is_dense)


def test_any_product():
    rng = random.Random(0)
    for _ in range(8):
        letters = {each: rng.sample(sorted(EXTENTS), rng.randint(1, 4)) for each in (0, 1)}
        shared = set(letters[0]) & set(letters[1])
        summed = set(rng.sample(sorted(shared), min(1, len(shared))))
        result = [
            x
            for x in sorted({*letters[0], *letters[1]} - summed)
            if x not in shared or rng.random() < 0.5
        ]
        rng.shuffle(result)
        equation = f"{''.join(letters[0])},{''.join(letters[1])}->{''.join(result)}"
        text = check(equation, rng.choice(list(CONSTANTS.values())))
        assert ("einsum" in text) == (not shared), equation


OTHERS = ["bh,bh", "bhw,bc->hc", "bb,bh->bh", "bhw->bwh", "b,b,b->b", "bhw,w->bhw"]


@pytest.mark.parametrize("equation", OTHERS)
def test_others_stay_as_they_are(equation):
    assert "einsum" in str(prepare(net(equation)[0])["main"])


def test_nothing_in_it_and_bytes_stay_as_they_are():
    nothing = net("bh,hk->bk", extents=EXTENTS | {"b": 0})[0]
    assert "einsum" in str(prepare(nothing)["main"])
    a, b = (relay.var(name, shape=(4, 8), dtype="int8") for name in "ab")
    function = relay.Function([a, b], relay.einsum(relay.Tuple([a, b]), "ij,kj->ik"))
    assert "einsum" in str(prepare(tvm.IRModule.from_expr(function))["main"])


def test_open_shapes_stay_as_they_are():
    a, b = relay.var("a", shape=(relay.Any(), 3)), relay.var("b", shape=(4, 3))
    function = relay.Function([a, b], relay.einsum(relay.Tuple([a, b]), "ij,kj->ik"))
    assert "einsum" in str(prepare(tvm.IRModule.from_expr(function))["main"])


def test_with_a_prelu_in_one_walk_of_which_a_user_may_disable_each():
    """Both forms are rewritten at once (prepare.py), each under its name."""
    a, b = relay.var("a", shape=(4, 8)), relay.var("b", shape=(5, 8))
    product = relay.einsum(relay.Tuple([a, b]), "ij,kj->ik")
    slopes = relay.const(np.full(20, 0.5, "float32"))
    flat = relay.nn.prelu(relay.reshape(product, (-1,)), slopes, axis=0)
    mod = tvm.IRModule.from_expr(relay.Function([a, b], relay.reshape(flat, (4, 5))))
    for disabled in ([], ["LowerEinsum"], ["RestorePReLU"], ["LowerEinsum", "RestorePReLU"]):
        with tvm.transform.PassContext(disabled_pass=disabled):
            text = str(prepare(mod)["main"])
        kept = ["LowerEinsum"] * ("einsum" in text) + ["RestorePReLU"] * ("nn.prelu" in text)
        assert kept == disabled
