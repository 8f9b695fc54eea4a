# SPDX-License-Identifier: Apache-2.0
"""What is known to differ, and why it is no fault of ours: one table. Test: test_fuzz.py."""

# (op of the shrunk graph, backend in the placement's name, what is in the finding's text) -> why.
_TABLE: list[tuple[str, str, str, str]] = []


def why_excluded(graph, finding) -> str:
    """The reason of the row that says this finding is known, or ""."""
    ops = {graph.nodes[index].op for index in graph.calls()}
    for op, backend, text, reason in _TABLE:
        if op in ops and backend in finding.variant.name and text in finding.text:
            return reason
    return ""
