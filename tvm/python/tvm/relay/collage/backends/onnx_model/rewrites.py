# SPDX-License-Identifier: Apache-2.0
"""From Relay's spelling to that of exporters, which onnxruntime and OpenVINO fuse.

Relay knows products of two and of three axes alone, adds biases after the layer, writes
normalisations and activations out. Each rule here undoes one of these where the result is equal but
for rounding. The tables are at the end. Test: backends/onnx_model/test_rewrites.py.
"""

from __future__ import annotations

import math

import numpy as np

from .builder import OnnxNode, Value
from .ops_recurrent import WITH_IDENTITY, WITH_PRODUCT
from .rewriting import Rewriting, Table


def _pairs(node: OnnxNode) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return both operands of a sum or product, each as the first."""
    first, second = node.inputs
    return (first, second), (second, first)


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


def _is_close(number: float | None, wanted: float) -> bool:
    return number is not None and math.isclose(number, wanted, rel_tol=1e-6)


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
    return None if has_one_scale else _dequantise(walk, found[0], vector, 0)


def _transposed(walk: Rewriting, name: str) -> Value | None:
    """Return known weights of two axes, in the new graph, the other way round."""
    found = _dequantised(walk, name)
    array = found[1] if found else walk.array(name)
    if array is None or array.ndim != 2:
        return None
    if found is None:
        return walk.new.constant(array.T)
    return _dequantise(walk, found[0], array.T, 1 - found[0].attrs.get("axis", 0))


def _bias_of_convolution(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Add(Conv(x, w), b) is Conv(x, w, b); a bias that is there is added to."""
    for layer, summand in _pairs(node):
        conv = walk.made_once(layer, "Conv", "ConvTranspose")
        bias = _vector(walk, summand, walk.shape(layer), 1) if conv else None
        if conv is None or bias is None:
            continue
        if len(conv.inputs) == 3:
            before, array = walk.array(conv.inputs[2]), walk.new.array_of(bias)
            if before is None or array is None:
                continue
            bias = walk.new.constant(array + before)
        data, weight = (walk[name] for name in conv.inputs[:2])
        return walk.node(conv.operator, [data, weight, bias], walk.shape(layer), **conv.attrs)
    return None


def _gemm(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Add(Gemm(x, w), b) is one Gemm."""
    for layer, summand in _pairs(node):
        gemm = walk.made_once(layer, "Gemm")
        if gemm is None or len(gemm.inputs) == 3:
            continue
        bias = _vector(walk, summand, walk.shape(layer), 1)
        if bias is not None:
            inputs = [*(walk[name] for name in gemm.inputs), bias]
            return walk.node("Gemm", inputs, walk.shape(layer), **gemm.attrs)
    return None


def _gemm_alone(walk: Rewriting, node: OnnxNode) -> Value | None:
    """MatMul(x, w) of two axes by known weights is a Gemm by their transposed, as of nn.Linear."""
    data, weight = walk[node.inputs[0]], _transposed(walk, node.inputs[1])
    if weight is None or data.rank != 2:
        return None
    return walk.node("Gemm", [data, weight], node.outputs[0].shape, transB=1)


def _scale_of_product(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Mul(MatMul(x, w), s) with a known factor for each column is MatMul(x, w * s)."""
    for layer, factor in _pairs(node):
        product, array = walk.made_once(layer, "MatMul"), walk.array(factor)
        if product is None or array is None or array.size == 1:
            continue
        weight, shape = walk.array(product.inputs[1]), walk.shape(layer)
        vector = _along(array, shape, len(shape) - 1)
        if weight is None or weight.ndim != 2 or vector is None:
            continue
        inputs = [walk[product.inputs[0]], walk.new.constant(weight * vector)]
        return walk.node("MatMul", inputs, shape)
    return None


# Shapes


def _product_of_rows(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Reshape(MatMul(Reshape(x), w)) with rows of x in any number of axes is MatMul(x, w)."""
    product = walk.made_once(node.inputs[0], "MatMul")
    rows = walk.made(product.inputs[0], "Reshape") if product else None
    if product is None or rows is None or len(walk.shape(product.inputs[1])) != 2:
        return None
    source, weight = walk[rows.inputs[0]], walk[product.inputs[1]]
    if source.rank < 3 or source.shape[-1] != weight.shape[0]:
        return None
    result = walk.node("MatMul", [source, weight], (*source.shape[:-1], weight.shape[1]))
    return walk.reshape(result, node.outputs[0].shape)


def _product_of_stacks(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Reshape(MatMul(Reshape(a), Reshape(b))) of three axes is MatMul(a, b) of more."""
    product = walk.made_once(node.inputs[0], "MatMul")
    wanted = node.outputs[0].shape
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
        return walk.reshape(walk[before.inputs[0]], node.outputs[0].shape)
    is_nothing = walk.shape(node.inputs[0]) == node.outputs[0].shape
    return walk[node.inputs[0]] if is_nothing else None


def _transpose_twice(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Make two transposes one, or none."""
    before = walk.made(node.inputs[0], "Transpose")
    if before is None:
        return None
    order = [before.attrs["perm"][axis] for axis in node.attrs["perm"]]
    source = walk[before.inputs[0]]
    if order == sorted(order):
        return source
    return walk.node("Transpose", [source], node.outputs[0].shape, perm=order)


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


def _over_root(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Mul(x, Reciprocal(Sqrt(y))) is Div(x, Sqrt(y))."""
    for value, factor in _pairs(node):
        inverse = walk.made(factor, "Reciprocal")
        if inverse is not None and walk.made(inverse.inputs[0], "Sqrt"):
            return walk.node("Div", [walk[value], walk[inverse.inputs[0]]], node.outputs[0].shape)
    return None


def _normalisation(walk: Rewriting, node: OnnxNode) -> Value | None:
    """(x - mean) / sqrt(mean((x - mean)^2) + epsilon) over the last axes is a normalisation."""
    for centred, divisor in _quotients(walk, node):
        difference, root = walk.made(centred, "Sub"), walk.made(divisor, "Sqrt")
        total = walk.made(root.inputs[0], "Add") if root else None
        if difference is None or total is None:
            continue
        data, mean = difference.inputs
        if walk.shape(data) != node.outputs[0].shape:
            continue
        for variance, number in _pairs(total):
            epsilon, axes = walk.number(number), _last_axes(walk, variance)
            if epsilon is None or axes is None or _last_axes(walk, mean) != axes:
                continue
            of_squares, of_data = (walk.made(each, "ReduceMean") for each in (variance, mean))
            if of_squares is None or of_data is None or of_data.inputs[0] != data:
                continue
            if _squared(walk, of_squares.inputs[0]) != centred:
                continue
            return _unscaled(walk, walk[data], axes, epsilon)
    return None


def _quotients(walk: Rewriting, node: OnnxNode) -> list[tuple[str, str]]:
    """Return what a quotient divides by what; a product with 1 / y is a quotient."""
    if node.operator == "Div":
        return [(node.inputs[0], node.inputs[1])]
    found = []
    for value, factor in _pairs(node):
        inverse = walk.made(factor, "Div")
        if inverse is not None and walk.number(inverse.inputs[0]) == 1:
            found.append((value, inverse.inputs[1]))
    return found


def _last_axes(walk: Rewriting, name: str) -> int | None:
    """Return the first axis of a mean over that and all after it, which are kept."""
    mean = walk.made(name, "ReduceMean")
    if mean is None or not mean.attrs["keepdims"]:
        return None
    axes, rank = list(mean.attrs["axes"]), len(walk.shape(name))
    return axes[0] if axes == list(range(axes[0], rank)) else None


def _squared(walk: Rewriting, name: str) -> str | None:
    """Return the value whose square it is; None for no square."""
    square = walk.made(name, "Pow", "Mul")
    if square is None:
        return None
    first, second = square.inputs
    is_square = first == second if square.operator == "Mul" else walk.number(second) == 2
    return first if is_square else None


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


def _affine(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Give a known factor or summand behind a normalisation to it, by place or by channel."""
    for name, number in _pairs(node):
        norm = walk.made_once(name, "LayerNormalization", "InstanceNormalization")
        array, shape = walk.array(number), walk.shape(name)
        if norm is None or array is None or array.ndim > len(shape):
            continue
        is_instance = norm.operator == "InstanceNormalization"
        axis = 2 if is_instance else norm.attrs["axis"]
        scale = walk.array(norm.inputs[1])
        shift = walk.array(norm.inputs[2]) if len(norm.inputs) == 3 else np.zeros_like(scale)
        by_place = _broadcast(array, shape[axis:])
        by_channel = _along(array, shape, 1) if axis == 2 else None
        vector = by_channel if is_instance else by_place
        if vector is None:  # of the other operator, as long as this one has no numbers of its own
            if not (np.all(scale == 1) and np.all(shift == 0)):
                continue
            vector = by_place if is_instance else by_channel
            if vector is None:
                continue
            is_instance = not is_instance
            scale, shift = np.ones_like(vector), np.zeros_like(vector)
        if node.operator == "Mul":
            scale, shift = scale * vector, shift * vector
        else:
            shift = shift + vector
        data = walk[norm.inputs[0]]
        inputs = [data, *(walk.new.constant(each) for each in (scale, shift))]
        attrs = {"epsilon": norm.attrs["epsilon"]}
        if is_instance:
            return walk.node("InstanceNormalization", inputs, shape, **attrs)
        return walk.node("LayerNormalization", inputs, shape, axis=axis, **attrs)
    return None


def _broadcast(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return an array in a shape, where what it has more of are axes of one."""
    more = max(array.ndim - len(shape), 0)
    fewer = (1,) * max(len(shape) - array.ndim, 0)
    extents = zip(fewer + array.shape, (1,) * more + shape)
    if any(extent not in (1, end) for extent, end in extents):
        return None
    return np.broadcast_to(array.reshape(array.shape[more:]), shape)


def _euclidean(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Sqrt(ReduceSum(x * x)) is ReduceL2(x)."""
    total = walk.made_once(node.inputs[0], "ReduceSum")
    if total is None:
        return None
    source, axes = _squared(walk, total.inputs[0]), walk.array(total.inputs[1])
    if source is None or axes is None:
        return None
    attrs = {"axes": [int(axis) for axis in axes], "keepdims": total.attrs["keepdims"]}
    return walk.node("ReduceL2", [walk[source]], node.outputs[0].shape, **attrs)


# Activations


def _ramp(walk: Rewriting, name: str) -> tuple[str, float, float] | None:
    """x, a and b of Clip(x * a + b, 0, 1)."""
    clip = walk.made(name, "Clip")
    if clip is None or [walk.number(each) for each in clip.inputs[1:]] != [0, 1]:
        return None
    total = walk.made(clip.inputs[0], "Add")
    for product, summand in _pairs(total) if total else ():
        scaled, b = walk.made(product, "Mul"), walk.number(summand)
        if scaled is None or b is None:
            continue
        for x, factor in _pairs(scaled):
            a = walk.number(factor)
            if a is not None and walk.shape(x) == walk.shape(name):
                return x, a, b
    return None


def _hard_swish(walk: Rewriting, node: OnnxNode) -> Value | None:
    """x * Clip(x / 6 + 0.5, 0, 1) is HardSwish(x)."""
    for x, gate in _pairs(node):
        ramp = _ramp(walk, gate)
        if ramp and ramp[0] == x and _is_close(ramp[1], 1 / 6) and ramp[2] == 0.5:
            return walk.node("HardSwish", [walk[x]], node.outputs[0].shape)
    return None


def _hard_sigmoid(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Clip(x * a + b, 0, 1) is HardSigmoid(x)."""
    ramp = _ramp(walk, node.outputs[0].name)
    if ramp is None:
        return None
    x, a, b = ramp
    return walk.node("HardSigmoid", [walk[x]], node.outputs[0].shape, alpha=a, beta=b)


def _gelu_before_layer(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Rewrite a layer of x * (1 + erf(x / sqrt 2)), whose half FoldScaleAxis has put into the
    weights: they get it back, which is exact, so that the layer's input is a gelu again."""
    weight, twice = walk.array(node.inputs[1]), walk.made_once(node.inputs[0], "Mul")
    if weight is None or twice is None:
        return None
    for x, gate in _pairs(twice):
        total = walk.made(gate, "Add")
        for value, one in _pairs(total) if total else ():
            erf = walk.made(value, "Erf")
            root = walk.made(erf.inputs[0], "Div") if erf and walk.number(one) == 1 else None
            if root is None or root.inputs[0] != x:
                continue
            if _is_close(walk.number(root.inputs[1]), math.sqrt(2)):
                data = walk[node.inputs[0]]
                half = walk.node("Mul", [data, walk.new.scalar(0.5, data)], data.shape)
                rest = [walk[name] for name in node.inputs[2:]]
                inputs = [half, walk.new.constant(2 * weight), *rest]
                return walk.node(node.operator, inputs, node.outputs[0].shape, **node.attrs)
    return None


def _batch_norm(walk: Rewriting, node: OnnxNode) -> Value | None:
    """x * s + b with numbers for each channel of an image is a batch norm."""
    for name, summand in _pairs(node):
        array, shape = walk.array(summand), walk.shape(name)
        shift = _along(array, shape, 1) if array is not None and len(shape) == 4 else None
        # ONNX has no batch norm of integers.
        if array is None or shift is None or array.size == 1 or array.dtype != np.float32:
            continue
        source, scale = name, np.ones_like(shift)
        product = walk.made_once(name, "Mul")
        for x, factor in _pairs(product) if product else ():
            known = walk.array(factor)
            vector = _along(known, shape, 1) if known is not None else None
            if vector is not None and walk.shape(x) == shape:
                source, scale = x, vector
        vectors = [scale, shift, np.zeros_like(shift), np.ones_like(shift)]
        inputs = [walk[source], *(walk.new.constant(vector) for vector in vectors)]
        return walk.node("BatchNormalization", inputs, shape, epsilon=0.0)
    return None


# Indices


def _gather(walk: Rewriting, node: OnnxNode) -> Value | None:
    """Drop the clip of indices that are counted from the end where negative: Gather counts
    itself."""
    limit = walk.made_once(node.inputs[1], "Min")
    lowest = walk.made_once(limit.inputs[0], "Max") if limit else None
    chosen = walk.made_once(lowest.inputs[0], "Where") if lowest else None
    if limit is None or lowest is None or chosen is None:
        return None
    if walk.number(lowest.inputs[1]) != 0:
        return None
    condition, counted, given = chosen.inputs
    if not walk.shape(given) == walk.shape(counted) == walk.shape(node.inputs[1]):
        return None
    extent = walk.shape(node.inputs[0])[node.attrs["axis"]]
    is_below, total = walk.made(condition, "Less"), walk.made(counted, "Add")
    if is_below is None or total is None or is_below.inputs[0] != given:
        return None
    if walk.number(is_below.inputs[1]) != 0 or walk.number(limit.inputs[1]) != extent - 1:
        return None
    if not any(a == given and walk.number(b) == extent for a, b in _pairs(total)):
        return None
    indices = walk[given]
    for operator, bound in (("Max", -extent), ("Min", extent - 1)):
        inputs = [indices, walk.new.scalar(bound, indices)]
        indices = walk.node(operator, inputs, walk.shape(given))
    return walk.node("Gather", [walk[node.inputs[0]], indices], node.outputs[0].shape, **node.attrs)


# What TVM's importer has taken apart, before its reshapes meet others.
_PRODUCTS: Table = {
    **WITH_PRODUCT,
    "Reshape": (_product_of_rows, _product_of_stacks),
    "Transpose": (_transpose_twice,),
}
_FORMS: Table = {
    "Add": (_bias_of_convolution, _affine, _reshape_last),
    "Conv": (_gelu_before_layer,),
    "Div": (_normalisation, _reshape_last),
    "Gather": (_gather,),
    "MatMul": (_gelu_before_layer,),
    "Mul": (
        *(_hard_swish, _over_root, _normalisation, _affine),
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
