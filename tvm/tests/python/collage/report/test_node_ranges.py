# SPDX-License-Identifier: Apache-2.0
"""Nodes as people read them."""

import pytest
from tvm.relay.collage.report.explain_lines import Operators

# Node 2 is the input, the weights of a layer stand before it.
LAYERS = [4, 6, 7, 9, 11, 12, 14, 16, 17]


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([6], "1 operator, node 6"),
        ([6, 7], "2 operators, nodes 6, 7"),
        ([4, 5, 6, 7], "3 operators, nodes 4-7"),
        ([4, 6, 7, 12, 14, 17], "6 operators, nodes 4-7, 12, 14, 17"),
        (LAYERS, "all 9 operators"),
    ],
)
def test_a_range_is_of_operators_and_passes_over_weights(nodes, says):
    assert Operators(LAYERS).text(nodes) == says


def test_of_many_operators_it_is_said_of_how_many():
    assert Operators(range(40)).text(range(1, 31)) == "30 of 40 operators, nodes 1-30"


def test_many_ranges_are_counted_unless_all_are_asked_for():
    even = range(0, 40, 2)
    assert Operators(range(40)).text(even) == "20 of 40 operators, nodes 0-38 in 20 ranges"
    assert Operators(range(40), is_whole=True).nodes(even).endswith("32, 34, 36, 38")
