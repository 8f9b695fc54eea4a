# SPDX-License-Identifier: Apache-2.0
"""Nets of the search benchmark: synthetic ones have the asked size, others are those of models."""

import models
import pytest
import search_nets
import tvm
from tvm import relay


@pytest.mark.parametrize("name", search_nets.SYNTHETIC)
def test_a_synthetic_net_has_about_as_many_calls_as_asked_for(name):
    for nodes in (100, 1000):
        mod, params = search_nets.build(f"{name}:{nodes}")
        visited = []
        relay.analysis.post_order_visit(mod["main"].body, visited.append)
        calls = sum(isinstance(node, relay.Call) for node in visited)
        assert nodes * 0.8 <= calls <= nodes * 1.05
        assert all(isinstance(value, tvm.nd.NDArray) for value in params.values())


def test_the_others_are_nets_of_the_benchmarks():
    assert {*search_nets.PUBLISHED, *search_nets.WIDEST} <= set(models.NETS)
    assert all(models.NETS[name].parameters for name in search_nets.PUBLISHED)


@pytest.mark.parametrize("name", ["chain", "chain:many", "ring:100", "resnet"])
def test_a_net_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match=f"unknown net {name}: choose of"):
        search_nets.build(name)
