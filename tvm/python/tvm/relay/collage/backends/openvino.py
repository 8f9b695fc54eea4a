# SPDX-License-Identifier: Apache-2.0
"""OpenVINO as a backend. Docs: docs/backends/onnx_model.md.
Test: backends/onnx_model/test_backend.py."""

from onnx import ModelProto
from tvm import relay

from .dnnl.types import why_bytes_are_inexact
from .onnx_model.backend import OnnxModelBackend
from .onnx_model.ops_quantised import QUANTISED
from .onnx_model.weights import compress_weights


class OpenVinoBackend(OnnxModelBackend):
    """Regions run by OpenVINO's CPU plugin (PyPI: openvino)."""

    name = "openvino"
    colour = "#009e73"
    # Computed in float32 (OpenVINO's issues 35830, 37766), or floored where TVM truncates (38248);
    # other arithmetic on integers is right, and so are comparisons with a small constant.
    floats_alone = frozenset(
        ("divide", "nn.pad")
        + ("max", "mean", "min", "sum")
        + ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
    )
    restrictions = (
        *OnnxModelBackend.restrictions,
        "int64 beyond 2^31",
        "integers in divisions, sums, means, maxima and minima over axes, pads, and in comparisons "
        "but with constants of at most 16 elements of magnitude below 2^24",
    )

    def takes(self, call: relay.Call) -> bool | str:
        """Return True, or why not: its products of bytes are oneDNN's, whose sums some CPUs cut
        off."""
        inexact = why_bytes_are_inexact() if call.op.name in QUANTISED else ""
        return inexact or super().takes(call)


class OpenVinoBf16Backend(OpenVinoBackend):
    """The same with bfloat16 inside: float32 in and out, products and sums of 8 bits' precision."""

    name = "openvino_bf16"
    colour = "#d55e00"
    trades_accuracy = "bfloat16"
    variant_of = OpenVinoBackend.name


class OpenVinoW8Backend(OpenVinoBackend):
    """The same with weights of products in 8 bits, for which OpenVINO rounds what they are
    multiplied with to 8 bits as well, by groups; all else is in float32."""

    name = "openvino_w8"
    colour = "#f0a07c"
    trades_accuracy = "int8 weights"
    variant_of = OpenVinoBackend.name
    traded_ops = frozenset(("nn.dense", "nn.matmul"))

    def exported(self, function: relay.Function) -> ModelProto:
        return compress_weights(super().exported(function))
