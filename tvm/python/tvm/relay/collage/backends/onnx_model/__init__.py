# SPDX-License-Identifier: Apache-2.0
"""Parts of a model as ONNX models, and the backends that run them with a library's own runtime.

Docs: docs/backends/onnx_model.md.
Test: backends/onnx_model/test_export.py, backends/onnx_model/test_backend.py.
"""

from .export import EXPORTED_OPS, export_function, why_not_exported

__all__ = ["EXPORTED_OPS", "export_function", "why_not_exported"]
