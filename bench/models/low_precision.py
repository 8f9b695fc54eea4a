# SPDX-License-Identifier: Apache-2.0
"""Any image net in 8 bits and in float16, by onnxruntime's own tools, any net in bfloat16. Test:
test_low_precision.py.

The weights are random, so nothing is said of a classifier's accuracy: these nets are there to run
the operators, and to compare outputs with onnxruntime's on the same model.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter
from onnx import helper

from .net import Net, random_inputs
from .relay_import import MIXED_PRECISION

LOW_PRECISION = ("int8", "fp16", "bf16")


def in_low_precision(net: Net, kind: str) -> Net:
    """Return the net in one of LOW_PRECISION, called "<net>_<kind>"; ranges are those of random
    inputs."""

    def build(batch: int) -> onnx.ModelProto:
        model = net.build(batch)
        if kind == "int8":
            return quantise(model, random_inputs(net, model))
        return halve(model) if kind == "fp16" else in_bfloat16(model)

    return dataclasses.replace(net, name=f"{net.name}_{kind}", build=build)


def quantise(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """Return the model with each activation in uint8 and the weights of Conv and Gemm in int8, a
    scale a channel, as pairs of QuantizeLinear and DequantizeLinear.

    Ranges are those of a run on `inputs`. Batch norms behind convolutions are folded into these.
    Weights have seven bits: without VNNI onnxruntime adds pairs of products of 8 bits in 16, which
    overflows.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Once(CalibrationDataReader):
        def __init__(self) -> None:
            self._waiting: Iterator[dict[str, np.ndarray]] = iter([dict(inputs)])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self._waiting, None)

    with tempfile.TemporaryDirectory(prefix="collage-bench-") as folder:
        given, folded, made = (
            str(Path(folder) / f"{name}.onnx") for name in ("net", "folded", "made")
        )
        # Scales by channel have an axis since opset 13.
        is_old = model.opset_import[0].version < 13
        onnx.save(onnx.version_converter.convert_version(model, 13) if is_old else model, given)
        quant_pre_process(given, folded, skip_symbolic_shape=True)
        quantize_static(
            folded,
            made,
            Once(),
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
        )
        return onnx.load(made)


def halve(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with float16 inside; its inputs and outputs stay float32."""
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    made = convert_float_to_float16(copy, keep_io_types=True, op_block_list=[])
    OnnxModel.graph_topological_sort(made.graph)  # its casts of inputs come last
    return made


def in_bfloat16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model in float32, as onnxruntime's CPU provider has no bfloat16, marked for
    to_relay, which has TVM's ToMixedPrecision make it."""
    marked = onnx.ModelProto()
    marked.CopyFrom(model)
    helper.set_model_props(marked, {MIXED_PRECISION: "bfloat16"})
    return marked
