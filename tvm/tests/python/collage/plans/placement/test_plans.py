# SPDX-License-Identifier: Apache-2.0
"""Whatever plan ships has a placement that gives it again: in each executor, and saved from it."""

import functools
import math

import numpy as np
import pytest
import tvm
from onednn_nets import run
from placement_nets import NET, TARGETS, net, optimized, optimized_once
from relay_text import HOST, PLAIN, assert_same_outputs, is_external
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import collage
from tvm.relay.collage import CollageOptions, PlacementError, optimizer
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import build_library, build_vm, prepare
from tvm.relay.collage.costs.kernel import with_kernels
from tvm.relay.collage.estimators import FunctionCosts
from tvm.relay.collage.plans import competing, names
from tvm.relay.collage.plans.graph_search import PlanSpace
from tvm.relay.collage.plans.graph_search.genomes import Search
from tvm.relay.collage.plans.run_pass import partition
from tvm.relay.collage.relay_util.walk import operator_calls
from tvm.relay.collage.tuning import TuningRecords
from tvm.runtime.vm import VirtualMachine

# Two branches that dnnl's op-level parts leave apart and its own plan joins.
BRANCHES = """def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  %1 = nn.relu(%0);
  %2 = nn.conv2d(%1, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  %3 = nn.relu(%2);
  %4 = cos(%3);
  (add(%4, %1), nn.max_pool2d(%3, pool_size=[2, 2]))
}"""
# A chain of convolutions, which may be one part or one each.
JOINED = BRANCHES.replace("%2 = nn.conv2d(%1", "%2 = nn.conv2d(nn.relu(%1)")
# Written twice, computed once: a placement is of the module without what is eliminated.
COMMON = """def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  %1 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  add(cos(nn.relu(%0)), nn.relu(%1))
}"""


def replayed(result, path, text=NET):
    """The result of a build from the saved file of another one's."""
    result.save_placement(path)
    mod, params = net(text)
    return collage.optimize(mod, params, TARGETS, placement=path)


def small_parts_only():
    """dnnl is cheap and takes two calls at most: what the search leaves apart is joined later."""

    def seconds_of(mod, target):
        calls = len(operator_calls(mod))
        if target.kind.name != "dnnl":
            return 10.0 * calls
        return 1.0 if calls <= 2 else math.inf

    return FunctionCosts(seconds_of)


def test_parts_that_are_joined_after_the_search_ship_and_are_replayed(fakes, tmp_path, monkeypatch):
    """As the pass itself joins them, though it ran once; kernels are chosen after it."""
    monkeypatch.setattr(optimizer, "CostEstimator", lambda *_: small_parts_only())
    fakes["winner"] = plan = "collage-merged"
    mod, params = net(JOINED)
    result = collage.optimize(mod, params, TARGETS)
    assert result.plan == plan and result.mod.same_as(fakes["plans"][plan])
    again = replayed(result, tmp_path / "net.json", JOINED)
    assert again.plan == plan and tvm.ir.structural_equal(again.mod, result.mod)
    parts = [part for part in again.placement.function("main").parts if part.is_primitive]
    assert_same_outputs(fakes["plans"]["tvm"], again.mod)
    joined = [part.cost.message for part in parts if len(part.composites) > 1]
    assert joined == ["joined from neighbouring parts after the search"]
    prepared, targets = fakes["plans"]["tvm"], parse_targets(TARGETS)
    passed = optimizer.partition(prepared, targets, small_parts_only(), merge_parts=True)
    passed = with_kernels(passed, again.placement.kernels)
    assert tvm.ir.structural_equal(passed, result.mod)


def test_what_is_computed_once_is_placed_once_and_replayed(tmp_path, monkeypatch):
    mod, params = net(COMMON)
    with tvm.transform.PassContext(opt_level=3):  # below it nothing is eliminated
        result = optimized(monkeypatch, mod, params)
        again = replayed(result, tmp_path / "net.json", COMMON)
    convs = [node.text for node in result.placement.function("main").nodes if "conv2d" in node.text]
    assert len(convs) == 2, "the operator and its one call"
    assert tvm.ir.structural_equal(again.mod, result.mod)
    assert any(map(is_external, again.mod.functions.values()))
    assert_same_outputs(prepare(mod, params, HOST), again.mod)


def test_plans_of_the_search_of_whole_plans_are_replayed(tmp_path):
    mod, params = net(COMMON)
    with tvm.transform.PassContext(opt_level=3):
        prepared, targets = prepare(mod, params, HOST), parse_targets(TARGETS)
        estimator = small_parts_only()
        estimator.replans = {}
        partition(prepared, targets, estimator)
        space = PlanSpace(estimator.replans, HOST)
        found = competing.Plans(prepared, targets)
        for rank, genome in enumerate(Search(space.choices, space.seeds(), "random").ask(6), 1):
            found.add_new(f"graph-{rank}", space.parts_of(genome))
        searched = [name for name in found.modules if name.startswith(names.SEARCHED)]
        assert searched
        for name in searched:
            found.maker(name, TuningRecords())().save(tmp_path / "net.json")
            again = collage.optimize(mod, params, TARGETS, placement=tmp_path / "net.json")
            assert again.plan == name
            assert tvm.ir.structural_equal(again.mod, found.modules[name])


def test_a_result_made_by_hand_has_none():
    mod, params = net()
    result = collage.Result(mod, tvm.target.Target("llvm"), "mine", None, [], {})
    with pytest.raises(PlacementError, match="plan 'mine' has no placement"):
        result.save_placement("nowhere.json")


# Executors, from a file alone.


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "net.json"
    optimized_once().save_placement(path)
    x = np.random.default_rng(1).standard_normal((1, 4, 8, 8)).astype("float32")
    library = build_library(prepare(*net(), PLAIN), PLAIN)
    return str(path), x, run(library, {"x": x})[0]


@pytest.fixture
def saved(monkeypatch, searched):
    """The file of a search, an input, and what TVM alone gives on it; nothing is measured then."""
    path, x, expected = searched

    def fail(*_, **__):
        raise AssertionError("a replay measures nothing")

    for name in ("CostEstimator", "decide", "open_session"):
        monkeypatch.setattr(optimizer, name, fail)
    return path, x, expected


def replaying(path):
    config = {"relay.collage.enable_collage": True, "relay.collage.placement": path}
    return tvm.transform.PassContext(config=config)


def assert_close(actual, expected):
    assert np.abs(actual - expected).max() <= 1e-4 * np.abs(expected).max()


def external_symbols(result):
    return [var.name_hint for var in result.mod.get_global_vars() if "dnnl" in var.name_hint]


def by_build(mod, params):
    library = relay.build(mod, target=TARGETS, params=params)
    return library.collage, lambda x: run(library, {"x": x})[0]


def by_vm(mod, params):
    executable = relay.vm.compile(mod, target=TARGETS, params=params)
    machine = VirtualMachine(executable, tvm.cpu())
    return executable.collage, lambda x: machine.invoke("main", x).numpy()


def by_executor(kind, mod, params):
    executor = relay.create_executor(kind, mod, tvm.cpu(), TARGETS, params)
    return executor.collage, lambda x: executor.evaluate()(x).numpy()


@pytest.mark.parametrize(
    "entry", [by_build, by_vm, *(functools.partial(by_executor, kind) for kind in ("graph", "vm"))]
)
def test_whoever_builds_replays_the_file_that_the_option_names(entry, saved):
    path, x, expected = saved
    with replaying(path):
        result, outputs_of = entry(*net())
    assert_close(outputs_of(x), expected)
    assert result.plan == "collage" and len(external_symbols(result)) >= 2
    assert result.placement == collage.load_placement(path)


def test_the_guard_and_measuring_options_do_not_matter(saved):
    path, _, _ = saved
    mod, params = net()
    options = CollageOptions(placement=path, guard=True, workers=3, measure_seconds=9.0)
    assert collage.optimize(mod, params, TARGETS, options).guard is None


# Equal parts are one function; its two calls must not share more than code.
TWICE = """def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  %1 = cos(nn.relu(%0));
  %2 = nn.conv2d(%1, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  (cos(nn.relu(%2)), %1)
}"""


@pytest.fixture
def compiled():
    """Symbols that dnnl is asked to compile, in order."""
    collage.backends.get_backend("dnnl")  # registers itself at its first use
    name, symbols = "relay.ext.dnnl", []
    original = tvm.get_global_func(name)

    def compile_part(function):
        symbols.append(str(function.attrs["global_symbol"]))
        return original(function)

    tvm.register_func(name, compile_part, override=True)
    yield symbols
    tvm.register_func(name, original, override=True)


def test_equal_parts_are_compiled_once_and_run_apart(monkeypatch, compiled):
    result = optimized(monkeypatch, *net(TWICE))
    functions = [function for function in result.mod.functions.values() if is_external(function)]
    assert len({str(function.attrs["global_symbol"]) for function in functions}) == 1
    assert len(functions) == 2
    assert len([p for p in result.placement.function("main").parts if p.is_primitive]) == 2
    [dnnl] = [row for row in result.to_json()["placement"] if row["backend"] == "dnnl"]
    assert (dnnl["parts"], dnnl["operators"]) == (2, 4)
    mod, params = net(TWICE)
    x = np.random.default_rng(1).standard_normal((1, 4, 8, 8)).astype("float32")
    plain = graph_executor.GraphModule(
        build_library(prepare(mod, params, PLAIN), PLAIN)["default"](tvm.cpu())
    )
    graph = graph_executor.GraphModule(build_library(result.mod, result.host)["default"](tvm.cpu()))
    assert len(compiled) == 1
    machine = VirtualMachine(build_vm(result.mod, result.host), tvm.cpu())
    assert len(compiled) == 2
    for scale in (1.0, 3.0):
        plain.run(x=scale * x)
        graph.run(x=scale * x)
        from_vm = machine.invoke("main", scale * x)
        for index in range(2):
            expected = plain.get_output(index).numpy()
            assert_close(graph.get_output(index).numpy(), expected)
            assert_close(from_vm[index].numpy(), expected)
