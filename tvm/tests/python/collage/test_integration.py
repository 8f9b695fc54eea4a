# SPDX-License-Identifier: Apache-2.0
"""relay.build, relay.vm.compile and create_executor, with the option and without it."""

import contextlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tvm
from onednn_nets import run
from relay_text import plain_host
from sessions import shared_session
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.backend import vm as vm_backend
from tvm.relay.collage import CollageOptions, integration, optimizer, relay_builds
from tvm.relay.collage.exec.arrays import set_inputs
from tvm.relay.collage.plans.names import ONE_THREAD
from tvm.runtime.vm import VirtualMachine

# What one candidate and the guard may take here: the plans are right, their costs rough.
QUICK = CollageOptions(
    enable_collage=True, measure_seconds=0.01, guard_rounds=3, workers=1, progress="quiet"
)


@pytest.fixture(scope="module")
def net():
    """conv2d, bias, relu and a dense layer: (module, params, input)."""
    rng = np.random.default_rng(0)
    x, weight = relay.var("x", shape=(1, 8, 16, 16)), relay.var("weight", shape=(16, 8, 3, 3))
    bias, dense = relay.var("bias", shape=(16,)), relay.var("dense", shape=(10, 16))
    y = relay.nn.conv2d(x, weight, kernel_size=3, padding=1, channels=16)
    y = relay.nn.bias_add(y, bias)
    y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.nn.relu(y)))
    mod = tvm.IRModule.from_expr(relay.Function([x, weight, bias, dense], relay.nn.dense(y, dense)))
    shapes = {"weight": (16, 8, 3, 3), "bias": (16,), "dense": (10, 16)}
    params = {
        key: tvm.nd.array(rng.standard_normal(shape).astype("float32"))
        for key, shape in shapes.items()
    }
    return mod, params, rng.standard_normal((1, 8, 16, 16)).astype("float32")


@pytest.fixture(scope="module")
def expected(net):
    mod, params, x = net
    with tvm.transform.PassContext(opt_level=3):
        return run(relay.build(mod, target=plain_host(), params=params), {"x": x})[0]


@pytest.fixture(scope="module")
def targets():
    return [plain_host(), tvm.target.Target("dnnl")]


@pytest.fixture(scope="module", autouse=True)
def session():
    """One measuring process, and its memory of costs, for the file."""
    with shared_session(QUICK) as session:
        yield session


def quick(**options):
    config = {**QUICK.to_config(), **{f"relay.collage.{k}": v for k, v in options.items()}}
    return tvm.transform.PassContext(opt_level=3, config=config)


def close(actual, expected):
    return np.abs(actual - expected).max() <= 1e-4 * np.abs(expected).max()


# With the option.


def test_build_gives_a_library_that_carries_the_decision(net, targets, expected):
    mod, params, x = net
    before = mod.astext(False)
    with quick():
        library = relay.build(mod, target=targets, params=params)
    assert close(run(library, {"x": x})[0], expected)
    result = library.collage
    assert result.plan.removesuffix(ONE_THREAD) in {"tvm", "dnnl", "collage", "collage-merged"}
    assert result.guard.of(result.plan).cost.status == "measured"
    # The op-level plan competes unless the search ended since it cannot win.
    is_beaten = all(report.is_beaten for report in result.partitioned)
    assert {"tvm", "dnnl"} | (set() if is_beaten else {"collage"}) <= set(result.guard.libraries)
    assert all(item.output_error <= 1e-4 for item in result.guard.comparisons)
    assert mod.astext(False) == before


def test_a_single_function_is_taken_as_a_module_and_deployed(net, targets, expected, tmp_path):
    mod, params, x = net
    with quick(guard=False):
        library = relay.build(mod["main"], target=targets, params=params)
    assert close(run(library, {"x": x})[0], expected)
    assert library.collage.guard is None and library.collage.plan == "collage"
    path = str(tmp_path / "net.so")
    library.export_library(path)
    assert close(run(tvm.runtime.load_module(path), {"x": x})[0], expected)


@pytest.fixture
def told(monkeypatch):
    """What builds are told of."""
    found = []

    def one_step(name, step, kind):
        found.append((name, step, kind))
        return contextlib.nullcontext()

    monkeypatch.setattr(relay_builds, "one_step", one_step)
    return found


def test_a_build_behind_the_search_is_told_of(net, targets, told):
    mod, params, _ = net
    with quick(guard=False, progress="json"):
        relay.build(mod, target=targets, params=params)
    assert told == [("building", "collage", "json")]
    with quick(progress="json"):
        relay.build(mod, target=targets, params=params)
    assert len(told) == 1, "the guard has built what ships"


def test_vm_compile(net, targets, expected, told):
    mod, params, x = net
    with quick(guard=False, progress="quiet"):
        executable = relay.vm.compile(mod, target=targets, params=params)
    assert told == [("building", "collage", "quiet")]
    machine = VirtualMachine(executable, tvm.cpu())
    assert close(machine.invoke("main", x).numpy(), expected)
    assert executable.collage.plan == "collage"


@pytest.mark.parametrize("guard", [True, False])
def test_build_keeps_its_other_arguments(net, targets, expected, guard):
    """Of the library that was measured, too, which is what ships."""
    mod, params, x = net
    with quick(guard=guard):
        library = relay.build(
            mod,
            target=targets,
            params=params,
            executor=relay.backend.Executor("graph", {"link-params": True}),
            runtime=relay.backend.Runtime("cpp"),
            mod_name="my_net",
        )
    result = library.collage
    assert library.libmod_name == "my_net"
    if guard:
        assert library is result.library
        assert result.guard.of(result.plan).cost.status == "measured"
    module = graph_executor.GraphModule(library["my_net"](tvm.cpu()))
    module.run(x=x)
    assert close(module.get_output(0).numpy(), expected)


@pytest.mark.parametrize("kind", ["aot", "graph"])
def test_the_host_alone_is_tuned_for_any_executor(kind, net, expected, monkeypatch):
    """The guard measures what ships, by the executor that it is built for. Nothing is searched."""
    monkeypatch.setattr(optimizer, "tuning", lambda found, *_, **__: contextlib.nullcontext(found))
    monkeypatch.setattr(optimizer, "tune_whole", lambda *_: None)
    mod, params, x = net
    with quick(tune=1):
        library = relay.build(
            mod,
            target=plain_host(),
            params=params,
            executor=relay.backend.Executor(kind),
            mod_name="my_net",
        )
    result = library.collage
    assert result.library is library
    assert result.guard.of("tvm").cost.status == "measured", result.guard.of("tvm").Summary()
    executor = library["my_net"](tvm.cpu())
    set_inputs(executor, {"x": x})
    executor["run"]()
    assert close(executor["get_output"](0).numpy(), expected)


def with_weight(text):
    mod = tvm.relay.fromtext(f'#[version = "0.0.5"]\n{text}')
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")
    return mod, {"w": tvm.nd.array(weight)}, weight


DENSE = "%0 = nn.dense(%x, %w, units=None); nn.relu(%0)"


def test_vm_compile_of_control_flow(targets):
    kind = "Tensor[(8, 64), float32]"
    mod, params, weight = with_weight(
        f"""def @main(%c: bool, %x: {kind}, %w: Tensor[(64, 64), float32]) -> {kind} {{
          if (%c) {{ {DENSE} }} else {{ tanh(%x) }}
        }}"""
    )
    with quick():
        executable = relay.vm.compile(mod, target=targets, params=params)
    result = executable.collage
    assert result.library is executable and result.guard.of(result.plan).cost.status == "measured"
    machine = VirtualMachine(executable, tvm.cpu())
    x = np.random.default_rng(1).standard_normal((8, 64)).astype("float32")
    for choice, right in [(True, np.maximum(x @ weight.T, 0)), (False, np.tanh(x))]:
        assert close(machine.invoke("main", np.array(choice), x).numpy(), right)


def test_vm_compile_of_a_dynamic_batch(targets):
    kind = "Tensor[(?, 64), float32]"
    mod, params, weight = with_weight(
        f"def @main(%x: {kind}, %w: Tensor[(64, 64), float32]) -> {kind} {{ {DENSE} }}"
    )
    with quick():
        executable = relay.vm.compile(mod, target=targets, params=params)
    result = executable.collage
    assert result.plan == "tvm"
    assert result.guard_skipped.startswith("inputs with open dimensions (x [?, 64]) cannot be made")
    x = np.random.default_rng(1).standard_normal((3, 64)).astype("float32")
    found = VirtualMachine(executable, tvm.cpu()).invoke("main", x).numpy()
    assert close(found, np.maximum(x @ weight.T, 0))


def test_a_tuple_as_input_is_for_the_vm(targets):
    """TVM's graph executor takes none, and says so itself."""
    kind = "Tensor[(8, 64), float32]"
    mod, params, weight = with_weight(
        f"""def @main(%p: ({kind}, {kind}), %w: Tensor[(64, 64), float32]) -> {kind} {{
          %0 = nn.dense(%p.0, %w, units=None); add(%0, %p.1)
        }}"""
    )
    with quick():
        executable = relay.vm.compile(mod, target=targets, params=params)
        with pytest.raises(tvm.TVMError, match="kGraphOpNode"):
            relay.build(mod, target=targets, params=params)
    assert "input p is no tensor of a fixed shape" in executable.collage.guard_skipped
    x = np.random.default_rng(1).standard_normal((2, 8, 64)).astype("float32")
    both = tvm.runtime.container.tuple_object([tvm.nd.array(x[0]), tvm.nd.array(x[1])])
    found = VirtualMachine(executable, tvm.cpu()).invoke("main", both).numpy()
    assert close(found, x[0] @ weight.T + x[1])


@pytest.mark.parametrize("kind", ["graph", "vm"])
def test_create_executor(kind, net, targets, expected):
    mod, params, x = net
    with quick(guard=False):
        executor = relay.create_executor(kind, mod, tvm.cpu(), targets, params)
    # Built later, and outside of the context, as TVM's executors are.
    assert close(executor.evaluate()(x).numpy(), expected)
    assert executor.collage.plan == "collage"


def test_an_executor_that_is_evaluated_under_the_option_is_built_as_decided(
    net, targets, expected, tmp_path, caplog
):
    mod, params, x = net
    file = str(tmp_path / "placement.json")
    with quick(guard=False):
        relay.build(mod, target=targets, params=params).collage.save_placement(file)
    with quick(placement=file):
        executor = relay.create_executor("graph", mod, tvm.cpu(), targets, params)
        assert close(executor.evaluate()(x).numpy(), expected)
    assert executor.collage.plan == "collage" and "names no backend" not in caplog.text


def test_a_host_target_alone_needs_no_measuring(net, expected):
    mod, params, x = net
    with quick():
        library = relay.build(mod, target=plain_host(), params=params)
    assert close(run(library, {"x": x})[0], expected)
    assert (library.collage.plan, library.collage.partitioned) == ("tvm", [])


# Without the option.


def test_the_option_is_off_by_default_and_read_from_the_innermost_context():
    assert not integration.is_enabled()
    with quick():
        assert integration.is_enabled()
        with tvm.transform.PassContext():
            assert not integration.is_enabled()
    with quick(enable_collage=False):
        assert not integration.is_enabled()


def test_arguments_reach_stock_unchanged_and_its_result_comes_back():
    calls = []

    def build(*args, **kwargs):
        """Its documentation."""
        calls.append((args, kwargs))
        return "stock's own"

    wrapper = integration.when_enabled(lambda stock, *a, **k: "ours", build)
    mark = object()
    assert wrapper(mark, 2, target=mark) == "stock's own"
    [(args, kwargs)] = calls
    assert args == (mark, 2) and kwargs == {"target": mark}
    with quick():
        assert wrapper(mark) == "ours"
    assert (wrapper.__name__, wrapper.__doc__) == ("build", "Its documentation.")


def test_wrapping_twice_wraps_once():
    wrapped = (
        (relay.build_module, "build"),
        (vm_backend, "compile"),
        (relay.build_module, "create_executor"),
        (tvm.transform.PassContext, "__init__"),
    )
    before = [getattr(*each) for each in wrapped]
    integration.install()
    assert before == [getattr(*each) for each in wrapped]
    assert not any(hasattr(getattr(*each).__wrapped__, "__wrapped__") for each in wrapped)


def test_every_name_of_the_functions_is_the_wrapper():
    assert relay.build is relay.build_module.build
    assert relay.create_executor is relay.build_module.create_executor
    assert relay.vm.compile is vm_backend.compile
    for wrapper in (relay.build, relay.create_executor, relay.vm.compile):
        assert wrapper.__wrapped__.__module__.startswith("tvm.relay")


STOCK = """
import hashlib, json, os, sys
import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import testing

data, weight = relay.var("data", shape=(1, 3, 8, 8)), relay.var("weight", shape=(8, 3, 3, 3))
body = relay.nn.relu(relay.nn.conv2d(data, weight, channels=8, kernel_size=(3, 3)))
mod, params = testing.create_workload(relay.Function([data, weight], relay.nn.softmax(body)))
with tvm.transform.PassContext(opt_level=3):
    library = relay.build(mod, target="llvm -opt-level=0", params=params)
    executable = relay.vm.compile(mod, target="llvm -opt-level=0", params=params)
x = np.random.default_rng(0).uniform(size=(1, 3, 8, 8)).astype("float32")
graph = graph_executor.GraphModule(library["default"](tvm.cpu()))
graph.run(data=x)
machine = tvm.runtime.vm.VirtualMachine(executable, tvm.cpu())
digest = lambda data: hashlib.sha256(data).hexdigest()
print(json.dumps({
    "json": digest(library.get_graph_json().encode()),
    "params": {k: digest(v.numpy().tobytes()) for k, v in sorted(library.get_params().items())},
    "source": digest(library.get_lib().get_source("asm").encode()),
    "graph": digest(graph.get_output(0).numpy().tobytes()),
    "vm": digest(machine.invoke("main", x).numpy().tobytes()),
    "ours": hasattr(relay.build_module, "_collage_stock_build"),
}))
"""


def test_without_the_option_everything_is_stocks_bit_for_bit():
    found = []
    for disabled in ("0", "1"):
        environment = {**os.environ, "COLLAGE_DISABLE": disabled}
        done = subprocess.run(
            [sys.executable, "-c", STOCK], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.splitlines()[-1]))
    assert [item.pop("ours") for item in found] == [True, False]
    assert found[0] == found[1]


def test_an_external_target_without_the_option_is_left_to_tvm(net, targets):
    mod, params, x = net
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target=targets, params=params)
    assert not hasattr(library, "collage")
    assert run(library, {"x": x})[0].shape == (1, 10)
