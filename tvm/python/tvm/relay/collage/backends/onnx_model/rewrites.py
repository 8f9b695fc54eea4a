# SPDX-License-Identifier: Apache-2.0
"""From Relay's spelling to that of exporters, which onnxruntime and OpenVINO fuse.

Relay knows products of two and of three axes alone, adds biases after the layer, writes
normalisations and activations out. Each rule here undoes one of these where the result is equal but
for rounding. The tables are at the end. Test: backends/onnx_model/test_rewrites.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .builder import OnnxNode, Value
from .ops_recurrent import WITH_IDENTITY, WITH_PRODUCT
from .rewriting import Known, Made, Number, Pattern, Rewriting, Table, rule


def _along(array: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray | None:
    """Return the vector that an array is which differs along one axis of a shape alone, else
    None."""
    if array.ndim > len(shape):
        return None
    extents = [1] * (len(shape) - array.ndim) + list(array.shape)
    most = [shape[axis] if i == axis else 1 for i in range(len(shape))]
    if any(extent not in (1, end) for extent, end in zip(extents, most)):
        return None
    return np.broadcast_to(array.reshape(-1), (shape[axis],))


# Layers. What is dequantised from a constant is one, whose bytes stay.


def _dequantised(walk: Rewriting, name: str) -> tuple[OnnxNode, np.ndarray] | None:
    """Return the node that dequantises a constant, and the constant; None for other values."""
    node = walk.made(name, "DequantizeLinear")
    array = walk.array(node.inputs[0]) if node else None
    return None if node is None or array is None else (node, array)


def _dequantise(walk: Rewriting, node: OnnxNode, array: np.ndarray, axis: int) -> Value:
    """Add a node like that one, of other bytes, whose scales are along another axis."""
    inputs = [walk.new.constant(array), *(walk[name] for name in node.inputs[1:])]
    attrs = {"axis": axis} if node.attrs else {}
    return walk.new.node(node.operator, inputs, array.shape, node.outputs[0].dtype, **attrs)


def _vector(walk: Rewriting, name: str, shape: tuple[int, ...], axis: int) -> Value | None:
    """Return a known summand that differs along one axis alone, as a vector of the new graph."""
    found = _dequantised(walk, name)
    array = found[1] if found else walk.array(name)
    vector = _along(array, shape, axis) if array is not None else None
    if array is None or vector is None:
        return None
    if found is None:
        return walk.new.constant(vector)
    has_one_scale = array.size != vector.size and found[0].attrs
    return None if has_one_scale else _dequantise(walk, found[0], vector, axis=0)


def _transposed(walk: Rewriting, name: str) -> Value | None:
    """Return known weights of two axes, in the new graph, the other way round."""
    found = _dequantised(walk, name)
    array = found[1] if found else walk.array(name)
    if array is None or array.ndim != 2:
        return None
    if found is None:
        return walk.new.constant(array.T)
    return _dequantise(walk, found[0], array.T, axis=1 - found[0].attrs.get("axis", 0))


@rule(Made("Conv ConvTranspose", name="conv", is_once=True), "summand")
def _bias_of_convolution(walk: Rewriting, found: Any) -> Value | None:
    """Add(Conv(x, w), b) is Conv(x, w, b); a bias that is there is added to."""
    conv = found.conv
    bias = _vector(walk, found.summand, conv.shape, axis=1)
    if bias is None:
        return None
    data, weight, *before = (walk[name] for name in conv.inputs)
    if before:
        old, new = (walk.new.array_of(each) for each in (*before, bias))
        if old is None or new is None:
            return None
        bias = walk.new.constant(new + old)
    return walk.node(conv.operator, [data, weight, bias], conv.shape, **conv.attrs)


@rule(Made("Gemm", name="gemm", is_once=True), "summand")
def _gemm(walk: Rewriting, found: Any) -> Value | None:
    """Add(Gemm(x, w), b) is one Gemm."""
    gemm = found.gemm
    bias = _vector(walk, found.summand, gemm.shape, axis=1) if len(gemm.inputs) == 2 else None
    if bias is None:
        return None
    inputs = [*(walk[name] for name in gemm.inputs), bias]
    return walk.node("Gemm", inputs, gemm.shape, **gemm.attrs)


def _gemm_alone(walk: Rewriting, node: OnnxNode) -> Value | None:
    """MatMul(x, w) of two axes by known weights is a Gemm by their transposed, as of nn.Linear."""
    data, weight = walk[node.inputs[0]], _transposed(walk, node.inputs[1])
    if weight is None or data.rank != 2:
        return None
    return walk.node("Gemm", [data, weight], node.shape, transB=1)


@rule(Made("MatMul", "x", Known("weight"), name="product", is_once=True), Known("factor"))
def _scale_of_product(walk: Rewriting, found: Any) -> Value | None:
    """Mul(MatMul(x, w), s) with a known factor for each column is MatMul(x, w * s)."""
    shape = found.product.shape
    vector = _along(found.factor, shape, len(shape) - 1)
    if found.factor.size == 1 or found.weight.ndim != 2 or vector is None:
        return None
    return walk.node("MatMul", [walk[found.x], walk.new.constant(found.weight * vector)], shape)


# Shapes


@rule(Made("MatMul", Made("Reshape", "x"), "weight", is_once=True))
def _product_of_rows(walk: Rewriting, found: Any) -> Value | None:
    """Reshape(MatMul(Reshape(x), w)) with rows of x in any number of axes is MatMul(x, w)."""
    source, weight = walk[found.x], walk[found.weight]
    if weight.rank != 2 or source.rank < 3 or source.shape[-1] != weight.shape[0]:
        return None
    result = walk.node("MatMul", [source, weight], (*source.shape[:-1], weight.shape[1]))
    return walk.reshape(result, found.node.shape)


def _product_of_stacks(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Reshape(MatMul(Reshape(a), Reshape(b))) of three axes is MatMul(a, b) of more."""
    product = walk.made_once(node.inputs[0], "MatMul")
    wanted = node.shape
    if product is None or len(walk.shape(node.inputs[0])) != 3 or len(wanted) < 4:
        return None
    if wanted[-2:] != walk.shape(node.inputs[0])[-2:]:
        return None
    operands = [_stacked(walk, name, wanted[:-2]) for name in product.inputs]
    known = [each for each in operands if each is not None]
    return walk.node("MatMul", known, wanted) if len(known) == len(operands) else None


def _stacked(walk: Rewriting, name: str, lead: tuple[int, ...]) -> Value | None:
    """Return a value of three axes with other leading ones; None where that takes one more node."""
    shape = walk.shape(name)
    if len(shape) != 3 or shape[0] != math.prod(lead):
        return None
    wanted = (*lead, *shape[1:])
    array = walk.array(name)
    if array is not None:
        return walk.new.constant(array.reshape(wanted))
    source = walk.made(name, "Reshape")
    if source is not None:
        return walk.reshape(walk[source.inputs[0]], wanted)
    turned = walk.made(name, "Transpose")
    if turned is None or list(turned.attrs["perm"]) != [0, 2, 1]:
        return None
    value = _stacked(walk, turned.inputs[0], lead)
    if value is None:
        return None
    last = value.rank - 1
    return walk.node("Transpose", [value], wanted, perm=[*range(last - 1), last, last - 1])


def _reshape_twice(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Drop the first of two reshapes, and a reshape to the shape that is there."""
    before = walk.made(node.inputs[0], "Reshape")
    if before is not None:
        return walk.reshape(walk[before.inputs[0]], node.shape)
    is_nothing = walk.shape(node.inputs[0]) == node.shape
    return walk[node.inputs[0]] if is_nothing else None


@rule(Made("Transpose", "x", name="before"))
def _transpose_twice(walk: Rewriting, found: Any) -> Value:
    """Make two transposes one, or none."""
    order = [found.before.attrs["perm"][axis] for axis in found.node.attrs["perm"]]
    source = walk[found.x]
    if order == sorted(order):
        return source
    return walk.node("Transpose", [source], found.node.shape, perm=order)


def _reshape_last(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Move a reshape that keeps the last axis behind what has a number for each of its places.

    Not so where one number serves all: libraries take such a factor into a product next to it.
    """
    for at, name in enumerate(node.inputs):
        rows, array = walk.made_once(name, "Reshape"), walk.array(node.inputs[1 - at])
        if rows is None or array is None or array.size == 1:
            continue
        before, after = walk.shape(rows.inputs[0]), walk.shape(name)
        vector = _along(array, after, len(after) - 1) if after else None
        if vector is None or before[-1:] != after[-1:]:
            continue
        operands = [walk[rows.inputs[0]], walk.new.constant(vector)]
        result = walk.node(node.operator, operands[:: -1 if at else 1], before)
        return walk.reshape(result, after)
    return None


# Normalisations


@rule("x", Made("Reciprocal", Made("Sqrt", name="root")))
def _over_root(walk: Rewriting, found: Any) -> Value:
    """Mul(x, Reciprocal(Sqrt(y))) is Div(x, Sqrt(y))."""
    return walk.node("Div", [walk[found.x], walk[found.root.outputs[0].name]], found.node.shape)


def _square(of: Pattern) -> Pattern:
    return [Made("Pow", of, 2.0), Made("Mul", of, of)]


_CENTRED = Made("Sub", "data", Made("ReduceMean", "data", name="mean"), name="centred")
_VARIANCE = Made("ReduceMean", _square(_CENTRED), name="variance")
_DEVIATION = Made("Sqrt", Made("Add", _VARIANCE, Number("epsilon")))


def _normalisation(walk: Rewriting, found: Any) -> Value | None:
    """(x - mean) / sqrt(mean((x - mean)^2) + epsilon) over the last axes is a normalisation."""
    axis = _last_axes(found.mean)
    if axis is None or axis != _last_axes(found.variance):
        return None
    data = walk[found.data]
    return (
        _unscaled(walk, data, axis, epsilon=found.epsilon)
        if data.shape == found.node.shape
        else None
    )


_quotient = rule(_CENTRED, _DEVIATION)(_normalisation)
_product = rule(_CENTRED, Made("Div", 1.0, _DEVIATION))(_normalisation)


def _last_axes(mean: OnnxNode) -> int | None:
    """Return the first axis of a mean over that and all after it, which are kept."""
    axes = list(mean.attrs["axes"])
    is_last = mean.attrs["keepdims"] and axes == list(range(axes[0], len(mean.shape)))
    return axes[0] if is_last else None


def _unscaled(walk: Rewriting, data: Value, axis: int, epsilon: float) -> Value:
    """Return a normalisation with factors of one, of which two operators are the same: that with
    fewer."""
    is_instance = axis == 2 and data.shape[1] < math.prod(data.shape[2:])
    shape = data.shape[1:2] if is_instance else data.shape[axis:]
    ones = walk.new.constant(np.ones(shape, data.dtype))
    if is_instance:
        zeros = walk.new.constant(np.zeros(shape, data.dtype))
        inputs = [data, ones, zeros]
        return walk.node("InstanceNormalization", inputs, data.shape, epsilon=epsilon)
    return walk.node("LayerNormalization", [data, ones], data.shape, axis=axis, epsilon=epsilon)


@rule(Made("LayerNormalization InstanceNormalization", name="norm", is_once=True), Known("array"))
def _affine(walk: Rewriting, found: Any) -> Value | None:
    """Give a known factor or summand behind a normalisation to it, by place or by channel."""
    norm, array, shape = found.norm, found.array, found.norm.shape
    if array.ndim > len(shape):
        return None
    operator, axis = norm.operator, norm.attrs.get("axis", 2)
    numbers: list[Any] = [walk.array(name) for name in norm.inputs[1:]]
    scale, shift = numbers if len(numbers) == 2 else (*numbers, np.zeros_like(numbers[0]))
    vectors: dict[str, Any] = {
        "LayerNormalization": _broadcast(array, shape[axis:]),
        "InstanceNormalization": _along(array, shape, 1) if axis == 2 else None,
    }
    if vectors[operator] is None:  # it may be the other one, while it has no numbers of its own
        (operator,) = vectors.keys() - {operator}
        if vectors[operator] is None or not (np.all(scale == 1) and np.all(shift == 0)):
            return None
        scale, shift = np.ones_like(vectors[operator]), np.zeros_like(vectors[operator])
    vector = vectors[operator]
    if found.node.operator == "Mul":
        scale, shift = scale * vector, shift * vector
    else:
        shift = shift + vector
    inputs = [walk[norm.inputs[0]], *map(walk.new.constant, (scale, shift))]
    attrs = {"axis": axis} if operator == "LayerNormalization" else {}
    return walk.node(operator, inputs, shape, epsilon=norm.attrs["epsilon"], **attrs)


def _broadcast(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return an array in a shape, where what it has more of are axes of one."""
    more = max(array.ndim - len(shape), 0)
    fewer = (1,) * max(len(shape) - array.ndim, 0)
    extents = zip(fewer + array.shape, (1,) * more + shape)
    if any(extent not in (1, end) for extent, end in extents):
        return None
    return np.broadcast_to(array.reshape(array.shape[more:]), shape)


@rule(Made("ReduceSum", _square("x"), Known("axes"), name="total", is_once=True))
def _euclidean(walk: Rewriting, found: Any) -> Value:
    """Sqrt(ReduceSum(x * x)) is ReduceL2(x)."""
    attrs = {"axes": found.axes.tolist(), "keepdims": found.total.attrs["keepdims"]}
    return walk.node("ReduceL2", [walk[found.x]], found.node.shape, **attrs)


# Activations


@rule("x", Made("Clip", Made("Add", Made("Mul", "x", 1 / 6), 0.5), 0.0, 1.0))
def _hard_swish(walk: Rewriting, found: Any) -> Value | None:
    """x * Clip(x / 6 + 0.5, 0, 1) is HardSwish(x)."""
    data = walk[found.x]
    return walk.node("HardSwish", [data], data.shape) if data.shape == found.node.shape else None


@rule(Made("Add", Made("Mul", "x", Number("slope")), Number("shift")), 0.0, 1.0)
def _hard_sigmoid(walk: Rewriting, found: Any) -> Value | None:
    """Clip(x * a + b, 0, 1) is HardSigmoid(x)."""
    data, attrs = walk[found.x], {"alpha": found.slope, "beta": found.shift}
    if data.shape != found.node.shape:
        return None
    return walk.node("HardSigmoid", [data], data.shape, **attrs)


_GATE = Made("Add", Made("Erf", Made("Div", "x", math.sqrt(2))), 1.0)


@rule(Made("Mul", "x", _GATE, name="twice", is_once=True), Known("weight"))
def _gelu_before_layer(walk: Rewriting, found: Any) -> Value:
    """Rewrite a layer of x * (1 + erf(x / sqrt 2)), whose half FoldScaleAxis has put into the
    weights: they get it back, which is exact, so that the layer's input is a gelu again."""
    node, data = found.node, walk[found.twice.outputs[0].name]
    half = walk.node("Mul", [data, walk.new.scalar(0.5, data)], data.shape)
    rest = [walk[name] for name in node.inputs[2:]]
    inputs = [half, walk.new.constant(2 * found.weight), *rest]
    return walk.node(node.operator, inputs, node.shape, **node.attrs)


@rule([Made("Mul", "x", Known("scale"), is_once=True), "x"], Known("shift"))
def _batch_norm(walk: Rewriting, found: Any) -> Value | None:
    """x * s + b with numbers for each channel of an image is a batch norm."""
    data, shape, summand = walk[found.x], found.node.shape, found.shift
    # ONNX has no batch norm of integers.
    if len(shape) != 4 or data.shape != shape or summand.size == 1 or summand.dtype != np.float32:
        return None
    scale, shift = (_along(a, shape, 1) for a in (getattr(found, "scale", np.ones(1)), summand))
    if scale is None or shift is None:
        return None
    zeros, ones = np.zeros_like(shift), np.ones_like(shift)
    vectors = [scale.astype("float32"), shift, zeros, ones]
    inputs = [data, *map(walk.new.constant, vectors)]
    return walk.node("BatchNormalization", inputs, shape, epsilon=0.0)


# Indices

_COUNTED = Made(
    "Where",
    Made("Less", "given", 0.0),
    Made("Add", "given", Number("extent"), name="counted"),
    "given",
    is_once=True,
)
_AT_LEAST_0 = Made("Max", _COUNTED, 0.0, is_once=True)


@rule("data", Made("Min", _AT_LEAST_0, Number("last"), name="limit", is_once=True))
def _gather(walk: Rewriting, found: Any) -> Value | None:
    """Drop the clip of indices that are counted from the end where negative: Gather counts
    itself."""
    node, data, indices = found.node, walk[found.data], walk[found.given]
    extent = data.shape[node.attrs["axis"]]
    if not indices.shape == found.counted.shape == found.limit.shape:
        return None
    if (found.extent, found.last) != (extent, extent - 1):
        return None
    for operator, bound in (("Max", -extent), ("Min", extent - 1)):
        inputs = [indices, walk.new.scalar(bound, indices)]
        indices = walk.node(operator, inputs, indices.shape)
    return walk.node("Gather", [data, indices], node.shape, **node.attrs)


# What TVM's importer has taken apart, before its reshapes meet others.
_PRODUCTS: Table = {
    **WITH_PRODUCT,
    "Reshape": (_product_of_rows, _product_of_stacks),
    "Transpose": (_transpose_twice,),
}
_FORMS: Table = {
    "Add": (_bias_of_convolution, _affine, _reshape_last),
    "Conv": (_gelu_before_layer,),
    "Div": (_quotient, _reshape_last),
    "Gather": (_gather,),
    "MatMul": (_gelu_before_layer,),
    "Mul": (
        *(_hard_swish, _over_root, _product, _affine),
        *(_scale_of_product, _reshape_last),
    ),
    "Reshape": (_reshape_twice, _product_of_rows, _product_of_stacks),
    "Sqrt": (_euclidean,),
    "Sub": (_reshape_last,),
    "Transpose": (_transpose_twice,),
}
# Last, since a product of more axes is none.
_GEMM: Table = {"Add": (_gemm,), "MatMul": (_gemm_alone,)}
# Operators that some libraries run faster than what they are made of, others not.
_PREFERRED: dict[str, Table] = {
    "BatchNormalization": {"Add": (_batch_norm,)},
    "HardSigmoid": {"Clip": (_hard_sigmoid,)},
}
PREFERABLE = frozenset(_PREFERRED)


def stages(preferred: frozenset[str]) -> list[Table]:
    """Return the tables, one to be applied after the other, for a library that prefers some
    operators of PREFERABLE."""
    chosen = (_PREFERRED[name] for name in sorted(preferred))
    return [_PRODUCTS, _FORMS, _GEMM, *chosen, WITH_IDENTITY]
