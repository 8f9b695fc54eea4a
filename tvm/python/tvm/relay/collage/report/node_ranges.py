# SPDX-License-Identifier: Apache-2.0
"""Nodes of a function as people read them: how many operators of how many, and where. Test:
report/test_node_ranges.py.
"""

from __future__ import annotations

from collections.abc import Iterable

# Ranges in a line, and operators from which on it is said of how many they are.
_MOST_RANGES = 12
_MANY = 12


class Operators:
    """All operators of a function, by their nodes' indexes. `is_whole` cuts no list of ranges."""

    def __init__(self, nodes: Iterable[int], is_whole: bool = False) -> None:
        self._place_of = {node: place for place, node in enumerate(sorted(nodes))}
        self._is_whole = is_whole

    @property
    def total(self) -> int:
        return len(self._place_of)

    def count(self, nodes: Iterable[int]) -> int:
        return sum(node in self._place_of for node in nodes)

    def text(self, nodes: Iterable[int]) -> str:
        """As "3 operators, nodes 6-8", "209 of 243 operators, nodes 13-221" or "all 243
        operators"; nodes that are no operators do not count."""
        held = [node for node in sorted(nodes) if node in self._place_of]
        count, total = len(held), len(self._place_of)
        if count == total > 1:
            return f"all {total} operators"
        of = f" of {total}" if count >= _MANY else ""
        return f"{count}{of} operator{'s' * (count != 1)}, {self.nodes(held)}"

    def nodes(self, nodes: Iterable[int]) -> str:
        """As "nodes 6, 8-13": a range is of operators between which there is no other."""
        runs: list[list[int]] = []
        for node in sorted(nodes):
            place = self._place_of.get(node)
            before = self._place_of.get(runs[-1][-1]) if runs else None
            if place is not None and before is not None and place == before + 1:
                runs[-1].append(node)
            else:
                runs.append([node])
        if len(runs) > _MOST_RANGES and not self._is_whole:
            return f"nodes {runs[0][0]}-{runs[-1][-1]} in {len(runs)} ranges"
        texts = [
            f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
        ]
        return f"node{'s' * (sum(map(len, runs)) > 1)} {', '.join(texts)}"
