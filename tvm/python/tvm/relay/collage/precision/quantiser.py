# SPDX-License-Identifier: Apache-2.0
"""NNCF quantises an ONNX model in a process of its own: ranges of samples, weights by channel,
biases corrected, activations of transformers smoothed. Test: precision/test_quantiser.py.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from typing import NamedTuple

import onnx

from ..errors import ModelError, OptionError
from ..exec.arrays import load_arrays, save_arrays, sets_of
from ..exec.process import ask_own
from ..exec.reply import Unsupported
from ..exec.resolve import call_of
from ..options.named import option
from .calibration import Samples, stacked
from .layers import result_of

PACKAGE = "nncf"
# Of older ones QuantizeLinear has no axis.
_OPSET = 13
_SECONDS = 1800.0


class QuantisedFiles(NamedTuple):
    """The files of one model."""

    simple: str  # in float, as it was quantised
    quantised: str


def check_installed() -> None:
    """OptionError where NNCF is not installed."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise OptionError(
            option("calibration")
            + f" needs the package {PACKAGE}, which is not installed: "
            + "pip install 'tvm-collage[precision]'"
        )


def quantise(model: onnx.ModelProto, samples: Samples, folder: str) -> QuantisedFiles:
    """Quantise a model by the ranges of samples; the files go to the folder. ModelError says why
    it cannot be."""
    given, inputs = os.path.join(folder, "float.onnx"), os.path.join(folder, "ranges.npz")
    files = QuantisedFiles(*(os.path.join(folder, f"{n}.onnx") for n in ("simple", "quantised")))
    onnx.save(model, given)
    save_arrays(inputs, stacked(samples))
    own = {"model": given, "samples": inputs, "count": len(samples)}
    call = call_of(quantise_file, **own, **files._asdict())
    try:
        ask_own("it cannot be quantised", _SECONDS, {"call": call})
    except Unsupported as error:
        raise ModelError(str(error)) from None
    return files


def quantise_file(model: str, samples: str, count: int, simple: str, quantised: str) -> None:
    """Quantise a model's file, in a worker: `count` samples are stacked in the .npz file."""
    import nncf

    nncf.set_log_level(logging.ERROR)
    plain = _simplified(model, simple)
    rows = sets_of(load_arrays(samples), count)
    # Products of two computed values are those of attention.
    weights = {tensor.name for tensor in plain.graph.initializer}
    products = (node for node in plain.graph.node if node.op_type == "MatMul")
    is_transformer = any(weights.isdisjoint(node.input) for node in products)
    made = nncf.quantize(
        plain,
        nncf.Dataset(rows),
        subset_size=count,
        target_device=nncf.TargetDevice.CPU,
        preset=nncf.QuantizationPreset.MIXED,
        model_type=nncf.ModelType.TRANSFORMER if is_transformer else None,
    )
    onnx.save(made, quantised)


def _simplified(model: str, file: str) -> onnx.ModelProto:
    """Write the model as onnxruntime simplifies it, in ONNX's own operators alone: normalisations
    are part of the weights that are quantised. Each node is named by what it gives."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = file
    source = onnx.load(model)
    version = next(each.version for each in source.opset_import if each.domain in ("", "ai.onnx"))
    if version < _OPSET:
        source = onnx.version_converter.convert_version(source, _OPSET)
    onnxruntime.InferenceSession(
        source.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    plain = onnx.load(file)
    for node in plain.graph.node:
        node.name = result_of(node)
    onnx.save(plain, file)
    return plain
