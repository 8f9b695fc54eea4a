# SPDX-License-Identifier: Apache-2.0
"""Sessions of onnxruntime's own package, for results and types. Test: importer/test_opaque.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whose import takes long
    from onnxruntime import InferenceSession, NodeArg

# Types of tensors by onnxruntime's names of them, where those are not numpy's.
_DTYPES = {"float": "float32", "double": "float64"}


def session_of(
    model: str | bytes, threads: int = 0, is_optimized: bool = False
) -> InferenceSession:
    """Return a session of a model's file or bytes, 0 threads being as many as cores. ImportError
    where the package is not installed; what it raises of a model is of kinds that it does not
    export."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # What goes wrong comes as an exception; a session that is timed tells errors in its log, too.
    options.log_severity_level = 3 if is_optimized else 4
    options.intra_op_num_threads = threads
    if not is_optimized:
        none = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = none
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def dtype_of(value: NodeArg) -> str:
    """Return numpy's name of the type of a session's input or output, or what stands for none."""
    element = value.type.removeprefix("tensor(").removesuffix(")")
    return _DTYPES.get(element, element)


def sizes_of(value: NodeArg) -> list[int]:
    """Return the shape of a session's input, with 1 for what is open."""
    return [n if isinstance(n, int) else 1 for n in value.shape]
