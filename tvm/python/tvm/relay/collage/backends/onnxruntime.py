# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime as a backend. Docs: docs/backends/onnx_model.md.
Test: backends/onnx_model/test_backend.py."""

from .onnx_model.backend import OnnxModelBackend


class OnnxRuntimeBackend(OnnxModelBackend):
    """Regions run by the CPU provider of ONNX Runtime (PyPI: onnxruntime)."""

    name = "onnxruntime"
    colour = "#e69f00"
    # It runs a batch norm in the layout of the convolutions around, and a sum not.
    preferred_operators = frozenset({"BatchNormalization", "HardSigmoid"})
