# SPDX-License-Identifier: Apache-2.0
"""Parts of a model as ONNX models, and the backends that run them with a library's own runtime.

Docs: docs/backends/onnx_model.md. Test: test_onnx_export.py, test_onnx_backends.py.
"""

from .export import EXPORTED_OPS, export_function, why_not_exported

__all__ = ["EXPORTED_OPS", "export_function", "why_not_exported"]
