# SPDX-License-Identifier: Apache-2.0
"""No plan costs more than the one that TVM's prototype finds for the same rules and prices."""

import json
import os
import re
import subprocess
import sys

import models
import numpy as np
import pytest
import search_nets
import search_stock
import tvm
from search_module import load_module, save_module
from tvm import relay
from tvm.relay.collage import MockCostEstimator
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.optimizer import partition
from tvm.relay.collage.targets import parse_targets
from tvm.relay.op.contrib import dnnl, register_pattern_table
from tvm.target import Target


def separable():
    """Two inverted residual blocks as MobileNet's: expand, depthwise, project, add."""
    net = search_nets.Builder()
    out = net.conv(relay.var("data", shape=(1, 3, 16, 16)), 8, 3, inputs=3)
    for _ in range(2):
        block = relay.clip(net.conv(out, 24, 1, inputs=8), 0, 6)
        block = relay.clip(net.conv(block, 24, 3, inputs=24, groups=24), 0, 6)
        out = out + net.conv(block, 8, 1, inputs=24)
    return search_nets.workload(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(out)))


NETS = {
    "mobilenetv2": lambda: search_nets.build("mobilenetv2"),
    "inception_like": lambda: search_nets.inception_like(48),
    "separable": separable,
    "transformer": lambda: models.to_relay(models.bert.bert_base(1, layers=1)),
}
PRICES = [{"llvm": 3, "ccompiler": 2}, {"llvm": 2, "ccompiler": 3}]


def stock_price(path, depth, prices):
    """What the prototype says in its log that its plan costs."""
    command = [sys.executable, search_stock.__file__, str(path), "--depth", str(depth)]
    done = subprocess.run(
        [*command, "--prices", json.dumps(prices)],
        env={**os.environ, "COLLAGE_DISABLE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return float(re.search(r"Estimated overall cost is ([\d.e+]+)us", done.stderr)[1]) * 1e-6


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nets")

    def save(name):
        path = folder / name
        if not path.exists():
            mod, params = NETS[name]()
            save_module(prepare(mod, params, Target("llvm"), opt_level=3), path)
        return path

    return save


@pytest.mark.parametrize("prices", PRICES, ids=["theirs", "ours"])
@pytest.mark.parametrize(
    "name, depth",
    [
        ("mobilenetv2", 4),
        ("inception_like", 2),
        ("inception_like", 4),
        ("separable", 8),
        ("transformer", 4),
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
    theirs = stock_price(saved(name), depth, prices)
    assert 0 < report.seconds <= theirs * (1 + 1e-6)


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
