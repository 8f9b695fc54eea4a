# SPDX-License-Identifier: Apache-2.0
"""OpenVINO as a backend. Docs: docs/backends/onnx_model.md. Test: test_onnx_backends.py."""

from .onnx_model.backend import OnnxModelBackend


class OpenVinoBackend(OnnxModelBackend):
    """Regions run by OpenVINO's CPU plugin (PyPI: openvino)."""

    name = "openvino"
    restrictions = (
        *OnnxModelBackend.restrictions,
        "int64 beyond 2^31, comparisons of integers beyond 2^24",
    )


class OpenVinoBf16Backend(OpenVinoBackend):
    """The same with bfloat16 inside: float32 in and out, products and sums of 8 bits' precision."""

    name = "openvino_bf16"
    trades_accuracy = "bfloat16"
