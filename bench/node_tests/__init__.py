# SPDX-License-Identifier: Apache-2.0
"""ONNX's own tests of single nodes, and what becomes of each. Docs: docs/conformance.md."""

# What becomes of a case, best first.
RIGHT, WRONG, REFUSED, CRASHED, HUNG = OUTCOMES = ("right", "wrong", "refused", "crashed", "hung")
# Sides, beside those that are named by their backends, with commas between.
ONNXRUNTIME, TVM = "onnxruntime", "tvm"
