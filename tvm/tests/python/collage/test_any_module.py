# SPDX-License-Identifier: Apache-2.0
"""Modules of every kind, built and run: what cannot be placed stays on TVM, outputs are the same.

test_collage_partition.py has the text before and after of functions, control flow, closures and
references; here are the kinds that only a build shows, large graphs, and the measured way.
"""

import numpy as np
import pytest
import tvm
from relay_text import (
    count_calls,
    is_external,
    make_backend,
    parse,
    partition,
    plain_host,
    random_args,
    run,
)
from sessions import shared_session
from tvm import relay
from tvm.contrib.graph_executor import GraphModule
from tvm.relay.backend import vm
from tvm.relay.collage import CollageOptions, MockCostEstimator
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.errors import ModuleError
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.annotation import on_device
from tvm.relay.op.op import register
from tvm.runtime.vm import VirtualMachine
from tvm.target import Target

NAME = "any_test"
CHEAP = {"llvm": 10, NAME: 1}
ALONE = [f"{NAME}.NoFusion"]
HOST = plain_host()


@pytest.fixture(scope="module")
def backend():
    table = [(f"{NAME}.{op}", is_op(op)(wildcard())) for op in ("nn.relu", "exp", "concatenate")]
    table.append((f"{NAME}.add", is_op("add")(wildcard(), wildcard())))
    return make_backend(NAME, table)


def parts_of(mod):
    names = (var.name_hint for var, function in mod.functions.items() if is_external(function))
    return sorted(name.removeprefix(f"collage_{NAME}_") for name in names)


# Operators that nobody can place.


@pytest.fixture(scope="module")
def unknown_op():
    """An operator without TOpPattern, strategy or anything else but a type."""
    name = "collage_test.unknown"
    register(name, "an operator for tests")
    op = relay.op.get(name)
    op.set_num_inputs(1)
    op.add_argument("data", "Tensor", "the input")
    op.set_attrs_type_key("DictAttrs")
    op.add_type_rel("Identity")
    return op


def test_an_unknown_operator_stays_and_says_why(backend, unknown_op):
    x = relay.var("x", shape=(2, 4))
    call = relay.Call(unknown_op, [relay.nn.relu(x)])
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.exp(call)))
    estimator = MockCostEstimator(CHEAP)
    result = partition(mod, [backend], estimator)
    assert parts_of(result) == ["exp", "nn_relu"] and count_calls(result) == count_calls(mod)
    [row] = estimator.reports[0].unplaced
    assert (row.op, row.backend, row.why) == ("collage_test.unknown", NAME, "opaque")


def test_operators_of_the_vm_and_of_memory_stay(backend):
    x = relay.var("x", shape=(relay.Any(), 4))
    shape = relay.op.vm.shape_of(relay.nn.relu(x))
    moved = relay.op.vm.reshape_tensor(relay.exp(x), shape, (relay.Any(), 4))
    alloc = tvm.get_global_func("relay.op.memory._make.alloc_storage")
    size, device = relay.const(64, "int64"), tvm.target.VirtualDevice(tvm.cpu())
    storage = alloc(size, relay.const([64], "int64"), size, device, "float32")
    body = relay.Let(relay.var("storage"), storage, relay.Tuple([moved, shape]))
    mod = tvm.IRModule()
    mod.import_from_std("core.rly")  # the type of storage
    mod["main"] = relay.Function([x], body)
    mod = relay.transform.InferType()(mod)
    estimator = MockCostEstimator(CHEAP)
    result = partition(mod, [backend], estimator)
    assert parts_of(result) == ["exp", "nn_relu"] and count_calls(result) == count_calls(mod)
    assert {row.op for row in estimator.reports[0].unplaced} == {
        "memory.alloc_storage",
        "vm.reshape_tensor",
        "vm.shape_of",
    }


def test_functions_that_are_tir_stay(backend):
    text = "def @main(%x: $T) -> $T { nn.relu(%x) }"
    mod = parse(text)
    index = tvm.te.placeholder((4,), name="a")
    doubled = tvm.te.compute((4,), lambda i: index[i] * 2, name="b")
    mod["doubled"] = tvm.te.create_prim_func([index, doubled]).with_attr("global_symbol", "doubled")
    estimator = MockCostEstimator(CHEAP)
    result = partition(mod, [backend], estimator)
    assert tvm.ir.structural_equal(result["doubled"], mod["doubled"])
    skipped = {row.function: row.skipped for row in estimator.reports if row.skipped}
    assert skipped == {"doubled": "not a Relay function, but TVM's tir.PrimFunc"}


# RFC 10: kinds of targets that lower whole functions by a hook (RelayToTIR).

HOOK = "example_target_hook"  # the base package's example: it turns this one function's + into -
SYMBOL = "replace_add_with_subtract"
VECTOR = "Tensor[(8), float32]"


def hooked_module(inline):
    """x + y in a function for the hook, relu before and after it."""
    return parse(
        f"""
        def @{SYMBOL}(%x: {VECTOR}, %y: {VECTOR}, {inline}Primitive=1, Compiler="{HOOK}",
            global_symbol="{SYMBOL}") -> {VECTOR} {{ add(%x, %y) }}
        def @main(%x: {VECTOR}, %y: {VECTOR}) -> {VECTOR} {{
          nn.relu(@{SYMBOL}(nn.relu(%x), %y))
        }}
        """
    )


@pytest.mark.parametrize("inline", ["Inline=1, ", ""])
def test_a_function_outlined_for_a_hook_stays_as_it_is(inline):
    """Building it is the base package's: there its own build of such a module does not load."""
    mod = hooked_module(inline)
    estimator = MockCostEstimator({"llvm": 10, "dnnl": 1})
    result = partition(mod, [Target("dnnl")], estimator)
    assert tvm.ir.structural_equal(result[SYMBOL], mod[SYMBOL])
    assert sum(map(is_external, result.functions.values())) == 3
    skipped = {row.function: row.skipped for row in estimator.reports}
    assert skipped == {"main": "", SYMBOL: f"partitioned already: Compiler {HOOK}"}


def test_the_hook_runs_in_a_build_of_what_we_partitioned():
    """The hook has replaced the function: nobody asks for a code generator of that name."""
    result = partition(hooked_module(""), [Target("dnnl")], {"llvm": 10, "dnnl": 1})
    library = build_library(result, HOST, opt_level=3)
    assert SYMBOL in library.get_graph_json()


def test_a_kind_with_a_hook_is_an_external_backend():
    relay.op.contrib.register_pattern_table(
        HOOK, lambda: [(f"{HOOK}.add", is_op("add")(wildcard(), wildcard()))]
    )
    text = "def @main(%x: $T, %y: $T) -> $T { nn.relu(add(%x, %y)) }"
    result = partition(parse(text), [Target(HOOK)], {"llvm": 10, HOOK: 1})
    [part] = [function for function in result.functions.values() if is_external(function)]
    assert part.attrs["Compiler"] == HOOK and count_calls(result) == count_calls(parse(text))


# Large graphs.


def chain(depth):
    """relu and tanh in turns."""
    body = x = relay.var("x", shape=(2, 4))
    for index in range(depth):
        body = relay.nn.relu(body) if index % 2 else relay.tanh(body)
    return tvm.IRModule.from_expr(relay.Function([x], body))


def test_thousands_of_calls_deep(backend):
    mod = relay.transform.InferType()(chain(3000))
    result = partition(mod, [backend], CHEAP, byoc_fusion_style=ALONE)
    assert len(parts_of(result)) == 1500 and count_calls(result) == count_calls(mod)


def test_thousands_of_lets_and_hundreds_of_nested_branches(backend):
    x, go_on = relay.var("x", shape=(2, 4)), relay.var("go_on", shape=(), dtype="bool")
    bound, value = [], x
    for index in range(2000):
        var = relay.var(f"v{index}")
        bound.append((var, relay.nn.relu(value) if index % 2 else relay.tanh(value)))
        value = var
    for _ in range(300):
        value = relay.If(go_on, relay.exp(value), x)
    for var, item in reversed(bound):
        value = relay.Let(var, item, value)
    mod = tvm.IRModule.from_expr(relay.Function([go_on, x], value))
    mod = relay.transform.InferType()(mod)
    result = partition(mod, [backend], CHEAP, byoc_fusion_style=ALONE)
    assert len(parts_of(result)) == 1300 and count_calls(result) == count_calls(mod)


def test_many_branches_side_by_side(backend):
    x = relay.var("x", shape=(2, 4))
    body = relay.Tuple([relay.nn.relu(relay.tanh(x)) for _ in range(300)])
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
    assert len(parts_of(partition(mod, [backend], CHEAP))) == 300


# The measured way: relay.build and relay.vm.compile end well.

QUICK = CollageOptions(
    enable_collage=True, measure_seconds=0.005, guard_rounds=2, workers=1, progress="quiet"
)
SHAPE = (1, 4, 8, 8)


@pytest.fixture(scope="module")
def session():
    with shared_session(QUICK):
        yield


def conv(x, seed=0):
    weight = np.random.default_rng(seed).standard_normal((4, 4, 3, 3)).astype("float32") * 0.2
    y = relay.nn.conv2d(x, relay.const(weight), kernel_size=3, channels=4, padding=1)
    return relay.nn.relu(y)


def compiled(mod, executor="vm", right=None):
    """Compile under the option, compare with TVM's VM, or with what is right of an input; return
    the decision."""
    mod = relay.transform.InferType()(mod)
    args = random_args(mod["main"])
    expected = [right(*args)] if right else run(mod, args)
    with tvm.transform.PassContext(opt_level=3, config=QUICK.to_config()):
        if executor == "vm":
            built = vm.compile(mod, target=[HOST, Target("dnnl")])
            actual = flat(VirtualMachine(built, tvm.cpu()).run(*args))
        else:
            built = relay.build(mod, target=[HOST, Target("dnnl")])
            module = GraphModule(built["default"](tvm.cpu()))
            for index, value in enumerate(args):
                module.set_input(index, value)
            module.run()
            actual = [module.get_output(k).numpy() for k in range(module.get_num_outputs())]
    for ours, tvms in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, tvms, rtol=1e-3, atol=1e-4)
    return built.collage


def flat(result):
    if isinstance(result, tvm.nd.NDArray):
        return [result.numpy()]
    return [array for item in result for array in flat(item)]


def several_functions():
    mod = tvm.IRModule()
    block, a, x = relay.GlobalVar("block"), relay.var("a", shape=SHAPE), relay.var("x", shape=SHAPE)
    mod[block] = relay.Function([a], conv(a))
    mod = relay.transform.InferType()(mod)
    mod["main"] = relay.Function([x], relay.tanh(block(conv(x, 1))))
    return mod


def assert_guarded(result):
    """Each plan ran end to end on the VM, and the one that ships is one of them."""
    statuses = {item.name: item.cost.status for item in result.guard.comparisons}
    assert {"tvm", "dnnl", "collage"} <= set(statuses) and set(statuses.values()) == {"measured"}
    assert all(item.output_error <= 1e-4 for item in result.guard.comparisons)
    assert (result.plan, result.guard_skipped) == (result.guard.winner, "")
    assert result.to_json()["executor"] == "vm"


def test_several_global_functions_compile_for_the_vm(session):
    result = compiled(several_functions())
    assert_guarded(result)
    assert {row["function"] for row in result.to_json()["functions"]} == {"main", "block"}


def test_what_the_graph_executor_cannot_run_is_refused_with_the_way_out(session):
    with pytest.raises(ModuleError, match="main calls @block: use relay.vm.compile"):
        compiled(several_functions(), "graph")


def test_dynamic_shapes_compile_for_the_vm_and_stay_on_tvm(session):
    x = relay.var("x", shape=(relay.Any(), 4, 8, 8))
    result = compiled(tvm.IRModule.from_expr(relay.Function([x], relay.tanh(conv(x)))))
    assert (result.plan, result.guard) == ("tvm", None)
    assert "open dimensions (x [?, 4, 8, 8]) cannot be made up" in result.guard_skipped
    messages = {row["op"]: row["message"] for row in result.to_json()["functions"][0]["unplaced"]}
    assert messages["nn.conv2d"].endswith("its shape is dynamic")


@pytest.mark.parametrize("executor", ["graph", "vm"])
def test_on_device_for_the_host_compiles(session, executor):
    x = relay.var("x", shape=SHAPE)
    body = relay.tanh(on_device(conv(x), tvm.cpu(0)))
    result = compiled(tvm.IRModule.from_expr(relay.Function([x], body)), executor)
    assert result.guard_skipped == ""


def test_a_kernel_of_the_users_own_compiles(session):
    x, p = relay.var("x", shape=SHAPE), relay.var("p", shape=SHAPE)
    kernel = relay.Function([p], relay.tanh(relay.exp(p)))
    kernel = kernel.with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    body = conv(relay.Call(kernel, [conv(x)]), 2)
    result = compiled(tvm.IRModule.from_expr(relay.Function([x], body)), "graph")
    [row] = [u for u in result.to_json()["functions"][0]["unplaced"] if u["why"] == "partitioned"]
    assert row["op"] == "call of a function"


@pytest.mark.parametrize("executor", ["graph", "vm"])
def test_a_module_with_a_part_of_the_users_own_compiles(session, executor):
    mod = parse(
        """
        def @theirs(%p: $T, Inline=1, Primitive=1, Compiler="dnnl", global_symbol="theirs") -> $T {
          nn.relu(%p)
        }
        def @main(%x: $T) -> $T { exp(@theirs(tanh(%x))) }
        """
    )
    result = compiled(mod, executor, lambda x: np.exp(np.maximum(np.tanh(x), 0)))
    functions = {row["function"]: row["skipped"] for row in result.to_json()["functions"]}
    assert functions == {"main": "", "theirs": "partitioned already: Compiler dnnl"}


def test_a_branch_compiles_for_the_vm_with_parts_in_it(session):
    x, positive = relay.var("x", shape=SHAPE), relay.var("positive", shape=(), dtype="bool")
    body = relay.If(positive, conv(x), relay.tanh(x))
    result = compiled(tvm.IRModule.from_expr(relay.Function([positive, x], body)))
    assert_guarded(result)


def test_a_recursive_function_compiles_for_the_vm_with_parts_in_it(session):
    """As a loop of TVM's importers: the function calls itself while its count is positive."""
    loop, count = relay.GlobalVar("loop"), relay.var("count", shape=(), dtype="int32")
    value, x = relay.var("value", shape=SHAPE), relay.var("x", shape=SHAPE)
    times = relay.var("times", shape=(), dtype="int32")
    again = loop(count - relay.const(1), conv(value))
    body = relay.If(relay.greater(count, relay.const(0)), again, value)
    mod = tvm.IRModule()
    mod[loop] = relay.Function([count, value], body, relay.TensorType(SHAPE))
    mod["main"] = relay.Function([times, x], loop(times, x))
    assert_guarded(compiled(mod))


def test_tuples_in_and_out_compile_for_the_vm(session):
    pair = relay.var("pair", relay.TupleType([relay.TensorType(SHAPE)] * 2))
    first, second = relay.TupleGetItem(pair, 0), relay.TupleGetItem(pair, 1)
    body = relay.Tuple([conv(first) + second, relay.Tuple([second, relay.tanh(first)])])
    result = compiled(tvm.IRModule.from_expr(relay.Function([pair], body)))
    assert result.guard_skipped == "input pair is no tensor of a fixed shape; not measured"
