# SPDX-License-Identifier: Apache-2.0
"""Parts in float32 that oneDNN computes in bfloat16: which types their primitives have, that kept
calls stay in float32, and that what is computed is near what float32 gives."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from onednn_nets import constant, function_of, hand_placed, needs_avx512, var
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import collage
from tvm.relay.collage.backends import dnnl, get_backend
from tvm.relay.collage.backends.accuracy import keeping, with_kept_calls
from tvm.relay.collage.backends.dnnl.bfloat16 import _shortest
from tvm.relay.collage.backends.dnnl.codegen import lower_function
from tvm.relay.collage.backends.dnnl.types import PRODUCTS
from tvm.relay.collage.backends.interface import KEPT_CALLS, kept_calls
from tvm.relay.collage.exec.arrays import numbers_of
from tvm.relay.collage.options import CollageOptions
from tvm.relay.collage.plans.placement.replay import read_placement
from tvm.relay.collage.plans.placement.types import from_json
from tvm.relay.collage.relay_util.external import is_external_function
from tvm.relay.collage.relay_util.node_spans import node_of, stamp_nodes
from tvm.relay.collage.relay_util.walk import operator_calls

pytestmark = needs_avx512
nn = relay.nn
X = var("x", 1, 16, 8, 8)


def conv(data, seed, channels=16):
    weights = constant(seed, channels, int(relay.transform.InferTypeLocal(data).shape[1]), 3, 3)
    return nn.conv2d(data, weights, padding=(1, 1), channels=channels, kernel_size=(3, 3))


def part_of(body, kept=()):
    function = hand_placed(function_of(body), "part", "dnnl_bf16")["part"]
    return function.with_attr(KEPT_CALLS, json.dumps([*kept])) if kept else function


def types(graph):
    """Each node with the types that it computes in, which for a product is that of its weights, and
    of its result."""
    return [
        f"{node.op} {graph.dtypes[node.inputs[node.op in PRODUCTS]]} {graph.dtypes[node.output]}"
        for node in graph.nodes
    ]


def lowered(body, kept=()):
    return lower_function(part_of(body, kept), is_short=True)


S, L = "bfloat16", "float32"
CHAIN = conv(nn.relu(conv(X, 1)), 2)
RESIDUAL = conv(nn.relu(conv(X, 1)) + nn.max_pool2d(X, (3, 3), padding=(1, 1)), 2)
SOFTMAX = nn.softmax(nn.dense(nn.batch_flatten(conv(X, 1)), constant(2, 10, 1024)))


@pytest.mark.parametrize(
    "body, kept, expected",
    [
        (CHAIN, (), [f"conv {S} {S}", f"conv {S} {L}"]),
        (CHAIN, (0,), [f"conv {L} {L}", f"conv {S} {L}"]),
        (CHAIN, (2,), [f"conv {S} {L}", f"conv {L} {L}"]),
        (CHAIN, (0, 2), [f"conv {L} {L}", f"conv {L} {L}"]),
        # What reads float32 is in float32: here the pool of the input.
        (
            RESIDUAL,
            (),
            [f"pool {L} {L}", f"conv {S} {S}", f"conv {S} {L}"],
        ),
        (
            SOFTMAX,
            (),
            [
                f"conv {S} {S}",
                f"reshape {S} {S}",
                f"inner_product {S} {L}",
                f"softmax {L} {L}",
            ],
        ),
        (nn.relu(X), (), [f"eltwise {L} {L}"]),
    ],
)
def test_products_are_short_and_others_follow_what_they_read(body, kept, expected):
    assert types(lowered(body, kept)) == expected


def test_a_sum_in_another_type_than_the_result_is_an_addition():
    inner = nn.relu(conv(X, 1))
    graph = lowered(conv(inner, 2) + inner)
    last = graph.nodes[-1]
    assert [post.kind for post in last.post_ops] == ["add"]
    assert graph.dtypes[last.output] == L and graph.dtypes[last.post_ops[0].input] == S


def test_biases_stay_in_float32_and_weights_do_not():
    graph = lowered(nn.relu(nn.bias_add(conv(X, 1), constant(3, 16))))
    (node,) = graph.nodes
    assert [graph.dtypes[tensor] for tensor in node.inputs] == [L, S, L]


def test_products_of_two_activations_get_conversions_one_for_several_readers():
    x = var("x", 1, 4, 8)
    product = nn.batch_matmul(x, x)
    graph = lowered(relay.Tuple([product, nn.batch_matmul(x, x + x)]))
    assert types(graph) == [
        f"convert {L} {S}",
        f"matmul {S} {L}",
        f"eltwise {L} {L}",  # x + x
        f"convert {L} {S}",
        f"matmul {S} {L}",
    ]
    y = nn.relu(product)
    found = types(lowered(relay.Tuple([nn.batch_matmul(y, y), nn.batch_matmul(product, y)]), (2,)))
    products = [each for each in found if each.startswith("matmul")]
    assert products == [f"matmul {S} {S}", f"matmul {L} {L}", f"matmul {S} {L}"]
    assert found.count(f"convert {S} {L}") == 1


@pytest.mark.parametrize("kept", [(), (0,), (2,), (4,), (0, 2), (0, 4), (2, 4)])
def test_what_is_read_in_two_types_has_both(kept):
    """Each reader converts what it reads while it lays it out."""
    x = np.random.default_rng(0).standard_normal((1, 16, 8, 8)).astype("float32")
    stem = nn.relu(conv(X, 1))
    body = conv(nn.relu(conv(stem, 2)) + stem, 3)
    right = run(body, x, backend="dnnl")
    assert np.abs(run(body, x, kept) - right).max() < 3e-2 * np.abs(right).max()


def test_a_model_in_bfloat16_stays_as_it_is():
    """Its weights are bits that are no numbers of float32."""
    x = var("x", 1, 16, 8, 8, dtype=S)
    weights = relay.const(_shortest(constant(1, 16, 16, 3, 3).data))
    body = nn.conv2d(x, weights, padding=(1, 1), channels=16, kernel_size=(3, 3))
    body = relay.cast(nn.relu(body) + body, L)
    mod = hand_placed(function_of(body), "part", "dnnl_bf16")
    own, exact = (lower_function(mod["part"], is_short=is_short) for is_short in (True, False))
    assert types(own) == types(exact)
    for mine, others in zip(own.constants.values(), exact.constants.values(), strict=True):
        np.testing.assert_array_equal(mine.numpy(), others.numpy())


@pytest.mark.parametrize("value, is_masked", [(-3.4028235e38, True), (-1e4, False)])
def test_masks_beyond_what_bfloat16_holds_are_added_in_float32(value, is_masked):
    """A row that is masked throughout would be no numbers."""
    x = var("x", 2, 16)
    mask = relay.const(np.full((2, 10), value, "float32"))
    scores = nn.dense(x, constant(1, 10, 16)) + mask
    body = nn.dense(nn.softmax(scores), constant(2, 4, 10))
    found = types(lowered(body))
    assert found[0] == f"inner_product {S} {L if is_masked else S}"
    x = np.random.default_rng(0).standard_normal((2, 16)).astype("float32")
    assert np.isfinite(run(body, x)).all()


def test_slopes_inside_a_convolution_are_in_float32():
    slopes = nn.dense(var("y", 1, 16), constant(3, 16, 16))
    body = nn.prelu(conv(X, 1), relay.reshape(slopes, (16,)))
    graph = lowered(relay.Tuple([body, nn.dense(slopes, constant(4, 2, 16))]))
    posts = [post for node in graph.nodes for post in node.post_ops if post.kind == "prelu"]
    assert all(graph.dtypes[post.input] == L for post in posts)


def test_a_value_that_is_output_and_read_is_in_float32():
    stem = nn.relu(conv(X, 1))
    assert types(lowered(relay.Tuple([stem, conv(stem, 2)]))) == [f"conv {S} {L}"] * 2


def test_a_transposed_convolution_that_is_kept_stays_so():
    noise = var("noise", 1, 16, 1, 1)
    weights = constant(1, 16, 32, 4, 4)
    body = nn.conv2d_transpose(noise, weights, channels=32, kernel_size=(4, 4))
    assert f"inner_product {S} {L}" in types(lowered(body))
    assert f"inner_product {L} {L}" in types(lowered(body, kept=(0,)))


def test_numbers_are_rounded_to_the_nearest():
    values = np.array(
        [1.0, 1 + 2**-9, 1 + 3 * 2**-9, np.finfo("float32").min, 0.0, np.inf, np.nan], "float32"
    )
    found = numbers_of(_shortest(tvm.nd.array(values)))
    np.testing.assert_array_equal(found[:3], np.float32([1.0, 1.0, 1 + 2**-7]))
    assert (
        np.isfinite(found[3])
        and found[3] < -3.3e38
        and found[4] == 0
        and np.isinf(found[5])
        and np.isnan(found[6])
    )


def run(body, x, kept=(), backend="dnnl_bf16"):
    mod = hand_placed(function_of(body), "part", backend)
    if kept:
        mod["part"] = mod["part"].with_attr(KEPT_CALLS, json.dumps([*kept]))
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, "llvm")
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(x=x)
    return executor.get_output(0).numpy()


@pytest.mark.parametrize("body", [CHAIN, RESIDUAL, SOFTMAX.args[0]])
def test_outputs_are_near_those_of_float32_and_the_same_where_all_is_kept(body):
    x = np.random.default_rng(0).standard_normal((1, 16, 8, 8)).astype("float32")
    right = run(body, x, backend="dnnl")
    calls = len(operator_calls(function_of(body)))
    error = np.abs(run(body, x) - right).max() / np.abs(right).max()
    assert 1e-5 < error < 5e-2
    np.testing.assert_allclose(run(body, x, kept=range(calls)), right, rtol=1e-4, atol=1e-4)


def test_calls_that_are_kept_are_named_by_their_place_in_the_part():
    prepared = stamp_nodes(relay.transform.InferType()(tvm.IRModule.from_expr(function_of(CHAIN))))
    main = prepared["main"]
    second = operator_calls(main)[2]
    mod = tvm.IRModule()
    mod["part"] = main.with_attr("Compiler", "dnnl_bf16")
    mod["exact"] = main.with_attr("Compiler", "dnnl")
    assert with_kept_calls(mod) is mod, "nothing is kept"
    with keeping([second.span.end_line]):
        marked = with_kept_calls(mod)
    assert kept_calls(marked["part"]) == {2}
    assert kept_calls(marked["exact"]) == frozenset() == kept_calls(mod["part"])


def test_a_placement_keeps_them_and_is_replayed_so(tmp_path):
    """The first convolution stays in float32 inside the part, here and in a plan of a file."""
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function_of(CHAIN)))
    targets = ["llvm", "dnnl_bf16"]
    options = CollageOptions(
        accuracy_budget=0.5, effort="quick", guard_rounds=6, progress="quiet", store="none"
    )
    seen = []

    def kept(prepared):
        seen.extend(node_of(call) for call in operator_calls(prepared["main"])[:1])
        return seen

    found = collage.optimize(mod, None, targets, options, kept=kept)
    made = found.placements.placement("dnnl_bf16")
    assert made.kept == tuple(seen)
    assert from_json(made.to_json()) == made
    again = collage.optimize(mod, None, targets, options, placement=made)
    (part,) = filter(is_external_function, again.mod.functions.values())
    (place,) = kept_calls(part)
    assert node_of(operator_calls(part)[place]) == seen[0]
    assert types(lower_function(part, is_short=True)) == [f"conv {L} {L}", f"conv {S} {L}"]
    made.save(tmp_path / "p.json")
    with pytest.raises(collage.PlacementError, match="keeps operators inside parts"):
        read_placement(str(tmp_path / "p.json"), mod, SimpleNamespace(primitive_targets=[]))


def test_it_is_there_where_the_cpu_has_bfloat16(monkeypatch):
    backend = get_backend("dnnl_bf16")
    assert backend.trades("nn.conv2d") == "bfloat16"
    for flags, is_there in (({"avx512f", "avx512_bf16"}, True), ({"avx512f"}, False)):
        monkeypatch.setattr(dnnl, "read_cpu_flags", lambda flags=flags: flags)
        assert (backend.available() is None) == is_there


def test_its_kernels_are_chosen_as_its_own():
    steps = get_backend("dnnl_bf16").kernel_steps(part_of(CHAIN))
    assert steps and {step.backend for step in steps} == {"dnnl_bf16"}
