# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime as a backend. Docs: docs/backends/onnx_model.md.
Test: backends/onnx_model/test_backend.py."""

import json
import statistics
from collections import defaultdict

from .onnx_model.backend import OnnxModelBackend

# The trace has whole microseconds, the part behind the point cut off.
_CUT_OFF = 0.5
_KERNEL = "_kernel_time"


class OnnxRuntimeBackend(OnnxModelBackend):
    """Regions run by the CPU provider of ONNX Runtime (PyPI: onnxruntime)."""

    name = "onnxruntime"
    colour = "#e69f00"
    # It runs a batch norm in the layout of the convolutions around, and a sum not.
    preferred_operators = frozenset({"BatchNormalization", "HardSigmoid"})

    def profiled_steps(self, text: str) -> list[tuple[str, float]]:
        """Return the steps of a trace of several runs, with the median of each."""
        found: defaultdict[str, list[float]] = defaultdict(list)
        for event in json.loads(text):
            name = event.get("name", "")
            if event.get("cat") == "Node" and name.endswith(_KERNEL):
                found[name.removesuffix(_KERNEL)].append(event["dur"])
        return [
            (name, 1e-6 * (statistics.median(durations) + _CUT_OFF))
            for name, durations in found.items()
        ]
