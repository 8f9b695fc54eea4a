# SPDX-License-Identifier: Apache-2.0
"""Models of other frameworks as Relay modules, by TVM's importers made quick.

Test: importer/test_onnx.py. Docs: docs/import.md
"""

from .onnx import from_onnx, quick_import

__all__ = ["from_onnx", "quick_import"]
