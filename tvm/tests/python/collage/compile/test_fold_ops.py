# SPDX-License-Identifier: Apache-2.0
"""Each evaluator of constant folding beside TVM's FoldConstant, on numbers at the edges of types.

What is right is what TVM's own kernel gives: FoldConstant runs it, and so does a library. Compared
are all bits but those of NaNs, whose sign and payload IEEE 754 leaves open.
"""

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.relay.collage.compile.fold import fold_constants
from tvm.relay.collage.compile.fold_ops import EVALUATORS
from tvm.relay.collage.exec.arrays import PLAIN_DTYPES

DTYPES = sorted(PLAIN_DTYPES)
# One of each width, and what is no plain number.
MOVED = ("bool", "float16", "float32", "uint64")
# Of functions that the table treats as another one that all types are tried with.
FEW = ("float16", "float32", "int8", "uint64")


def extremes(dtype):
    """Values at which kernels and numpy could differ: limits, both zeros, denormals, no numbers,
    and what is just outside of other types."""
    if dtype == "bool":
        return np.array([True, False])
    if not dtype.startswith("float"):
        limits = np.iinfo(dtype)
        signed = [-1, -2, -7] if limits.min else []
        near = [limits.max, limits.max - 1, limits.max // 2 + 1, limits.min, limits.min + 1]
        return np.array([0, 1, 2, 7, *near, *signed], dtype)
    limits = np.finfo(dtype)
    own = [limits.max, limits.tiny, limits.smallest_subnormal, limits.eps, np.inf, np.nan, 0.0]
    edges = [2.0**bits + step for bits in (7, 8, 15, 16, 31, 32, 63, 64) for step in (-1, 0, 1)]
    numbers = np.array([*own, 0.5, 0.99, 1, 1.5, 2.5, 1 / 3, 7, 1e30, *edges])
    with np.errstate(over="ignore"):
        return np.concatenate([numbers, -numbers]).astype(dtype)


def const(array):
    return relay.Constant(tvm.nd.array(np.asarray(array)))


def filled(dtype, *shape):
    """A constant of the shape, its numbers those of extremes again and again."""
    return const(np.resize(extremes(dtype), shape))


def moved(*makers):
    """Expressions of data movement: the first maker for one type of each width, then the others."""
    kinds = [(makers[0], dtype) for dtype in MOVED]
    kinds += [(maker, MOVED[i % len(MOVED)]) for i, maker in enumerate(makers[1:])]
    return [maker(lambda *shape, d=dtype: filled(d, *shape)) for maker, dtype in kinds]


def laid_out(weight, source, target):
    return relay.op._make.auto_scheduler_layout_transform(weight, source, target)


def unary(op):
    return [
        op(filled(dtype, *shape))
        for dtype in FEW
        for shape in ([50], [], [0])[: 3 if dtype == "float32" else 1]
    ]


def binary(op, dtypes=FEW):
    """Every pair of numbers, no numbers at all, and two scalars."""
    made = []
    for dtype in dtypes:
        values = extremes(dtype)
        made.append(op(const(values[:, None]), const(values[None, :])))
    return [*made, op(filled("float32", 0, 3), filled("float32", 3)), op(const(1), const(2))]


def compared(op, dtypes=FEW):
    """Pairs as of binary, and of numbers alone: one that is none leaves all to TVM."""
    values = [extremes(dtype) for dtype in dtypes if dtype.startswith("float")]
    values = [array[~np.isnan(array)] for array in values]
    return binary(op, dtypes) + [
        op(const(array[:, None]), const(array[None, :])) for array in values
    ]


def divided(op, dtypes=FEW):
    """Pairs as of binary, and those of integers that have a quotient."""
    made = binary(op, dtypes)
    for dtype in dtypes:
        if "int" in dtype:
            values = extremes(dtype)
            divisors = values[(values > 0) | (values < -1)]
            made.append(op(const(values[:, None]), const(divisors[None, :])))
    return made


def floored(op):
    """Pairs of integers one by one: TVM's own kernel of arrays of them does not compile."""
    pairs = [(7, 2), (-7, 2), (7, -2), (-7, -2), (-6, 3), (0, -5), (2**31 - 1, -7), (-(2**31), 2)]
    return [
        op(relay.const(left, dtype), relay.const(right, dtype))
        for dtype in ("int32", "int64")
        for left, right in pairs
    ]


def logical(op):
    return [op(const(np.array([[True], [False]])), const(np.array([True, False])))]


def taken(shape, indices, **attrs):
    return lambda of: relay.take(of(*shape), const(np.array(indices)), **attrs)


def arange(start, stop, step, dtype):
    return relay.arange(*(relay.const(item, dtype) for item in (start, stop, step)), dtype)


def filling(op):
    return [op(filled(dtype, 3)) for dtype in FEW] + [op(filled("float32", 0, 2))]


def slices(begin, end, *rest, shape=(4, 6), **attrs):
    return lambda of: relay.strided_slice(of(*shape), begin, end, *rest, **attrs)


FUZZ = {
    "reshape": lambda: moved(
        lambda of: relay.reshape(of(4, 6), (3, 8)),
        lambda of: relay.reshape(of(1), ()),
        lambda of: relay.reshape(of(), (1, 1)),
        lambda of: relay.reshape(of(0, 4), (-1, 2)),
    ),
    "contrib_reverse_reshape": lambda: moved(
        lambda of: relay.op.transform.reverse_reshape(of(2, 3, 4), (-1, 0)),
    ),
    "reshape_like": lambda: moved(
        lambda of: relay.reshape_like(of(2, 6), of(3, 4)),
        lambda of: relay.reshape_like(of(0, 6), of(3, 0)),
    ),
    "expand_dims": lambda: moved(
        lambda of: relay.expand_dims(of(3, 4), 1, 2),
        lambda of: relay.expand_dims(of(), 0),
        lambda of: relay.expand_dims(of(0, 3), -1),
    ),
    "squeeze": lambda: moved(
        lambda of: relay.squeeze(of(1, 3, 1)),
        lambda of: relay.squeeze(of(1, 1)),
        lambda of: relay.squeeze(of(0, 1), axis=[1]),
    ),
    "nn.batch_flatten": lambda: moved(
        lambda of: relay.nn.batch_flatten(of(2, 3, 4)),
        lambda of: relay.nn.batch_flatten(of(0, 3, 2)),
    ),
    "broadcast_to": lambda: moved(
        lambda of: relay.broadcast_to(of(3, 1), (2, 3, 4)),
        lambda of: relay.broadcast_to(of(), (2, 3)),
        lambda of: relay.broadcast_to(of(1, 3), (0, 3)),
    ),
    "broadcast_to_like": lambda: moved(
        lambda of: relay.broadcast_to_like(of(3, 1), of(3, 4)),
        lambda of: relay.broadcast_to_like(of(1, 3), of(0, 3)),
    ),
    "transpose": lambda: moved(
        lambda of: relay.transpose(of(2, 3, 4), (1, -1, 0)),
        lambda of: relay.transpose(of()),
        lambda of: relay.transpose(of(0, 3)),
    ),
    "layout_transform": lambda: moved(
        lambda of: relay.layout_transform(of(16, 8, 3, 3), "OIHW", "OIHW4i8o"),
        lambda of: relay.layout_transform(of(1, 2, 5, 5, 8), "NCHW8c", "NCHW4c"),
        lambda of: relay.layout_transform(of(0, 16, 2, 2), "NCHW", "NCHW8c"),
        lambda of: relay.layout_transform(of(1, 10, 2, 2), "NCHW", "NCHW8c"),
    ),
    "auto_scheduler_layout_transform": lambda: moved(
        lambda of: laid_out(of(24, 32), "24j32k", "3j32k8j"),
        lambda of: laid_out(of(24, 32), "24j32k", "2j4k3j8k4j"),
        lambda of: laid_out(of(1, 3, 4, 6), "1IntImm3kh4ci6co", "2co3kh4ci3co"),
    ),
    "concatenate": lambda: moved(
        lambda of: relay.concatenate([of(2, 3), of(4, 3)], -2),
        lambda of: relay.concatenate([of(0, 3), of(2, 3)], 0),
        lambda of: relay.concatenate([of(0, 3), of(0, 3)], 1),
    ),
    "stack": lambda: moved(
        lambda of: relay.stack([of(3, 4), of(3, 4)], 1),
        lambda of: relay.stack([of(), of()], 0),
        lambda of: relay.stack([of(0), of(0)], -1),
    ),
    "split": lambda: moved(
        lambda of: relay.split(of(6, 4), 3).astuple(),
        lambda of: relay.split(of(6, 4), (1, 4)).astuple(),
        lambda of: relay.split(of(0, 4), 2, axis=-1).astuple(),
    ),
    "repeat": lambda: moved(
        lambda of: relay.repeat(of(3, 4), 2, 0),
        lambda of: relay.repeat(of(3, 4), 3, -1),
        lambda of: relay.repeat(of(5), 1, 0),
        lambda of: relay.repeat(of(0, 2), 2, 1),
    ),
    "strided_slice": lambda: moved(
        slices([1, 0], [4, 6], [2, 4]),
        slices([-10], [-1]),
        slices([0, -3], [100, 100]),
        slices([2], [2]),
        slices([6], [9]),
        slices([0], [-10]),
        slices([0, 0], [2, 1], [1, 1], axes=[1, 0]),
        slices([0], [3], shape=(0, 2)),
        slices([4], [1], [-1]),
        slices([1, 1], [2, 3], slice_mode="size"),
    ),
    "copy": lambda: moved(lambda of: relay.copy(of(50)), lambda of: relay.copy(of())),
    "cast": lambda: (
        [
            relay.cast(held_by(wanted, dtype), wanted)
            for dtype in DTYPES
            for wanted in ("bool", "float32", "int8")
            if wanted != dtype
        ]
        + [relay.cast(filled(dtype, 50), "bool") for dtype in ("float32", "float64")]
        + [relay.cast(held_by(wanted, "float64"), wanted) for wanted in ("uint32", "int64")]
        + [relay.cast(filled("float64", 50), "float32"), relay.cast(filled("float32", 0), "int32")]
    ),
    "cast_like": lambda: [
        relay.cast_like(filled("int32", 50), filled(dtype, 1)) for dtype in ("bool", "int8")
    ],
    "full": lambda: (
        [relay.full(filled(dtype), (2, 3), dtype) for dtype in DTYPES]
        + [relay.full(filled("float32"), shape, "float32") for shape in [(), (0,)]]
        + [relay.full(const(np.float32(2.5)), (2,), "int32")]
    ),
    "full_like": lambda: (
        [relay.full_like(filled(dtype, 2), filled(dtype)) for dtype in FEW]
        + [relay.full_like(filled("int32", 2), const(np.float32(np.nan)))]
    ),
    "zeros_like": lambda: filling(relay.zeros_like),
    "ones_like": lambda: filling(relay.ones_like),
    "add": lambda: binary(relay.add, DTYPES),
    "subtract": lambda: binary(relay.subtract),
    "multiply": lambda: binary(relay.multiply),
    "divide": lambda: divided(relay.divide, DTYPES),
    "floor_divide": lambda: floored(relay.floor_divide),
    "mod": lambda: divided(relay.mod),
    "floor_mod": lambda: floored(relay.floor_mod),
    "maximum": lambda: binary(relay.maximum),
    "minimum": lambda: binary(relay.minimum),
    "equal": lambda: compared(relay.equal),
    "not_equal": lambda: compared(relay.not_equal),
    "less": lambda: compared(relay.less, DTYPES),
    "less_equal": lambda: compared(relay.less_equal),
    "greater": lambda: compared(relay.greater),
    "greater_equal": lambda: compared(relay.greater_equal),
    "logical_and": lambda: logical(relay.logical_and),
    "logical_or": lambda: logical(relay.logical_or),
    "logical_not": lambda: [relay.logical_not(const(np.array([True, False])))],
    "where": lambda: moved(
        lambda of: relay.where(const(np.resize([True, False], (4, 1))), of(4, 6), of(6)),
        lambda of: relay.where(const(True), of(), of(3)),
        lambda of: relay.where(const(np.zeros((0, 1), bool)), of(0, 2), of(2)),
    ),
    "take": lambda: moved(
        taken((4, 6), [[0, 3], [1, 1]], axis=0),
        taken((4, 6), 2, axis=-1),
        taken((4, 6), [23, 0]),
        taken((4, 6), np.zeros((0, 2), "int32"), axis=1),
        taken((4, 6), [-1, 3], axis=0, mode="wrap"),
        taken((4, 6), [4, 3], axis=0),
        taken((2, 4, 6), [[0, 1], [3, 2]], axis=1, batch_dims=1),
    ),
    "arange": lambda: [
        arange(*bounds, dtype)
        for dtype in ("int32", "int64", "float32")
        for bounds in [(0, 5, 1), (7, -8, -3), (2, 9, 4), (3, 4, 1)]
    ],
    "prod": lambda: (
        [
            relay.prod(filled(dtype, 3, 2), **attrs)
            for dtype in ("int32", "int64", "uint8", "float32")
            for attrs in [{}, {"axis": 0}, {"axis": [0, -1], "keepdims": True}]
        ]
        + [relay.prod(filled("int64", 3, 2), axis=0, exclude=True)]
        + [relay.prod(filled("int32", 0, 2), axis=0), relay.prod(filled("int64"))]
    ),
    "ceil": lambda: unary(relay.ceil),
    "floor": lambda: unary(relay.floor),
    "negative": lambda: unary(relay.negative),
    "abs": lambda: unary(relay.abs),
    "sqrt": lambda: unary(relay.sqrt),
    "rsqrt": lambda: unary(relay.rsqrt),
}


# Types of the operands of what is folded and not empty, of those in FUZZ; of others: MOVED.
NUMBERS = " ".join(sorted(set(DTYPES) - {"bool", "float16"}))
FOLDED_TYPES = {
    "add divide less": NUMBERS,
    "cast": f"bool {NUMBERS}",
    "full": f"bool float16 {NUMBERS}",
    "full_like zeros_like ones_like": "float16 float32 int8 uint64",
    "subtract multiply": "float32 int64 int8 uint64",
    "equal not_equal less_equal greater greater_equal": "float32 int64 int8 uint64",
    "mod maximum minimum": "int64 int8 uint64",
    "floor_divide floor_mod arange": "int32 int64",
    "take": "bool float16 float32 int64 uint64",
    "prod": "int32 int64 uint8",
    "negative abs": "float32 int8",
    "ceil floor sqrt rsqrt": "float32",
    "cast_like": "bool int32 int8",
    "logical_and logical_or logical_not": "bool",
}


def held_by(wanted, dtype):
    """The extremes of `dtype` that `wanted` can hold: of others one would leave all to TVM."""
    values = extremes(dtype).astype("float64")
    if wanted == "bool":
        held = ~np.isnan(values)
    elif wanted.startswith("float"):
        held = np.full(values.shape, True)
    else:
        held = (values > float(np.iinfo(wanted).min)) & (values < float(np.iinfo(wanted).max))
    return const(np.resize(extremes(dtype)[held], 50))


def leaves(expr):
    if isinstance(expr, relay.Tuple):
        return [leaf for field in expr.fields for leaf in leaves(field)]
    return [expr]


def is_same(left, right):
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind != "f":
        return left.tobytes() == right.tobytes()
    signs = np.signbit(left) == np.signbit(right)
    return np.array_equal(left, right, equal_nan=True) and (signs | np.isnan(left)).all()


def test_each_evaluator_is_fuzzed():
    assert set(FUZZ) == set(EVALUATORS)


@pytest.mark.parametrize("name", sorted(EVALUATORS))
def test_what_is_folded_is_what_tvm_computes(name):
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Tuple(FUZZ[name]())))
    ours = fold_constants(mod)["main"].body
    folded = [
        (call, result)
        for call, result in zip(mod["main"].body.fields, ours.fields, strict=True)
        if all(isinstance(leaf, relay.Constant) for leaf in leaves(result))
    ]
    operands = [
        operand
        for call, result in folded
        if all(leaf.data.numpy().size for leaf in leaves(result))
        for operand in call.args
    ]
    types = {leaf.data.dtype for operand in operands for leaf in leaves(operand)}
    wanted = [kinds for names, kinds in FOLDED_TYPES.items() if name in names.split()]
    assert " ".join(sorted(types)) == (wanted or [" ".join(MOVED)])[0]
    stock = tvm.IRModule.from_expr(relay.Tuple([call for call, _ in folded]))
    stock = relay.transform.FoldConstant()(relay.transform.InferType()(stock))["main"].body
    for (call, result), truth in zip(folded, stock.fields, strict=True):
        for left, right in zip(leaves(result), leaves(truth), strict=True):
            left, right = left.data.numpy(), right.data.numpy()
            assert is_same(left, right), f"{call}\n{left}\nTVM: {right}"
