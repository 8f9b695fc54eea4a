# SPDX-License-Identifier: Apache-2.0
"""`relay.build` with a store: the second time nothing but the guard measures."""

import dataclasses
import shutil

import numpy as np
import pytest
import tvm
from relay_text import parse
from tvm import relay
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.collage import CollageOptions, CostEstimator, optimize
from tvm.relay.collage.backends.dnnl import DnnlBackend
from tvm.relay.collage.estimators.session import open_session
from tvm.relay.collage.measure import Cost, WorkerProcess
from tvm.relay.collage.store import CostStore, StoreForeignError
from tvm.relay.transform import CollagePartition
from tvm.target import Target, make_compilation_config

TARGETS = [Target("llvm"), Target("dnnl")]


@pytest.fixture(scope="module")
def net():
    """A convolution that oneDNN takes, and an erf that it does not."""
    mod = parse(
        """def @main(%x: Tensor[(1, 8, 16, 16), float32], %w: Tensor[(8, 8, 3, 3), float32]) {
          %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], kernel_size=[3, 3]);
          nn.max_pool2d(erf(nn.relu(%0)), pool_size=[2, 2], strides=[2, 2])
        }"""
    )
    weight = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype("float32")
    mod["main"] = bind_params_by_name(mod["main"], {"w": tvm.nd.array(weight)})
    return relay.transform.InferType()(mod)


def options(path, **changes):
    return CollageOptions(
        store=str(path),
        measure_seconds=0.01,
        workers=1,
        progress="quiet",
        guard_rounds=2,
        **changes,
    )


@pytest.fixture
def started(monkeypatch):
    """One entry a worker process that is started."""
    workers = []
    begin = WorkerProcess.__init__

    def init(self, *args):
        workers.append(1)
        begin(self, *args)

    monkeypatch.setattr(WorkerProcess, "__init__", init)
    return workers


def optimize_plain(mod, path, **changes):
    with tvm.transform.PassContext(opt_level=3):
        return optimize(mod, targets=TARGETS, options=options(path, guard=False, **changes))


def build(mod, path, **changes):
    config = options(path, enable_collage=True, **changes).to_config()
    with tvm.transform.PassContext(opt_level=3, config=config):
        return relay.build(mod, target=TARGETS).collage


@pytest.fixture(scope="module")
def first_build(net, tmp_path_factory):
    """A build into a new store, and that store's file."""
    path = tmp_path_factory.mktemp("first") / "costs.sqlite"
    return build(net, path, guard=False), path


@pytest.fixture
def path(first_build, tmp_path):
    """A copy of the first build's store."""
    return shutil.copy(first_build[1], tmp_path / "costs.sqlite")


def test_a_warm_build_starts_no_worker_and_gives_the_same_plan(net, first_build, path, started):
    first = first_build[0]
    with CostStore(path) as store:
        rows = store.rows()
    assert {row.key.backend for row in rows} >= {"tvm", "dnnl"}
    assert {row.key.backend_version for row in rows if row.key.backend == "dnnl"} == {
        DnnlBackend().version()
    }
    assert all(row.label for row in rows)
    kernels = [row for row in rows if not row.key.target]
    assert kernels and all(row.key.options.startswith('{"kernel": "') for row in kernels)
    assert all('"opt_level": 3' in row.key.options for row in rows if row.key.target)
    second = build(net, path, guard=False)
    assert started == []
    assert tvm.ir.structural_equal(first.mod, second.mod)
    assert first.partitioned[0].seconds == second.partitioned[0].seconds
    with CostStore(path) as store:
        assert store.rows() == rows, "what is known is not measured, nor written, again"


def test_the_guard_always_measures(net, path, started):
    with CostStore(path) as store:
        count = len(store.rows())
    result = build(net, path, effort="exhaustive")
    own = [item for item in result.guard.comparisons if not item.same_as]
    assert len(started) >= len(own) - 1 > 0, "processes of whole plans"
    assert all(item.cost.rounds for item in result.guard.comparisons if item.cost.is_usable)
    with CostStore(path) as store:
        assert len(store.rows()) == count


def test_the_default_store_is_the_users_own(net, path, tmp_path, monkeypatch, started):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("COLLAGE_STORE")
    (tmp_path / "tvm-collage").mkdir()
    shutil.move(path, tmp_path / "tvm-collage")
    optimize_plain(net, "")
    assert started == []
    with open_session(options("none").session) as session:
        [cost] = CostEstimator(session).estimate_batch([net], TARGETS[:1], ["net"])
        assert started and cost.status == "measured"
        assert "store" not in session.estimator.Summary()


def test_another_library_version_is_another_key(net, path, monkeypatch, started):
    before = DnnlBackend().version()
    monkeypatch.setattr(DnnlBackend, "version", lambda self: "99")
    optimize_plain(net, path)
    assert started
    with CostStore(path) as store:
        assert {row.key.backend_version for row in store.rows(backend="dnnl")} == {before, "99"}


def test_failures_are_retried_when_the_option_asks(net, tmp_path, started):
    path = tmp_path / "costs.sqlite"

    def status(**changes):
        with open_session(options(path, **changes).session) as session:
            [cost] = CostEstimator(session).estimate_batch([net], TARGETS[:1], ["net"])
        return cost.status

    assert status() == "measured"
    with CostStore(path) as store:
        [first] = store.rows()
        store.put(dataclasses.replace(first, cost=Cost.failed("run_failed", "of the test")))
    started.clear()
    assert status() == "run_failed" and started == []
    assert status(retry_failed=True) == "measured" and len(started) == 1
    assert status() == "measured" and len(started) == 1


def test_a_named_store_that_will_not_do_ends_the_build_before_anything_is_measured(
    net, tmp_path, started
):
    path = tmp_path / "costs.sqlite"
    path.write_text("a letter to a friend, and no database\n" * 50)
    with pytest.raises(StoreForeignError, match="this is no SQLite file"):
        build(net, path)
    # Also where TVM's own API asks an estimator, through C++.
    with tvm.transform.PassContext(opt_level=3, config=options(path).to_config()) as context:
        config = make_compilation_config(context, TARGETS)
        with pytest.raises(StoreForeignError, match="this is no SQLite file"):
            CollagePartition(config, CostEstimator())(net)
    assert started == []


def test_versions_of_onednn_tell_its_instructions_apart(monkeypatch):
    monkeypatch.delenv("DNNL_MAX_CPU_ISA", raising=False)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    plain = DnnlBackend().version()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert DnnlBackend().version() == f"{plain} up to AVX2"
