# SPDX-License-Identifier: Apache-2.0
"""Gives a model in 8 bits one form: floats between `qnn.dequantize` and `qnn.quantize`.

That is how exporters write pairs of QuantizeLinear and DequantizeLinear, and how every backend gets
them: onnxruntime and OpenVINO fuse the pairs, and TVM's kernels compute in float32. Importers write
other files, with ONNX's QLinearConv for one, as operators on bytes; here these get the same form.
TVM's products of integers take longer than those of floats (2.6 times for a convolution of 64
channels with AVX-512, as its target has no VNNI), and its FakeQuantizationToInteger is not exact:
it rounds a constant factor to the scale of the data.

Every reader of a dequantised value gets one of its own, so that it keeps its bytes as operands
wherever parts are cut.

Assumptions: scales and zero points are constants, the weights' of one number or one for each
channel of the result. What is otherwise stays as it is. Results are within a step of rounding:
TVM rounds products of integers in fixed point, floats are rounded once.

Test: compile/test_quantised.py
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPattern, DFPatternCallback, is_constant, is_op, wildcard

from ..relay_util.walk import children_of, key_of, post_order, rebuild
from .fold import is_open_function
from .rewriting import Rewrite, is_call, rewrite_in_place

_qnn = relay.qnn.op
_BYTES = ("int8", "uint8")
_DEQUANTIZE = "qnn.dequantize"
_BINARY = {"qnn.add": relay.add, "qnn.mul": relay.multiply, "qnn.subtract": relay.subtract}
_PRODUCTS = {
    "qnn.conv2d": "nn.conv2d",
    "qnn.dense": "nn.dense",
    "qnn.batch_matmul": "nn.batch_matmul",
}


class _Requantize(DFPatternCallback):
    """A requantization quantises what is dequantised."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.pattern = is_op("qnn.requantize")(wildcard(), *_constants(4))

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        data, scale, zero, out_scale, out_zero = post.args
        axis, dtype = int(post.attrs.axis), str(post.attrs.out_dtype)
        if dtype not in _BYTES:
            return post
        floats = _qnn.dequantize(data, scale, zero, axis)
        return _qnn.quantize(floats, out_scale, out_zero, axis, dtype)


class _Binary(DFPatternCallback):
    """A sum or product of bytes quantises that of what is dequantised."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.pattern = _any_of(_BINARY, lambda op: op(wildcard(), wildcard(), *_constants(6)))

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        left, right, left_scale, left_zero, right_scale, right_zero, *out = post.args
        result = _BINARY[post.op.name](
            _qnn.dequantize(left, left_scale, left_zero, int(post.attrs.lhs_axis)),
            _qnn.dequantize(right, right_scale, right_zero, int(post.attrs.rhs_axis)),
        )
        return _qnn.quantize(result, *out, out_dtype=pre.checked_type.dtype)


class _Concatenate(DFPatternCallback):
    """So does a concatenation of bytes with scales of their own."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.pattern = is_op("qnn.concatenate")(*(wildcard() for _ in range(3)), *_constants(2))

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        if not all(isinstance(each, relay.Tuple) for each in post.args[:3]):
            return post
        fields = zip(*(each.fields for each in post.args[:3]), strict=True)
        floats = [_qnn.dequantize(*each) for each in fields]
        result = relay.concatenate(floats, int(post.attrs.axis))
        return _qnn.quantize(result, *post.args[3:], out_dtype=pre.checked_type.dtype)


class _Product(DFPatternCallback):
    """A dequantised product of bytes, with a bias or without, is one of what is dequantised."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        operands = [wildcard(), wildcard(), *_constants(4)]
        self.product = _any_of(_PRODUCTS, lambda op: op(*operands))
        self.bias = is_constant()
        sums = is_op("add")(self.product, self.bias) | is_op("nn.bias_add")(self.product, self.bias)
        self.pattern = is_op(_DEQUANTIZE)(sums | self.product, *_constants(2))

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        product = node_map[self.product][0]
        data, weights, data_zero, weights_zero, data_scale, weights_scale = product.args
        scale, zero = post.args[1:]
        numbers = [each.data.numpy() for each in (data_scale, weights_scale, scale, zero)]
        is_own_scale = np.allclose(numbers[0] * numbers[1], numbers[2], rtol=1e-5, atol=0)
        axes = _axes(product)
        by_channel = numbers[1].size > 1
        if (
            numbers[0].size > 1
            or numbers[3].any()
            or not is_own_scale
            or axes is None
            and by_channel
        ):
            return post
        weights_axis, axis = axes or (0, -1)
        floats = [
            _qnn.dequantize(data, data_scale, data_zero),
            _qnn.dequantize(weights, weights_scale, weights_zero, weights_axis),
        ]
        op = tvm.ir.Op.get(_PRODUCTS[product.op.name])
        result = relay.Call(op, floats, _computing_floats(product.attrs))
        if self.bias not in node_map:
            return result
        bias = _vector(node_map[self.bias][0], post.args[0], axis)
        if bias is None:
            return post
        return relay.nn.bias_add(result, _qnn.dequantize(bias, scale, zero, 0), axis)


class _ScaledWeights(DFPatternCallback):
    """Factors of dequantised weights, which a batch norm leaves, go into their scales. Weights of a
    negative factor change their signs."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.weights = is_op(_DEQUANTIZE)(*_constants(3))
        self.factors = is_constant()
        self.pattern = is_op("multiply")(self.weights, self.factors)

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        weights, factors = post.args
        if is_call(factors, _DEQUANTIZE):  # of either order
            weights, factors = factors, weights
        values, scale, zero = (each.data.numpy() for each in weights.args)
        found = factors.data.numpy()
        if values.ndim < max(found.ndim, 1):
            return post
        places = [1] * (values.ndim - found.ndim) + list(found.shape)
        axis = int(np.argmax(places))
        is_along = found.size == values.shape[axis] and sum(extent > 1 for extent in places) < 2
        is_own = scale.size == 1 or int(weights.attrs.axis) % values.ndim == axis
        found = found.reshape(-1)
        signs = np.where(found < 0, -1, 1).reshape(
            [-1 if i == axis else 1 for i in range(values.ndim)]
        )
        turned = values.astype("int32") * signs
        limits = np.iinfo(values.dtype)
        if not (is_along and is_own) or zero.any() or not found.all():
            return post
        if turned.min() < limits.min or turned.max() > limits.max:
            return post
        scales = (scale * np.abs(found)).astype("float32")
        arrays = (turned.astype(values.dtype), scales, np.zeros(scales.shape, "int32"))
        return _qnn.dequantize(*map(relay.const, arrays), axis)


class _DepthwiseData(DFPatternCallback):
    """Scales of each channel's data, as NNCF has them before depthwise layers, go into those of the
    weights: libraries take bytes of one scale."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        data = is_op(_DEQUANTIZE)(wildcard(), *_constants(2))
        weights = is_op(_DEQUANTIZE)(wildcard(), *_constants(2))
        self.pattern = is_op("nn.conv2d")(data, weights)

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        (data, *of_data), (weights, *of_weights) = (each.args for each in post.args)
        scale, zero, factors, zeros = (each.data.numpy() for each in (*of_data, *of_weights))
        attrs = post.attrs
        is_depthwise = int(attrs.groups) == scale.size == int(attrs.channels or 0)
        is_plain = (str(attrs.data_layout), str(attrs.kernel_layout)) == ("NCHW", "OIHW")
        axes = [int(each.attrs.axis) % 4 for each in post.args]
        if not (is_depthwise and is_plain) or scale.size == 1 or np.ptp(zero):
            return post
        if axes[0] != 1 or (factors.size > 1 and axes[1] != 0):
            return post
        one = (relay.const(np.float32(1)), relay.const(zero.reshape(-1)[0]))
        both = (
            relay.const(factors * scale),
            relay.const(np.broadcast_to(zeros, scale.shape).copy()),
        )
        operands = [_qnn.dequantize(data, *one), _qnn.dequantize(weights, *both, 0)]
        return relay.Call(post.op, operands, attrs, span=pre.span)


def _constants(count: int) -> list[DFPattern]:
    return [is_constant() for _ in range(count)]


def _any_of(names: Any, made: Any) -> DFPattern:
    first, *others = [made(is_op(name)) for name in names]
    for each in others:
        first |= each
    return first


def _axes(product: Any) -> tuple[int, int] | None:
    """The axes of channels in the weights and in the result; None where that takes knowing more."""
    attrs = product.attrs
    if product.op.name == "qnn.dense":
        return 0, -1
    if product.op.name == "qnn.batch_matmul":
        return None
    layout = str(attrs.out_layout) or str(attrs.data_layout)
    kernel = str(attrs.kernel_layout)
    is_plain = layout in ("NCHW", "NHWC") and (int(attrs.groups) == 1 or kernel == "OIHW")
    return (kernel.index("O"), layout.index("C")) if is_plain and "O" in kernel else None


def _computing_floats(attrs: Any) -> Any:
    fields = {str(name): attrs[name] for name in map(str, attrs.keys())} | {"out_dtype": "float32"}
    return tvm.ir.make_node(f"relay.attrs.{type(attrs).__name__}", **fields)


def _vector(bias: Any, total: Any, axis: int) -> Any:
    """The summand of a sum as a constant for each place of an axis; None where it is none."""
    array = bias.data.numpy()
    if is_call(total, "nn.bias_add"):
        return bias
    places = [1] * array.ndim
    # Channels are counted from the end: the summand may have fewer axes than the result.
    from_end = axis if axis < 0 else axis - 4
    if -from_end <= array.ndim:
        places[from_end] = array.size
    return relay.const(array.reshape(-1)) if list(array.shape) == places else None


def _rewrite(make: Any, *names: str) -> Rewrite:
    return Rewrite(lambda node: is_call(node, *names), make)


# By the names that a PassContext disables. A product's rule needs what requantizations become.
QUANTISED_AS_FLOATS = {
    "RequantizeAsFloats": _rewrite(_Requantize, "qnn.requantize"),
    "QuantisedBinaryAsFloats": _rewrite(_Binary, *_BINARY),
    "QuantisedConcatenateAsFloats": _rewrite(_Concatenate, "qnn.concatenate"),
    "QuantisedProductAsFloats": _rewrite(_Product, *_PRODUCTS),
}


_SCALES = (_rewrite(_ScaledWeights, _DEQUANTIZE), _rewrite(_DepthwiseData, _DEQUANTIZE))


@tvm.transform.module_pass(opt_level=0, name="ScaleQuantisedWeights")
def scale_quantised_weights(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
    """Fold factors of dequantised weights, and the data's by channel, into the weights' scales, in
    a typed module."""
    mod = mod.clone()
    rewrite_in_place(mod, *_SCALES)
    return mod


@tvm.transform.module_pass(opt_level=0, name="OwnDequantized")
def own_dequantized(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
    """Give every reader of a dequantised value one of its own."""
    mod = mod.clone()
    for var, function in mod.functions_items():
        if is_open_function(function):
            body = _with_own(function.body)
            if not body.same_as(function.body):
                mod.update_func(var, relay.function.FunctionWithFields(function, None, body))
    return mod


def _with_own(body: Any) -> Any:
    order = list(post_order(body))
    uses = Counter(key_of(child) for expr in order for child in children_of(expr))
    now: dict[int, Any] = {}

    def own(child: Any) -> Any:
        made = now[key_of(child)]
        if uses[key_of(child)] < 2 or not is_call(made, _DEQUANTIZE):
            return made
        return relay.Call(made.op, made.args, made.attrs, made.type_args, made.span)

    for expr in order:
        children = children_of(expr)
        now[key_of(expr)] = rebuild(expr, children, [own(child) for child in children])
    return now[key_of(body)]
