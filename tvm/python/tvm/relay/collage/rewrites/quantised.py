# SPDX-License-Identifier: Apache-2.0
"""One form of models in 8 bits: floats between `qnn.dequantize` and `qnn.quantize`.

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

Test: rewrites/test_table.py, rewrites/test_quantised.py
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPattern, is_constant, wildcard

from ..relay_util.walk import children_of, is_open_function, key_of, post_order, rebuild
from .engine import call, is_call, with_attrs

_qnn = relay.qnn.op
_BYTES = ("int8", "uint8")
DEQUANTIZE = "qnn.dequantize"
_BINARY = {"qnn.add": relay.add, "qnn.mul": relay.multiply, "qnn.subtract": relay.subtract}
PRODUCTS = {
    "qnn.conv2d": "nn.conv2d",
    "qnn.dense": "nn.dense",
    "qnn.batch_matmul": "nn.batch_matmul",
}
_SUMS = ("add", "nn.bias_add")


def _operands(unknown: int, known: int) -> list[DFPattern]:
    """Return patterns of any operands and, behind them, of constants: scales and zero points."""
    return [*(wildcard() for _ in range(unknown)), *(is_constant() for _ in range(known))]


def _dequantised(unknown: int) -> DFPattern:
    return call(DEQUANTIZE, operands=_operands(unknown, 3 - unknown))


REQUANTIZE = call("qnn.requantize", operands=_operands(1, 4))
BINARY = call(*_BINARY, operands=_operands(2, 6))
CONCATENATE = call("qnn.concatenate", operands=_operands(3, 2))
_product = call(*PRODUCTS, operands=_operands(2, 4))
_total = call(*_SUMS, operands=[_product, is_constant()]) | _product
PRODUCT = call(DEQUANTIZE, operands=[_total, *_operands(0, 2)])
SCALED_WEIGHTS = call("multiply", operands=[_dequantised(0), is_constant()])
DEPTHWISE = call("nn.conv2d", operands=[_dequantised(1), _dequantised(1)])


def is_requantize(node: relay.Expr) -> bool:
    return str(node.attrs.out_dtype) in _BYTES


def requantized(_pre: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Quantise what is dequantised."""
    data, scale, zero, out_scale, out_zero = post.args
    axis, dtype = int(post.attrs.axis), str(post.attrs.out_dtype)
    floats = _qnn.dequantize(data, scale, zero, axis)
    return _qnn.quantize(floats, out_scale, out_zero, axis, dtype)


def binary(pre: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Quantise the sum or product of what is dequantised."""
    left, right, left_scale, left_zero, right_scale, right_zero, *out = post.args
    result = _BINARY[post.op.name](
        _qnn.dequantize(left, left_scale, left_zero, int(post.attrs.lhs_axis)),
        _qnn.dequantize(right, right_scale, right_zero, int(post.attrs.rhs_axis)),
    )
    return _qnn.quantize(result, *out, out_dtype=pre.checked_type.dtype)


def is_concatenate(node: relay.Expr) -> bool:
    """Tell whether a concatenation's bytes have scales of their own."""
    return all(isinstance(each, relay.Tuple) for each in node.args[:3])


def concatenated(pre: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Quantise the concatenation of what is dequantised."""
    fields = zip(*(each.fields for each in post.args[:3]), strict=True)
    floats = [_qnn.dequantize(*each) for each in fields]
    result = relay.concatenate(floats, int(post.attrs.axis))
    return _qnn.quantize(result, *post.args[3:], out_dtype=pre.checked_type.dtype)


def product(_pre: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Make a dequantised product of bytes, with a bias or without, one of what is dequantised."""
    total, scale, zero = post.args
    bytes_product, bias = total.args[:2] if is_call(total, *_SUMS) else (total, None)
    data, weights, data_zero, weights_zero, data_scale, weights_scale = bytes_product.args
    numbers = [each.data.numpy() for each in (data_scale, weights_scale, scale, zero)]
    is_own_scale = np.allclose(numbers[0] * numbers[1], numbers[2], rtol=1e-5, atol=0)
    axes = _axes(bytes_product)
    if numbers[0].size > 1 or numbers[3].any() or not is_own_scale:
        return None
    if axes is None and numbers[1].size > 1:
        return None
    weights_axis, axis = axes or (0, -1)
    floats = [
        _qnn.dequantize(data, data_scale, data_zero),
        _qnn.dequantize(weights, weights_scale, weights_zero, weights_axis),
    ]
    op = tvm.ir.Op.get(PRODUCTS[bytes_product.op.name])
    result = with_attrs(op, bytes_product, floats, out_dtype="float32")
    if bias is None:
        return result
    values = _vector(bias, total, axis)
    if values is None:
        return None
    return relay.nn.bias_add(result, _qnn.dequantize(values, scale, zero, 0), axis)


def scaled_weights(_pre: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Put factors of dequantised weights, which a batch norm leaves, into their scales. Weights of
    a negative factor change their signs."""
    weights, factors = post.args
    if is_call(factors, DEQUANTIZE):  # of either order
        weights, factors = factors, weights
    values, scale, zero = (each.data.numpy() for each in weights.args)
    found = factors.data.numpy()
    if values.ndim < max(found.ndim, 1):
        return None
    places = [1] * (values.ndim - found.ndim) + list(found.shape)
    axis = int(np.argmax(places))
    is_along = found.size == values.shape[axis] and sum(extent > 1 for extent in places) < 2
    is_own = scale.size == 1 or int(weights.attrs.axis) % values.ndim == axis
    found = found.reshape(-1)
    signs = np.where(found < 0, -1, 1).reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    turned = values.astype("int32") * signs
    limits = np.iinfo(values.dtype)
    if not (is_along and is_own) or zero.any() or not found.all():
        return None
    if turned.min() < limits.min or turned.max() > limits.max:
        return None
    scales = (scale * np.abs(found)).astype("float32")
    arrays = (turned.astype(values.dtype), scales, np.zeros(scales.shape, "int32"))
    return _qnn.dequantize(*map(relay.const, arrays), axis)


def is_depthwise(node: relay.Expr) -> bool:
    """Tell whether a convolution is a depthwise one of dequantised data."""
    if not is_call(node.args[0], DEQUANTIZE):
        return False
    is_plain = (str(node.attrs.data_layout), str(node.attrs.kernel_layout)) == ("NCHW", "OIHW")
    return is_plain and int(node.attrs.groups) == int(node.attrs.channels or 0) > 1


def depthwise_data(_pre: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Put scales of each channel's data, as NNCF has them before depthwise layers, into those of
    the weights: libraries take bytes of one scale."""
    (data, *of_data), (weights, *of_weights) = (each.args for each in post.args)
    scale, zero, factors, zeros = (each.data.numpy() for each in (*of_data, *of_weights))
    axes = [int(each.attrs.axis) % 4 for each in post.args]
    if scale.size != int(post.attrs.groups) or np.ptp(zero):
        return None
    if axes[0] != 1 or (factors.size > 1 and axes[1] != 0):
        return None
    one = (relay.const(np.float32(1)), relay.const(zero.reshape(-1)[0]))
    both = (relay.const(factors * scale), relay.const(np.broadcast_to(zeros, scale.shape).copy()))
    operands = [_qnn.dequantize(data, *one), _qnn.dequantize(weights, *both, 0)]
    return relay.Call(post.op, operands, post.attrs, span=post.span)


def _axes(product: relay.Expr) -> tuple[int, int] | None:
    """Return the axes of channels in weights and result; None where that takes knowing more."""
    attrs = product.attrs
    if product.op.name == "qnn.dense":
        return 0, -1
    if product.op.name == "qnn.batch_matmul":
        return None
    layout = str(attrs.out_layout) or str(attrs.data_layout)
    kernel = str(attrs.kernel_layout)
    is_plain = layout in ("NCHW", "NHWC") and (int(attrs.groups) == 1 or kernel == "OIHW")
    return (kernel.index("O"), layout.index("C")) if is_plain and "O" in kernel else None


def _vector(bias: relay.Expr, total: relay.Expr, axis: int) -> Any:
    """Return the summand as a constant for each place of an axis; None where it is none."""
    array = bias.data.numpy()
    if is_call(total, "nn.bias_add"):
        return bias
    places = [1] * array.ndim
    # Channels are counted from the end: the summand may have fewer axes than the result.
    from_end = axis if axis < 0 else axis - 4
    if -from_end <= array.ndim:
        places[from_end] = array.size
    return relay.const(array.reshape(-1)) if list(array.shape) == places else None


@tvm.transform.module_pass(opt_level=0, name="OwnDequantized")
def own_dequantized(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """Give every reader of a dequantised value one of its own."""
    mod = mod.clone()
    for var, function in mod.functions_items():
        if is_open_function(function):
            body = _with_own(function.body)
            if not body.same_as(function.body):
                mod.update_func(var, relay.function.FunctionWithFields(function, None, body))
    return mod


def _with_own(body: relay.Expr) -> Any:
    order = list(post_order(body))
    uses = Counter(key_of(child) for expr in order for child in children_of(expr))
    now: dict[int, Any] = {}

    def own(child: relay.Expr) -> Any:
        made = now[key_of(child)]
        if uses[key_of(child)] < 2 or not is_call(made, DEQUANTIZE):
            return made
        return relay.Call(made.op, made.args, made.attrs, made.type_args, made.span)

    for expr in order:
        children = children_of(expr)
        now[key_of(expr)] = rebuild(expr, children, [own(child) for child in children])
    return now[key_of(body)]
