# SPDX-License-Identifier: Apache-2.0
"""What the placement tests share: a net, its placement by mock costs, files changed by hand."""

import json
from pathlib import Path

import pytest
import tvm
from relay_text import HOST, parse
from tvm.relay import collage
from tvm.relay.collage import CollageOptions, MockCostEstimator, optimizer
from tvm.relay.transform import CollagePartition
from tvm.target import Target, make_compilation_config

TARGETS = [HOST, "dnnl"]
# dnnl takes both convolutions and the sums of their branches; cos and its neighbours are TVM's.
NET = """def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  %1 = nn.relu(%0);
  %2 = cos(%1);
  %3 = nn.conv2d(%2, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  add(nn.relu(%3), %1)
}"""


def net(text=NET, seed=0):
    """A module and its weights, random by the seed."""
    return parse(text), {"w": weights((4, 4, 3, 3), seed)}


def weights(shape, seed):
    import numpy as np

    return tvm.nd.array(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def optimized(monkeypatch, mod=None, params=None, **options):
    """The result of a search with mock costs in which dnnl is cheap; no guard unless asked for."""
    monkeypatch.setattr(
        optimizer, "CostEstimator", lambda *_: MockCostEstimator({"llvm": 10, "dnnl": 1})
    )
    if mod is None:
        mod, params = net()
    return collage.optimize(mod, params, TARGETS, CollageOptions(**{"guard": False, **options}))


def optimized_once():
    """Return the result of `optimized` for a fixture that several tests share."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return optimized(monkeypatch)


def run_pass(mod, path, targets=TARGETS, **options):
    """The pass alone, with the option that names a placement's file."""
    config = {"placement": str(path), **options}
    config = {f"relay.collage.{key}": value for key, value in config.items()}
    with tvm.transform.PassContext(opt_level=3, config=config) as context:
        compilation = make_compilation_config(context, [Target(item) for item in targets])
        return CollagePartition(compilation, MockCostEstimator({}))(mod)


def edited(path, change):
    """Apply `change` to the file's JSON value, in place; returns the path."""
    value = json.loads(Path(path).read_text())
    change(value)
    Path(path).write_text(json.dumps(value))
    return path
