# SPDX-License-Identifier: Apache-2.0
"""From floats to bytes and back, in ONNX: QuantizeLinear and DequantizeLinear.

onnxruntime and OpenVINO know a product of bytes as one of floats between these two. Preparation
gives a model that form (rewrites/quantised.py), and weights keep it here: what is transposed or
reshaped is the bytes. Scales and zero points must be constants.

Test: backends/onnx_model/test_ops_quantised.py.
"""

from __future__ import annotations

import numpy as np

from .builder import Value
from .call import ExportedCall

BYTES = ("int8", "uint8")


def _quantize(call: ExportedCall) -> Value:
    data, scale, zero = call.values
    call.require(call.dtype in BYTES, "out_dtype", call.dtype)
    parameters = _parameters(call, scale, zero, dtype=call.dtype)
    return call.result("QuantizeLinear", [data, *parameters], **_axis(call, scale))


def _dequantize(call: ExportedCall) -> Value:
    data, scale, zero = call.values
    call.require(call.dtype == "float32", "out_dtype", call.dtype)
    call.require(data.dtype in (*BYTES, "int32"), "dtype", data.dtype)
    if data.dtype == "int32":  # as biases are
        call.require(not call.known(zero, "zero point").any(), "zero point", "other than 0")
    parameters = _parameters(call, scale, zero, dtype=data.dtype)
    return call.result("DequantizeLinear", [data, *parameters], **_axis(call, scale))


def _axis(call: ExportedCall, scale: Value) -> dict[str, int]:
    return {"axis": int(call.attrs.axis) % len(call.shape)} if scale.rank else {}


def _parameters(call: ExportedCall, scale: Value, zero: Value, dtype: str) -> list[Value]:
    """Return scale and zero point as ONNX has them: of one shape, the zero point in the type of
    bytes."""
    factors, offsets = call.known(scale, "scale"), call.known(zero, "zero point")
    call.require(factors.ndim <= 1, "shape of the scale", list(factors.shape))
    limits = np.iinfo(dtype)
    is_byte = (offsets >= limits.min).all() and (offsets <= limits.max).all()
    call.require(is_byte and offsets.size in (1, factors.size), "zero point", offsets.tolist())
    flat = np.broadcast_to(offsets.reshape(-1), factors.shape or (1,))
    return [scale, call.graph.constant(flat.reshape(factors.shape).astype(dtype))]


# Relay op -> function of an ExportedCall that adds its nodes and returns the result.
QUANTISED = {"qnn.dequantize": _dequantize, "qnn.quantize": _quantize}
