# SPDX-License-Identifier: Apache-2.0
"""Relay operators of our own, known to TVM in every process that imports us.

Each has a kernel for CPUs, so every build can run it; backends may take it whole. Another kernel
raises MEASURING_VERSION (measure/options.py).
Test: ops/test_recurrence.py. Docs: docs/import.md
"""

from ..tvm_fixes import shape_functions as _shape_functions  # noqa: F401 - registers them
from .onnx_node import NAMES as ONNX_NODES
from .onnx_node import is_file, library_version, model_of, onnx_node
from .recurrence import recurrence
from .recurrent_layer import KINDS, Recurrence

__all__ = [
    "KINDS",
    "ONNX_NODES",
    "Recurrence",
    "is_file",
    "library_version",
    "model_of",
    "onnx_node",
    "recurrence",
]
