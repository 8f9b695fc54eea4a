# SPDX-License-Identifier: Apache-2.0
"""The layered layout: what any drawing must keep, and what makes one easy to follow."""

import itertools
import random

import pytest
from tvm.relay.collage.report.picture.layout import BEND_WIDTH, GAP, lay_out


def layer_of(layout):
    return {item: k for k, layer in enumerate(layout.layers) for item in layer}


def check(layout, count, edges):
    """Each item once, edges downward a layer at a time, nothing on top of anything else."""
    depth = layer_of(layout)
    assert sorted(depth) == list(range(len(layout.x))) and len(layout.x) >= count
    for (source, target), bends in zip(edges, layout.routes, strict=True):
        steps = [depth[item] for item in (source, *bends, target)]
        assert steps == list(range(steps[0], steps[-1] + 1)), (source, target)
        assert all(item >= count for item in bends)
    for layer in layout.layers:
        for one, two in itertools.pairwise(layer):
            gap = layout.x[two] - layout.x[one] - (layout.widths[one] + layout.widths[two]) / 2
            assert gap >= (GAP if one < count and two < count else 0) - 1e-6
    assert min(x - w / 2 for x, w in zip(layout.x, layout.widths, strict=True)) >= -1e-6


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs(seed):
    draw = random.Random(seed)
    count = draw.randint(1, 60)
    edges = [(a, b) for a, b in itertools.combinations(range(count), 2) if draw.random() < 0.08]
    check(lay_out([draw.uniform(10, 90) for _ in range(count)], edges), count, edges)


def test_a_trunk_is_straight_beside_what_skips_it():
    edges = []
    for first in range(0, 40, 4):
        edges += [(first + k, first + k + 1) for k in range(4)] + [(first, first + 4)]
    layout = lay_out([200.0] * 41, edges)
    check(layout, 41, edges)
    assert max(layout.x[:41]) - min(layout.x[:41]) < 1


def test_edges_that_need_not_cross_do_not():
    """Three chains from one box, told in another order."""
    edges = [(0, 3), (0, 1), (0, 2), (2, 5), (1, 4), (3, 6), (6, 7), (4, 7), (5, 7)]
    layout = lay_out([20.0] * 8, edges)
    check(layout, 8, edges)
    for one, two in ((1, 4), (2, 5), (3, 6)):
        assert layout.x[one] == pytest.approx(layout.x[two])


def test_long_edges_of_a_box_share_their_way():
    edges = [(0, 1), (1, 2), (2, 3), (0, 2), (0, 3)]
    layout = lay_out([20.0] * 4, edges)
    assert layout.routes[4][:1] == layout.routes[3] and len(layout.x) == 4 + 2
    assert layout.widths[4:] == [BEND_WIDTH] * 2


def test_an_input_stands_right_above_its_reader_unless_it_is_pinned():
    edges = [(0, 1), (1, 2), (3, 2), (1, 4)]
    assert layer_of(lay_out([9.0] * 5, edges))[3] == 1
    depth = layer_of(lay_out([9.0] * 6, [*edges, (4, 5)], top=[3], bottom=[2]))
    assert depth[3] == 0 and depth[2] == max(depth.values())


def test_nothing_and_one_box():
    assert lay_out([], []).layers == [] and lay_out([], []).width == 0
    assert lay_out([30.0], []).x == [15.0]


def test_a_cycle_is_refused():
    with pytest.raises(ValueError, match="cycle"):
        lay_out([1.0, 1.0], [(0, 1), (1, 0)])
