# SPDX-License-Identifier: Apache-2.0
"""Constant folding by numpy: each operator against TVM's FoldConstant, and what is left alone."""

import numpy as np
import pytest
import tvm
from relay_text import operators
from tvm import relay
from tvm.relay.collage.compile.fast_passes import fast_passes
from tvm.relay.collage.compile.fold import fold_constants, fold_in_place
from tvm.relay.collage.compile.layout import parse_layout, transform_layout

RNG = np.random.RandomState(7)


def const(*shape, dtype="float32"):
    if dtype == "bool":
        return relay.const(RNG.rand(*shape) > 0.5)
    if dtype.startswith(("int", "uint")):
        return relay.const(RNG.randint(1, 100, size=shape).astype(dtype))
    return relay.const((RNG.rand(*shape) + 0.25).astype(dtype))


def signed(*shape):
    return relay.const(RNG.randn(*shape).astype("float32"))


def module(expr):
    return relay.transform.InferType()(tvm.IRModule.from_expr(expr))


def constants_of(expr):
    if isinstance(expr, relay.Tuple):
        return [array for field in expr.fields for array in constants_of(field)]
    assert isinstance(expr, relay.Constant), f"not folded: {expr}"
    return [expr.data.numpy()]


C34 = const(3, 4)
SCALAR = relay.const(2.5)
# All are folded; test_fold_ops.py has each operator on the edges of types.
FOLDED = [
    relay.reshape(const(2, 3), (0, 1, -1)),
    relay.layout_transform(const(16, 8, 3, 3), "OIHW", "OIHW8i16o"),
    relay.layout_transform(const(1, 2, 5, 5, 8), "NCHW8c", "NCHW4c"),
    relay.layout_transform(const(2, 3, 4, 5), "NCHW", "NHWC"),
    relay.layout_transform(const(8, 1, 3, 3), "OIHW", "OIHW1i8o"),
    relay.layout_transform(const(3, 3, 8, 16), "HWIO", "OIHW8i16o"),
    relay.layout_transform(const(32, 12), "NK", "NK16n"),
    relay.op._make.auto_scheduler_layout_transform(const(24, 32), "24j32k", "2j4k3j8k4j"),
    relay.concatenate([const(2, 3), const(2, 5)], axis=1),
    relay.split(const(6, 4), (1, 4)).astuple(),
    relay.split(const(6, 4), 2, axis=-1)[1],
    relay.strided_slice(const(6, 8), [1, 2], [5, 8], [2, 3]),
    relay.strided_slice(const(6, 8), [1], [-1], axes=[1]),
    relay.strided_slice(const(6, 8), [0, -3], [100, 100]),
    relay.cast(const(5), "int32"),
    relay.cast(const(5, dtype="int64"), "int8"),
    relay.full_like(C34, SCALAR),
    relay.add(signed(3, 1), signed(4)),
    relay.divide(relay.const([-7, 7, -7]), relay.const([2, -2, -2])),
    relay.floor_divide(relay.const(-7), relay.const(2)),
    relay.take(C34, relay.const([[2, 0]]), axis=0),
    relay.arange(relay.const(2), relay.const(-9), relay.const(-3), "int32"),
    relay.prod(const(3, 2, dtype="int64"), axis=1, keepdims=True),
    relay.negative(const(3, dtype="int8")),
    *(op(signed(9)) for op in (relay.abs, relay.ceil, relay.floor, relay.negative)),
    *(op(const(64, dtype="float64")) for op in (relay.sqrt, relay.rsqrt)),
]


def assert_folded_as_by_tvm(expr):
    mod = module(expr)
    ours = constants_of(fold_constants(mod)["main"].body)
    stock = constants_of(relay.transform.FoldConstant()(mod)["main"].body)
    for left, right in zip(ours, stock, strict=True):
        assert left.dtype == right.dtype and left.shape == right.shape
        np.testing.assert_array_equal(left, right)


def test_same_as_tvm():
    assert_folded_as_by_tvm(relay.Tuple(FOLDED))


def test_no_number_is_false_whoever_folds_it():
    """Every plan folds alike, so no comparison of plans would have seen it."""
    expr = relay.cast(relay.const(np.array([np.nan, 0.0, 1.0], "float32")), "bool")
    with fast_passes():
        folded = relay.transform.FoldConstant()(module(expr))
    assert constants_of(folded["main"].body)[0].tolist() == [False, False, True]


@pytest.mark.parametrize("seed", range(3))
def test_chains_of_operators(seed):
    """Random chains, each step a shape-keeping operator on what came before."""
    rng = np.random.RandomState(seed)
    expr = const(8, 16, 3, 3)
    steps = [
        lambda e: relay.multiply(e, const(8, 1, 1, 1)),
        lambda e: relay.add(e, signed(16, 3, 3)),
        lambda e: relay.transpose(relay.transpose(e, (2, 3, 0, 1)), (2, 3, 0, 1)),
        lambda e: relay.reshape(relay.layout_transform(e, "OIHW", "OIHW8i4o"), (8, 16, 3, 3)),
        lambda e: relay.concatenate(list(relay.split(e, 2, axis=1)), axis=1),
        lambda e: relay.sqrt(relay.abs(e)),
        lambda e: relay.squeeze(relay.expand_dims(e, 0), axis=[0]),
    ]
    for index in rng.randint(len(steps), size=8):
        expr = steps[index](expr)
    assert_folded_as_by_tvm(expr)


@pytest.mark.parametrize(
    "expr",
    [
        relay.exp(C34),  # not exactly TVM's in numpy
        relay.sum(C34),  # order of addition
        relay.nn.dense(C34, const(5, 4)),
        relay.divide(const(3, dtype="int32"), relay.const(0)),
        relay.floor_mod(relay.const(-(2**31)), relay.const(-1)),  # the quotient is no int32
        relay.equal(relay.const(float("nan")), relay.const(1.0)),
        relay.take(C34, relay.const([3]), axis=0),  # outside of the data
        relay.cast(relay.const(np.array([1e20, np.nan], "float32")), "int32"),  # out of range
        relay.cast(relay.const(np.array([1.0, np.nan], "float32")), "bool"),  # numpy: true
        relay.add(const(3, dtype="float16"), relay.const(np.float16(1))),
        relay.layout_transform(const(1, 10, 2, 2), "NCHW", "NCHW8c"),  # TVM pads
        relay.strided_slice(const(6), [4], [1], [-1]),
    ],
)
def test_what_numpy_may_not_decide_stays(expr):
    mod = module(expr)
    before = operators(mod)
    after = fold_constants(mod)
    assert operators(after) == before
    assert tvm.ir.structural_equal(after, mod, map_free_vars=True)


def test_calls_without_arguments_stay():
    mod = module(relay.add(relay.zeros((2, 2), "float32"), const(2, 2)))
    assert fold_constants(mod)["main"].body.op.name == "add"


def test_parts_with_inputs_stay():
    x = relay.var("x", shape=(3, 4))
    mod = module(relay.Function([x], relay.add(relay.transpose(x), relay.transpose(C34))))
    folded = fold_constants(mod)
    assert operators(folded) == ["transpose", "add"]
    assert isinstance(folded["main"].body.args[1], relay.Constant)


def test_nothing_to_fold_returns_the_same_function():
    x = relay.var("x", shape=(3, 4))
    mod = module(relay.Function([x], relay.add(x, C34)))
    func = mod["main"]
    assert not fold_in_place(mod) and mod["main"].same_as(func)


def test_shared_constants_stay_shared():
    x = relay.var("x", shape=(3, 4))
    weight = relay.transpose(const(4, 3))
    kept = const(3, 4)
    body = relay.add(relay.multiply(x, weight), weight)
    body = relay.add(relay.multiply(body, kept), kept)
    outer = fold_constants(module(relay.Function([x], body)))["main"].body
    inner = outer.args[0].args[0]
    assert outer.args[1].same_as(outer.args[0].args[1])
    assert inner.args[1].same_as(inner.args[0].args[1])


def test_tuples():
    x = relay.var("x", shape=(3, 4))
    parts = relay.split(const(6, 4), 2)
    body = relay.Tuple([relay.add(x, parts[0]), relay.negative(parts[1]), x])
    folded = fold_constants(module(relay.Function([x], body)))["main"].body
    assert isinstance(folded.fields[0].args[1], relay.Constant)
    assert isinstance(folded.fields[1], relay.Constant)
    picked = relay.TupleGetItem(relay.Tuple([x, C34]), 0)
    assert isinstance(fold_constants(module(relay.Function([x], picked)))["main"].body, relay.Var)


def test_let_and_if():
    x, bound = relay.var("x", shape=(3, 4)), relay.var("v")
    cond = relay.var("c", shape=(), dtype="bool")
    body = relay.Let(bound, relay.add(x, relay.transpose(const(4, 3))), relay.negative(bound))
    body = relay.If(cond, body, relay.multiply(x, relay.transpose(const(4, 3))))
    folded = fold_constants(module(relay.Function([x, cond], body)))
    assert sorted(operators(folded)) == ["add", "multiply", "negative"]


@pytest.mark.parametrize("attr, value", [("Primitive", 1), ("Compiler", "dnnl")])
def test_closed_functions_are_not_entered(attr, value):
    x = relay.var("x", shape=(3, 4))
    inner = relay.Function([x], relay.add(x, relay.transpose(const(4, 3))))
    inner = inner.with_attr(attr, value).with_attr("global_symbol", "part_0")
    mod = tvm.IRModule()
    part = relay.GlobalVar("part_0")
    mod[part] = inner
    y, z = relay.var("y", shape=(3, 4)), relay.var("z", shape=(3, 4))
    literal = relay.Function([z], relay.add(z, relay.transpose(const(4, 3)))).with_attr(attr, value)
    mod["main"] = relay.Function([y], relay.Call(literal, [relay.Call(part, [y])]))
    mod = relay.transform.InferType()(mod)
    assert tvm.ir.structural_equal(fold_constants(mod), mod)


def test_types_are_kept():
    """Later passes (shape_of) read the types of rebuilt calls."""
    x = relay.var("x", shape=(3, 4))
    mod = module(relay.Function([x], relay.add(x, relay.transpose(const(4, 3)))))
    assert fold_in_place(mod) and mod["main"].body.checked_type == relay.TensorType((3, 4))


def test_untyped_functions_stay():
    x = relay.var("x", shape=(4,))
    func = relay.Function([x], relay.add(x, relay.reshape(const(2, 2), (4,))))
    mod = tvm.IRModule.from_expr(func)
    assert not fold_in_place(mod) and mod["main"].same_as(func)


def test_deep_network():
    """Deeper than Python's recursion goes."""
    x = relay.var("x", shape=(4,))
    body = x
    for _ in range(1200):
        body = relay.add(body, relay.reshape(const(2, 2), (4,)))
    assert set(operators(fold_constants(module(relay.Function([x], body))))) == {"add"}


def test_layout_parser():
    assert parse_layout("CN8c") == [("C", 0, 0), ("N", 0, 0), ("C", 1, 8)]
    for text in ("NCHW8", "NCHWc", "NCHH", "HW8c", "NCHW8c4c", "", "?"):
        assert not parse_layout(text)
    assert transform_layout(np.zeros((2, 3), "float32"), "NC", "NCHW") is None
    assert transform_layout(np.zeros((2, 3), "float32"), "NCH", "NHC") is None
