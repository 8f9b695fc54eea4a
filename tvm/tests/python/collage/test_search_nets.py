# SPDX-License-Identifier: Apache-2.0
"""The search benchmark's nets are the published ones: as many parameters, and the asked size."""

import sys
from pathlib import Path

import pytest
import tvm
from tvm import relay

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "bench"))

import search_nets


@pytest.mark.parametrize("name", search_nets.REAL)
def test_a_real_net_has_the_published_number_of_parameters(name):
    build, published = search_nets.REAL[name]
    _, params = build()
    assert search_nets.num_parameters(params) == published


@pytest.mark.parametrize("name", search_nets.SYNTHETIC)
def test_a_synthetic_net_has_about_as_many_calls_as_asked_for(name):
    for nodes in (100, 1000):
        mod, params = search_nets.SYNTHETIC[name](nodes)
        visited = []
        relay.analysis.post_order_visit(mod["main"].body, visited.append)
        calls = sum(isinstance(node, relay.Call) for node in visited)
        assert nodes * 0.8 <= calls <= nodes * 1.05
        assert all(isinstance(value, tvm.nd.NDArray) for value in params.values())
