# SPDX-License-Identifier: Apache-2.0
"""What a backend would cost in place of a plan's parts, with costs made by hand."""

import dataclasses

import pytest
from made_graphs import node
from tvm.relay.collage.costs.cost import CostStatus
from tvm.relay.collage.report.alternatives import Alternatives
from tvm.relay.collage.report.explanation import CandidateRow
from tvm.relay.collage.report.net import Part
from tvm.relay.collage.views.function_report import FunctionGraph

# A chain 0 -> 1 -> 2 -> 3; node 2 launches no kernel.
NODES = [node(k, "call", f"op{k}", (k - 1,) * (k > 0), is_result=k == 3) for k in range(4)]
NODES[2] = dataclasses.replace(NODES[2], is_kernel=False)
PARTS = [Part("a", (0, 1), 10.0), Part("b", (2, 3), 4.0)]


def alternatives(*rows, transitions=None):
    costed = [
        CandidateRow(backend, "", nodes, CostStatus.MEASURED, seconds, (), "")
        for backend, nodes, seconds in rows
    ]
    return Alternatives(FunctionGraph(tuple(NODES)), costed, PARTS, transitions or {})


def test_the_rest_of_a_part_is_added():
    known = alternatives(("c", (0,), 3.0), ("a", (1,), 9.0), ("b", (1,), 8.0))
    found = known.best("c", [0])
    assert found.here == (PARTS[0],) and [each.backend for each in found.rest] == ["b"]
    assert (found.candidate.seconds, found.rest_seconds, found.here_seconds) == (3.0, 8.0, 10.0)
    assert found.more_seconds == pytest.approx(1.0)


def test_the_candidate_with_the_least_in_all_is_the_best():
    known = alternatives(
        ("c", (0,), 3.0), ("c", (0, 1), 9.5), ("c", (0, 1, 2, 3), 13.0), ("b", (1,), 8.0)
    )
    found = known.best("c", [0])
    assert found.candidate.nodes == (0, 1, 2, 3) and found.more_seconds == pytest.approx(-1.0)
    # Of those that hold most of what is asked.
    assert (
        alternatives(("c", (0,), 0.1), ("c", (1, 3), 99.0)).best("c", [1, 3]).candidate.seconds
        == 99
    )


def test_what_was_not_measured_is_not_known():
    found = alternatives(("c", (0,), 3.0)).best("c", [0])
    assert found.rest is None and found.more_seconds is None
    assert alternatives(("c", (0,), 3.0)).best("c", [3]) is None


def test_transitions_are_those_of_values_that_the_parts_make_or_read():
    known = alternatives(("c", (3,), 3.0), transitions={1: 0.5, 0: 7.0})
    assert known.best("c", [3]).transition_seconds == 0.5 and known.best("c", [3]).rest == ()


def test_equal_operators_are_compared_but_not_all_of_them():
    known = alternatives(
        ("a", (0,), 3.0),
        ("c", (0,), 5.0),
        ("a", (1, 2), 3.0),
        ("c", (1,), 1.0),
        ("a", (0, 1, 3), 1.0),
        ("c", (0, 1, 3), 1.0),
    )
    pairs = known.same("a", {"c"})
    assert [(here.seconds, there.seconds) for here, there in pairs] == [(3.0, 5.0), (3.0, 1.0)]


def test_of_equal_operators_the_cheapest_are_compared_on_either_side():
    known = alternatives(
        ("a", (0,), 3.0), ("a", (0,), 4.0), ("c", (0,), 5.0), ("c", (0,), 2.0), ("c", (0,), 6.0)
    )
    [(here, there)] = known.same("a", {"c"})
    assert (here.seconds, there.seconds) == (3.0, 2.0)
