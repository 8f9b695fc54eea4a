# SPDX-License-Identifier: Apache-2.0
"""ONNX's own tests of single nodes, and what becomes of each. Docs: docs/conformance.md."""

# What becomes of a case, best first. LIKE_PEER: it differs from ONNX's outputs, and onnxruntime
# differs alike.
OUTCOMES = ("right", "like onnxruntime", "wrong", "refused", "crashed", "hung")
RIGHT, LIKE_PEER, WRONG, REFUSED, CRASHED, HUNG = OUTCOMES
FAULTS = (WRONG, CRASHED, HUNG)
# Sides, beside those that are named by their backends, with commas between.
ONNXRUNTIME, TVM = "onnxruntime", "tvm"
