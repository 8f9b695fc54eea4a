# SPDX-License-Identifier: Apache-2.0
"""What TVM is left with, of graphs made by hand."""

import pytest
from made_graphs import costed, net_of, node
from tvm.relay.collage.costs.cost import PartCost
from tvm.relay.collage.report.net import Known


def chain_of(*inputs, results=None, ops="abcdefgh"):
    """A net whose node 0 is a variable, and node k an operator that reads `inputs[k - 1]`."""
    results = (len(inputs),) if results is None else results
    rows = [
        node(k, "call", f"nn.{ops[k - 1]}", read, is_result=k in results)
        for k, read in enumerate(inputs, 1)
    ]
    return net_of(node(0, "var"), *rows)


def kernels(net, *measured, placed=()):
    """Of TVM's, those measured at as many microseconds as they have operators."""
    rows = [costed("tvm", nodes, len(nodes) * 1e-6) for nodes in measured]
    return [(kernel.nodes, kernel.seconds) for kernel in Known(net, rows).tvms_kernels(placed)]


def test_the_largest_kernels_that_were_measured_come_first_and_rows_of_the_rest_stay_together():
    row = chain_of([0], [1], [2], [3], [4])
    assert kernels(row, [2], [2, 3]) == [((1,), None), ((2, 3), 2e-6), ((4, 5), None)]
    assert kernels(row, [2], [2, 3], placed=[3]) == [((1,), None), ((2,), 1e-6), ((4, 5), None)]


def test_a_kernel_may_have_branches():
    """A sum of two rows, as TVM fuses it behind the one."""
    residual = chain_of([0], [1], [2, 1], [3])
    assert kernels(residual, [2, 3, 4], [2], [3, 4]) == [((1,), None), ((2, 3, 4), 3e-6)]


@pytest.mark.parametrize("results", [(3,), (1, 3)])
def test_what_gives_several_values_is_no_kernel_since_boxes_would_have_a_cycle(results):
    # 1 feeds 2, which may be another's, and 3: {1, 3} and {2} read each other.
    net = chain_of([0], [1], [1, 2], results=results)
    assert kernels(net, [1, 3], [1]) == [((1,), 1e-6), ((2,), None), ((3,), None)]


def test_of_equal_candidates_the_faster_counts():
    known = Known(chain_of([0]), [costed("b", [1], seconds) for seconds in (2.0, 1.0, None)])
    nobody = PartCost("unknown", None, "")
    assert known.part("b", [0, 1], nobody).seconds == 1.0
    assert known.part("tvm", [1], nobody).seconds is None


def test_labels_are_short():
    net = chain_of(*([0],) * 9, ops="aabbbcdef")
    assert net.label([1, 3, 6]) == "a + b + c"
    assert net.label(range(1, 10)) == "3 b, 2 a, c, d, 2 more"
