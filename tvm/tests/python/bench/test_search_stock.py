# SPDX-License-Identifier: Apache-2.0
"""No plan costs more than the one that TVM's prototype finds for the same rules and prices."""

import models
import numpy as np
import pytest
import search
import tvm
from models.graph import Graph, Tensor
from search_sides import load_module, save_module
from tvm import relay
from tvm.relay.collage import MockCostEstimator
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.optimizer import partition
from tvm.relay.op.contrib import dnnl, register_pattern_table
from tvm.target import Target


def separable():
    """Two inverted residual blocks as MobileNet's: expand, depthwise, project, add."""
    g = Graph("separable")

    def clipped(x):
        bounds = [g.constant(bound, "float32") for bound in (0, 6)]
        return Tensor(g.op("Clip", x, *bounds), x.channels)

    x = g.conv(g.input("data", (1, 3, 16, 16)), 8, 3, bias=True)
    for _ in range(2):
        block = clipped(g.conv(x, 24, 1, bias=True))
        block = clipped(g.conv(block, 24, 3, group=24, bias=True))
        x = g.add(x, g.conv(block, 8, 1, bias=True))
    return g.model(g.op("Flatten", g.op("GlobalAveragePool", x)))


NETS = {
    "mobilenetv2": lambda: models.NETS["mobilenetv2"].build(1),
    "inception": lambda: models.synthetic.inception(1, 48),
    "separable": separable,
    "transformer": lambda: models.bert.bert_base(1, layers=1),
}
PRICES = [{"llvm": 3, "ccompiler": 2}, {"llvm": 2, "ccompiler": 3}]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nets")

    def save(name):
        path = folder / name
        if not path.exists():
            mod, params = models.to_relay(NETS[name]())
            save_module(prepare(mod, params, Target("llvm"), opt_level=3), path)
        return path

    return save


@pytest.mark.parametrize("prices", PRICES, ids=["theirs", "ours"])
@pytest.mark.parametrize(
    "name, depth",
    [
        ("inception", 2),
        ("inception", 4),
        ("separable", 8),
        *(
            pytest.param(name, 4, marks=pytest.mark.slow("larger nets"))
            for name in ("mobilenetv2", "transformer")
        ),
    ],
)
def test_the_plan_costs_no_more_than_the_prototypes(name, depth, prices, saved):
    table = dnnl.pattern_table()
    register_pattern_table("ccompiler", lambda: table)
    estimator = MockCostEstimator(prices)
    partition(
        load_module(saved(name)),
        parse_targets([Target("llvm"), Target("ccompiler")]),
        estimator,
        tvm_max_depth=depth,
        byoc_max_depth=depth,
    )
    [report] = estimator.reports
    assert report.is_optimal
    theirs = search.run_stock(saved(name), depth, prices, 240)
    assert 0 < report.seconds <= theirs["price"] * (1 + 1e-6)


def test_a_prototype_that_gives_no_plan_in_time_has_failed(saved):
    found = search.run_stock(saved("separable"), 4, timeout=0.01)
    assert found == {"failed": "took longer than 0.01 s: no output"}


def test_a_saved_module_is_the_same_but_for_large_values(saved, tmp_path):
    data = relay.var("data", shape=(2, 4))
    large, small = np.ones((8, 4), "float32"), np.full((1, 8), 3, "float32")
    body = relay.nn.dense(data, relay.const(large)) + relay.const(small)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([data], body)))
    save_module(mod, tmp_path / "saved")
    zeros = relay.const(np.zeros_like(large))
    expected = relay.nn.dense(data, zeros) + relay.const(small)
    expected = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([data], expected)))
    tvm.ir.assert_structural_equal(load_module(tmp_path / "saved"), expected)
