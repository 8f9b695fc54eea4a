# SPDX-License-Identifier: Apache-2.0
"""The refusal of an operator for one of its attributes. Test: backends/xnnpack/test_lower.py."""

from __future__ import annotations

from ...errors import UnsupportedOpError
from .graph import Graph, Operation


def check(graph: Graph, node: Operation, condition: object, attribute: str, value: object) -> None:
    """Raise UnsupportedOpError, naming the graph's backend, op, attribute and value, where the
    condition is not met."""
    if not condition:
        raise UnsupportedOpError(graph.backend, node.op, f"{attribute}={value} is not supported")
