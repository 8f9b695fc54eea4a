# SPDX-License-Identifier: Apache-2.0
"""The pass with costs measured in worker processes: one tiny convolution, TVM and oneDNN."""

import contextlib
import gc
import math
import weakref
from importlib import import_module

import numpy as np
import pytest
import tvm
from relay_text import assert_same_outputs, is_external, parse
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import BackendUnavailableError, CollageOptions, CostEstimator
from tvm.relay.collage.backends import Backend, greedy_partition, registry
from tvm.relay.collage.collage import estimate_seconds, own_estimator
from tvm.relay.collage.estimators.session import default_workers, open_session, own_backend_modules
from tvm.relay.collage.measure import Cost, MeasureOptions, WorkerProcess
from tvm.relay.collage.process_wide import logs
from tvm.relay.collage.store.key import measuring_text
from tvm.relay.transform import CollagePartition
from tvm.target import Target, make_compilation_config

LLVM, DNNL = Target("llvm"), Target("dnnl")
RELU = "def @main(%x: Tensor[(8, 8), float32]) { nn.relu(%x) }"
DYNAMIC = RELU.replace("(8,", "(?,")


@pytest.fixture(scope="module", autouse=True)
def session():
    with open_session(quick_options().session) as session:
        yield session


@pytest.fixture(scope="module")
def conv():
    """conv2d, relu and a tanh that oneDNN's patterns leave to TVM."""
    weight = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype("float32")
    x = relay.var("x", shape=(1, 8, 16, 16))
    y = relay.nn.conv2d(x, relay.const(weight), kernel_size=3, channels=8, padding=1)
    y = relay.nn.relu(y)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.exp(y))))


def partition(mod, estimator):
    with tvm.transform.PassContext(opt_level=3) as context:
        config = make_compilation_config(context, [LLVM, DNNL])
        return CollagePartition(config, estimator)(mod)


def test_each_part_has_a_measured_cost_and_the_plan_their_sum(conv, session):
    estimator = CostEstimator(session)
    result = partition(conv, estimator)
    [report] = estimator.reports
    kernels = [part for part in report.parts if part.is_kernel]
    assert kernels and all(p.cost.status == "measured" and p.cost.seconds > 0 for p in kernels)
    parts = sum(part.cost.seconds for part in report.parts)
    backends = {part.backend for part in report.parts}
    if backends == {"dnnl"}:
        assert report.seconds == pytest.approx(parts)
    else:  # and transitions of TVM's blocked layout, where the model begins and ends too
        # The search adds whole picoseconds (search/ticks.h).
        rounding = len(report.parts) * 1e-12
        assert report.seconds >= parts - rounding
    assert not report.failed
    used = {part.backend for part in kernels}
    assert ("dnnl" in used) == any(is_external(f) for f in result.functions.values())
    assert_same_outputs(conv, result)
    misses, again = session.estimator.misses, CostEstimator(session)
    assert tvm.ir.structural_equal(partition(conv, again), result)
    assert again.reports[0].seconds == report.seconds and session.estimator.misses == misses


def test_a_batch_is_answered_in_its_order(conv, session):
    relu, dynamic = parse(RELU), parse(DYNAMIC)
    costs = CostEstimator(session).estimate_batch(
        [relu, dynamic, conv, relu], [LLVM] * 4, ["a", "b", "c", "d"]
    )
    assert [cost.status for cost in costs] == ["measured", "unsupported", "measured", "measured"]
    assert costs[0] == costs[3], "equal candidates are measured once"
    assert costs[1].seconds is None and "no tensor of a fixed shape" in costs[1].message


def test_a_candidate_that_does_not_build_is_a_failure_with_its_reason(session):
    broken = parse(
        """def @part(%a: $T, Primitive=1, Compiler="dnnl", global_symbol="part") -> $T {
          erf(%a)
        }
        def @main(%x: $T) { @part(%x) }"""
    )
    [cost] = CostEstimator(session).estimate_batch([broken], [DNNL], ["dnnl(erf)"])
    assert cost.status in {"compile_failed", "unsupported"} and cost.seconds is None
    assert cost.message and "\n  0:" not in cost.message


def test_a_backend_whose_compiler_is_missing_loses_and_the_build_goes_on(session):
    mod = parse(RELU)
    tvm.get_global_func("collage.RegisterTargetKind")("measured_test", 1)
    from tvm.relay.dataflow_pattern import is_op, wildcard
    from tvm.relay.op.contrib import register_pattern_table

    table = [("measured_test.relu", is_op("nn.relu")(wildcard()))]
    register_pattern_table("measured_test", lambda: table)
    estimator = CostEstimator(session)
    with tvm.transform.PassContext(opt_level=3) as context:
        config = make_compilation_config(context, [LLVM, Target("measured_test")])
        result = CollagePartition(config, estimator)(mod)
    assert len(result.functions) == 1
    [failed] = estimator.reports[0].failed
    assert failed.backend == "measured_test"
    assert failed.cost.status == "compile_failed" and failed.cost.message


def test_a_search_has_a_session_of_its_own_for_a_network_of_so_many_weights(monkeypatch, session):
    """One whose weights stay in caches has costs of its own, under keys of their own."""
    before = session.estimator.counts()
    weight = relay.const(np.ones((1024, 300), "float32"))
    mod = tvm.IRModule.from_expr(relay.nn.dense(relay.var("x", shape=(1, 300)), weight))
    opened = []

    @contextlib.contextmanager
    def spied(*arguments, **more):
        with open_session(*arguments, **more) as session:
            opened.append(session.estimator.options)
            yield session

    monkeypatch.setattr(import_module("tvm.relay.collage.optimizer"), "open_session", spied)
    options = quick_options(guard=False, store="none", measure_kernels=False)
    collage.optimize(mod, None, [LLVM, DNNL], options)
    [measuring] = opened
    assert session.estimator.counts() == before
    assert measuring.network_bytes == 1 << 20
    assert "network_bytes" in measuring_text(measuring)
    assert "network_bytes" not in measuring_text(MeasureOptions()), "unknown: more than caches hold"


def test_a_pass_without_a_session_measures_parts_of_the_module_that_it_is_given(monkeypatch):
    """Estimators of TVM's API in a pipeline of one's own; nothing is run here."""
    asked = []

    def cost(session, mods, targets, labels):
        asked.append((session.estimator, session.estimator.options.network_bytes))
        return [Cost.given(1.0)] * len(mods)

    estimators = import_module("tvm.relay.collage.estimators.estimator")
    monkeypatch.setattr(estimators, "measure_batch", cost)
    monkeypatch.setattr(
        estimators, "measure_transitions", lambda session, types, _: [0] * len(types)
    )
    estimator = CostEstimator()
    for side in (256, 256, 512, 4096):
        asked.clear()
        weight = relay.const(np.ones((side, 256), "float32"))
        x = relay.var("x", shape=(1, 256))
        mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.dense(x, weight)))
        with quick() as context:
            config = make_compilation_config(context, [LLVM, DNNL])
            tvm.transform.Sequential([CollagePartition(config, estimator)])(mod)
        assert {network_bytes for _, network_bytes in asked} == {side * 1024}
        assert len({id(session) for session, _ in asked}) == 1
    estimator.close()


@pytest.fixture
def started(monkeypatch):
    """The worker processes that are started."""
    workers = []
    begin = WorkerProcess.__init__

    def init(self, *args):
        begin(self, *args)
        workers.append(weakref.ref(self))

    monkeypatch.setattr(WorkerProcess, "__init__", init)
    return workers


def quick_options(**changes):
    quick = {"measure_seconds": 0.01, "workers": 1, "progress": "quiet", "verify": "none"}
    return CollageOptions(**quick, **changes)


def quick(**changes):
    return tvm.transform.PassContext(opt_level=3, config=quick_options(**changes).to_config())


def test_an_estimator_outside_a_session_keeps_its_workers_and_costs(started):
    estimator = CostEstimator()
    with quick() as context:
        config = make_compilation_config(context, [LLVM, DNNL])
        for _ in range(2):
            CollagePartition(config, estimator)(parse(RELU))
    assert len(started) == 1 and started[0]().is_alive
    first, second = estimator.reports
    assert first.seconds == second.seconds
    with quick(seed=1):
        assert estimator.estimate_batch([parse(RELU)], [LLVM], ["a"])[0].status == "measured"
    assert len(started) == 2, "other options of measuring, other workers"
    assert not started[0]() or not started[0]().is_alive
    state = weakref.ref(estimator._own)
    del estimator
    gc.collect()
    assert state() is None and started[1]() is None, "workers end with their estimator"


def test_the_old_protocol_gives_seconds_or_infinity_and_keeps_its_workers(started):
    relu, dynamic = parse(RELU), parse(DYNAMIC)
    with quick(seed=7):
        seconds = estimate_seconds(relu, LLVM)
        assert 0 < seconds < math.inf and estimate_seconds(relu, LLVM) == seconds
        assert tvm.get_global_func("tvm.relay.collage.estimate_seconds")(relu, LLVM) == seconds
        assert estimate_seconds(dynamic, LLVM) == math.inf
    assert len(started) == 1 and started[0]().is_alive
    own_estimator().close()
    assert not started[0]() or not started[0]().is_alive


class OwnBackend(Backend):
    """One that a user might write."""

    def __init__(self, name):
        self.name = name
        self.patterns = list


def test_only_the_targets_own_backends_are_imported(monkeypatch, caplog):
    monkeypatch.setattr(logs, "warned", set())
    used = type("Used", (OwnBackend,), {"__module__": "used.module"})
    broken = type("Broken", (OwnBackend,), {"__module__": "broken.module"})
    script = type("Script", (OwnBackend,), {"__module__": "__main__"})
    monkeypatch.setattr(registry, "REGISTERED", dict(registry.REGISTERED))
    for backend in (used("own_used"), broken("own_broken"), script("own_script")):
        registry.register_backend(backend)
    assert own_backend_modules([]) == own_backend_modules([DNNL]) == ()
    assert own_backend_modules([Target("own_used"), DNNL]) == ("used.module",)
    assert not caplog.records
    for _ in range(2):
        assert own_backend_modules([Target("own_script")]) == ()
    [record] = caplog.records
    assert "'own_script' is defined in the script" in record.getMessage()
    assert "move the backend" in record.getMessage()


@pytest.fixture
def replaced():
    """Mine in place of the cblas that comes with Collage."""
    stock = registry.get_backend("cblas")
    from replaced_backend import Mine

    yield registry.register_backend(Mine())
    registry.register_backend(stock)


def test_workers_measure_the_backend_that_replaced_a_built_in_one(replaced):
    text = """def @main(%x: Tensor[(8, 8), float32], %w: Tensor[(8, 8), float32]) {
      nn.dense(%x, %w, units=8) }"""
    part, target = greedy_partition(parse(text), "cblas"), Target("cblas", host=LLVM)
    with open_session(quick_options().session, [target]) as session:
        [cost] = CostEstimator(session).estimate_batch([part], [target], ["dense"])
    assert cost.status == "compile_failed" and "mine was asked" in cost.message


def test_a_script_replaces_no_built_in_backend(replaced, monkeypatch):
    monkeypatch.setattr(type(replaced), "__module__", "__main__")
    with pytest.raises(BackendUnavailableError, match="'cblas' is defined in the script .* move"):
        own_backend_modules([Target("cblas")])


def test_what_cannot_be_written_down_is_unsupported_and_logged(caplog, session):
    no_main = tvm.IRModule({})
    [cost] = CostEstimator(session).estimate_batch([no_main], [LLVM], ["tvm(nothing)"])
    assert cost.status == "unsupported" and cost.message.startswith("tvm(nothing): ValueError: ")
    [record] = caplog.records
    assert record.levelname == "WARNING" and "tvm(nothing)" in record.getMessage()


def test_our_own_bugs_are_no_failures_of_candidates(monkeypatch, session):
    def broken(*_, **__):
        raise KeyError("a bug")

    monkeypatch.setattr("tvm.relay.collage.estimators.row.deployable_module", broken)
    with pytest.raises(KeyError, match="a bug"):
        CostEstimator(session).estimate_batch([tvm.IRModule({})], [LLVM], ["a"])


@pytest.mark.parametrize("text, workers", [("1", 1), ("3", 3), ("64", 8)])
def test_a_worker_a_thread_up_to_eight(monkeypatch, text, workers):
    monkeypatch.setenv("TVM_NUM_THREADS", text)
    assert default_workers() == workers
    monkeypatch.delenv("TVM_NUM_THREADS")
    assert 1 <= default_workers() <= 8


@pytest.mark.parametrize("text", ["two", "0", "-1", "1.5"])
def test_a_wrong_number_of_threads_is_named(monkeypatch, text):
    monkeypatch.setenv("TVM_NUM_THREADS", text)
    with pytest.raises(ValueError, match=f"TVM_NUM_THREADS is '{text}': set it to a number"):
        default_workers()
