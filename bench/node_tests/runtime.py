# SPDX-License-Identifier: Apache-2.0
"""onnxruntime on a case's model, whose tensors may have types that numpy lacks.

Test: bench/test_conformance.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnxruntime
from onnxruntime import OrtValue

from .cases import Tensor

# By onnxruntime's names; it has two elements of such a type in a byte, the first in the low bits.
_FOUR_BITS = {"int4": onnx.TensorProto.INT4, "uint4": onnx.TensorProto.UINT4}


def session_of(model: onnx.ModelProto) -> Callable[[dict[str, Tensor]], Sequence[np.ndarray]]:
    """A function of inputs by name that answers the outputs. Errors are onnxruntime's."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # what fails is raised
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

    def run(inputs: dict[str, Tensor]) -> list[np.ndarray]:
        given = {name: _value_of(each) for name, each in inputs.items()}
        return [_array_of(each) for each in session.run_with_ort_values(None, given)]

    return run


def _value_of(tensor: Tensor) -> OrtValue:
    """Take an array by its memory where numpy lacks the type."""
    bits = tensor.array
    if not tensor.is_bits:
        return OrtValue.ortvalue_from_numpy(bits)
    value = OrtValue.ortvalue_from_shape_and_type(bits.shape, tensor.kind)
    if tensor.kind in _FOUR_BITS.values():
        pairs = np.resize(bits.view("uint8") & 15, (bits.size + 1) // 2 * 2).reshape(-1, 2)
        bits = pairs[:, 0] | pairs[:, 1] << 4
    ctypes.memmove(value.data_ptr(), np.ascontiguousarray(bits).ctypes.data, bits.nbytes)
    return value


def _array_of(value: OrtValue) -> np.ndarray:
    kind, shape = value.data_type().removeprefix("tensor(").removesuffix(")"), value.shape()
    if kind not in _FOUR_BITS and kind != "bfloat16" and not kind.startswith("float8"):
        return value.numpy()
    count = int(np.prod(shape))
    dtype = np.dtype("uint16" if kind == "bfloat16" else "uint8")
    length = (count + 1) // 2 if kind in _FOUR_BITS else count * dtype.itemsize
    bits = np.frombuffer(ctypes.string_at(value.data_ptr(), length), dtype)
    if kind in _FOUR_BITS:
        bits = np.stack([bits & 15, bits >> 4], axis=-1).reshape(-1)[:count]
    if kind == "int4":
        bits = (bits ^ 8).view("int8") - 8  # the sign is the fourth bit
    return bits.reshape(shape)
