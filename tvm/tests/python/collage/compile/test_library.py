# SPDX-License-Identifier: Apache-2.0
"""The fast build gives TVM's own library, for each executor, and leaves everything else alone."""

import functools
import logging
import re

import numpy as np
import pytest
import tvm
from build_nets import NETS, input_of, separable
from onednn_nets import run
from relay_text import operators, parse, plain_host
from tvm import autotvm, relay, te, topi
from tvm.ir.instrument import PassTimingInstrument
from tvm.relay.backend import Executor, te_compiler
from tvm.relay.collage.compile import (
    build_library,
    build_vm,
    fast_passes,
    prepare,
    small_loops,
)
from tvm.relay.collage.compile.fast_passes import _REMEMBERED, TypedFunctions
from tvm.relay.collage.compile.library import (
    inline_external_functions,
    stock_build,
    stock_vm_compile,
    without_advice_to_tune,
)
from tvm.relay.collage.relay_util.external import COMPUTES_ALONE, mark_lone_part

TARGET = plain_host()


def kernels(library):
    """The library's LLVM source; alias metadata names objects of the compiler by address."""
    module = library.lib
    if module.type_key == "metadata_module":  # what AOT wraps around it
        module = module.imported_modules[0]
    seen = {}
    return re.sub(
        '0x[0-9a-f]{6,16}(?=[."])',
        lambda match: f"object {seen.setdefault(match[0], len(seen))}",
        module.get_source("ll"),
    )


def run_vm(executable, *inputs):
    result = tvm.runtime.vm.VirtualMachine(executable, tvm.cpu()).run(*inputs)
    return [item.numpy() for item in result] if hasattr(result, "__len__") else [result.numpy()]


# Where TVM's own build would scale weights at run time, which ours does not (docs/compile.md).
RUN_TIME_SCALES = {"lstm": ["ForwardFoldScaleAxis", "BackwardFoldScaleAxis"]}


# What is left to LLVM (see the last test).
LEFT_OUT = {"tir.disable_cse_tir": True}


def stock_library(mod, params, without=(), **options):
    with tvm.transform.PassContext(opt_level=3, config=LEFT_OUT, disabled_pass=list(without)):
        return stock_build()(mod, target=TARGET, params=params, **options)


def assert_same(ours, expected):
    assert len(ours) == len(expected)
    for left, right in zip(ours, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module", params=["lstm", "separable", "transformer"])
def built_by_stock(request):
    mod, params = NETS[request.param]()
    return mod, params, stock_library(mod, params, RUN_TIME_SCALES.get(request.param, ()))


@pytest.fixture
def net(built_by_stock):
    """(module, params, TVM's own graph library); whatever a test does changes neither of the first
    two."""
    mod, params, _ = built_by_stock
    before, names = tvm.ir.structural_hash(mod), [p.name_hint for p in mod["main"].params]
    values = {name: value.numpy() for name, value in params.items()}
    yield built_by_stock
    assert tvm.ir.structural_hash(mod) == before
    assert [p.name_hint for p in mod["main"].params] == names
    assert sorted(params) == sorted(values)
    for name, value in values.items():
        np.testing.assert_array_equal(params[name].numpy(), value)


def test_graph_library_is_stock(net, monkeypatch):
    mod, params, expected = net
    # Loops that do little would be on one thread (compile/test_small_loops.py).
    monkeypatch.setattr(small_loops, "SMALL_NANOSECONDS", 0)
    # Its kernels of tanh and the like are not (compile/test_vector_math.py), unless asked for.
    with tvm.transform.PassContext(config={"relay.collage.vector_math": False}):
        library = build_library(mod, TARGET, params=params)
    assert library.graph_json == expected.graph_json
    assert kernels(library) == kernels(expected)
    assert sorted(library.params) == sorted(expected.params)
    for name, value in expected.params.items():
        np.testing.assert_array_equal(library.params[name].numpy(), value.numpy())
    data = input_of(mod)
    assert_same(run(library, {"data": data}), run(expected, {"data": data}))


def test_prepared_module_computes_the_same_in_the_vm_too(net):
    mod, params, expected = net
    prepared = prepare(mod, params, TARGET)
    assert [p.name_hint for p in prepared["main"].params] == ["data"]
    wanted = run(expected, {"data": input_of(mod)})
    assert_same(run_vm(build_vm(prepared, TARGET), input_of(mod)), wanted)
    if params:
        assert_same(run(build_library(prepared, TARGET), {"data": input_of(mod)}), wanted)
        assert_same(run_vm(build_vm(mod, TARGET, params=params), input_of(mod)), wanted)


def test_vm_with_a_dynamic_shape():
    """Shape arithmetic is constant in part; folding also runs late in the VM's pipeline."""
    data = relay.var("data", shape=(relay.Any(), 4))
    rows = relay.strided_slice(relay.shape_of(data, "int64"), [0], [1])
    shape = relay.concatenate([rows, relay.reshape(relay.const([2, 2], "int64"), (2,))], axis=0)
    body = relay.reshape(data * relay.transpose(relay.const([[2.0]] * 4)), shape)
    mod = tvm.IRModule.from_expr(relay.Function([data], body))
    with tvm.transform.PassContext(opt_level=3):
        expected = stock_vm_compile()(mod.clone(), target=TARGET)
    value = np.random.RandomState(0).randn(3, 4).astype("float32")
    (ours,) = run_vm(build_vm(mod, TARGET), value)
    assert ours.shape == (3, 2, 2)
    assert_same([ours], run_vm(expected, value))


def test_control_flow_in_the_vm():
    """A loop: recursion in one function, and weights that are transformed inside it."""
    loop, vector = relay.GlobalVar("loop"), relay.TensorType((1, 4))
    count, value = relay.var("count", shape=(), dtype="int32"), relay.var("value", vector)
    weight = relay.transpose(relay.const(np.arange(16, dtype="float32").reshape(4, 4) / 20))
    again = relay.Call(loop, [count - relay.const(1), relay.tanh(relay.nn.dense(value, weight))])
    body = relay.If(relay.greater(count, relay.const(0)), again, value)
    mod = tvm.IRModule({loop: relay.Function([count, value], body, vector)})
    data = relay.var("data", vector)
    mod["main"] = relay.Function([data], relay.Call(loop, [relay.const(3), data]), vector)
    with tvm.transform.PassContext(opt_level=3):
        expected = stock_vm_compile()(mod.clone(), target=TARGET)
    value = np.random.RandomState(0).randn(1, 4).astype("float32")
    assert_same(run_vm(build_vm(mod, TARGET), value), run_vm(expected, value))


@pytest.fixture(scope="module")
def layer():
    """A convolution, whose layout TVM alters: its module, and its library of a usual context."""
    data = relay.var("data", shape=(1, 16, 4, 4))
    weight = relay.const(np.random.RandomState(1).randn(16, 16, 1, 1).astype("float32"))
    body = relay.nn.relu(relay.nn.conv2d(data, weight, channels=16, kernel_size=(1, 1)))
    mod = tvm.IRModule.from_expr(relay.Function([data], body))
    return mod, build_library(mod, TARGET)


def test_aot(layer, monkeypatch):
    monkeypatch.setattr(small_loops, "SMALL_NANOSECONDS", 0)
    mod, options = layer[0], {"executor": Executor("aot")}
    expected = stock_library(mod, None, **options)
    assert kernels(build_library(mod, TARGET, **options)) == kernels(expected)


def test_twice_is_the_same(layer):
    mod, first = layer
    second = build_library(mod, TARGET)
    assert first.graph_json == second.graph_json
    assert kernels(first) == kernels(second)


def test_prepare_simplifies_once():
    mod, params = separable()
    once = prepare(mod, params, TARGET)
    assert "batch_norm" not in str(once["main"]).replace("meta[", "")
    twice = prepare(once, None, TARGET)
    assert tvm.ir.structural_equal(once, twice, map_free_vars=True)


# What is computed twice -> what is left of it. A sum of what differs stays as it is.
REPEATED = {
    "a chain": (
        """def @main(%x: $T) {
            %0 = tanh(%x); %1 = tanh(%x); %2 = exp(%0); %3 = exp(%1); add(%2, %3) }""",
        """def @main(%x: $T) { %0 = tanh(%x); %1 = exp(%0); add(%1, %1) }""",
    ),
    "an equal number": (
        """def @main(%x: $T) {
            %0 = multiply(%x, 2f); %1 = multiply(%x, 2f); divide(%0, %1) }""",
        """def @main(%x: $T) { %0 = multiply(%x, 2f); divide(%0, %0) }""",
    ),
    "a field": (
        """def @main(%x: $T) {
            %0 = split(%x, indices_or_sections=2, axis=1); %1 = %0.0;
            %2 = split(%x, indices_or_sections=2, axis=1); %3 = %2.0; subtract(%1, %3) }""",
        """def @main(%x: $T) {
            %0 = split(%x, indices_or_sections=2, axis=1); %1 = %0.0; subtract(%1, %1) }""",
    ),
    "nothing: other numbers, attributes, order": (
        """def @main(%x: $T, %y: $T) {
            %0 = multiply(%x, 2f); %1 = multiply(%x, 3f);
            %2 = sum(%x, axis=[0]); %3 = sum(%x, axis=[1]);
            %4 = subtract(%x, %y); %5 = subtract(%y, %x);
            (%0, %1, %2, %3, %4, %5) }""",
        None,
    ),
}


@pytest.mark.parametrize("case", REPEATED)
def test_what_is_computed_twice_is_computed_once(case):
    before, after = REPEATED[case]
    found = prepare(parse(before))
    tvm.ir.assert_structural_equal(found, parse(after or before), map_free_vars=True)


def test_what_has_a_state_is_computed_twice():
    mod = parse(
        """def @main(%x: $T) {
            %0 = nn.dropout(%x); %1 = %0.0; %2 = nn.dropout(%x); %3 = %2.0; add(%1, %3) }"""
    )
    with tvm.transform.PassContext(disabled_pass=["SimplifyInference"]):
        found = prepare(mod)
    tvm.ir.assert_structural_equal(found, mod, map_free_vars=True)


# An external function: a convolution that a test backend compiles.
@tvm.register_func("relay.ext.build_test", override=True)
def _compile_external(func):
    assert operators(func) == ["nn.conv2d", "nn.relu"], "TVM must not rewrite what a backend took"
    data, weight = (te.placeholder([int(d) for d in p.checked_type.shape]) for p in func.params)
    result = topi.nn.relu(topi.nn.conv2d_nchw(data, weight, 1, 1, 1))
    schedule = te.create_schedule(result.op)
    return tvm.build(
        schedule, [data, weight, result], "llvm", name=str(func.attrs["global_symbol"])
    )


def partitioned(inline=False):
    """(module whose second convolution is external, the same module whole)."""
    rng = np.random.RandomState(5)
    weights = [relay.const(rng.randn(16, 16, 3, 3).astype("float32") * 0.1) for _ in range(3)]

    def conv(value, weight):
        return relay.nn.relu(
            relay.nn.conv2d(value, weight, padding=1, channels=16, kernel_size=(3, 3))
        )

    data = relay.var("data", shape=(1, 16, 10, 10))
    whole = data
    for weight in weights:
        whole = conv(whole, weight)
    x, w = relay.var("x", shape=(1, 16, 10, 10)), relay.var("w", shape=(16, 16, 3, 3))
    external = relay.Function([x, w], conv(x, w), relay.TensorType((1, 16, 10, 10)))
    for name, value in (("Primitive", 1), ("Compiler", "build_test"), ("global_symbol", "part_0")):
        external = external.with_attr(name, value)
    if inline:
        external = external.with_attr("Inline", 1)
    part = relay.GlobalVar("part_0")
    mod = tvm.IRModule({part: external})
    middle = relay.Call(part, [conv(data, weights[0]), weights[1]])
    mod["main"] = relay.Function([data], conv(middle, weights[2]))
    mod = relay.transform.InferType()(mod)
    return mod, tvm.IRModule.from_expr(relay.Function([data], whole))


@pytest.fixture(scope="module")
def whole_output():
    """What TVM's own library of the module that is not partitioned gives."""
    _, whole = partitioned()
    return run(stock_library(whole, None), {"data": input_of(whole)})


@pytest.mark.parametrize("inline", [False, True])
def test_partitioned_module(inline, whole_output):
    mod, _ = partitioned(inline)
    data = input_of(mod)
    (expected,) = whole_output
    library = build_library(prepare(mod), TARGET)
    assert "part_0" in library.graph_json
    assert "NCHW" in library.graph_json, "TVM's own convolutions get their layouts"
    (ours,) = run(library, {"data": data})
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
    if inline:
        (ours,) = run_vm(build_vm(prepare(mod), TARGET), data)
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_inline_is_set_on_external_functions_only():
    mod, whole = partitioned()
    marked = inline_external_functions(mod)
    assert marked["part_0"].attrs["Inline"] == 1
    assert "Inline" not in mod["part_0"].attrs
    assert marked["main"].attrs is None or "Inline" not in marked["main"].attrs
    assert inline_external_functions(whole) is whole
    assert inline_external_functions(marked) is marked


PART = """def @part(%a: $T, Compiler="any", Primitive=1, global_symbol="part") -> $T { nn.relu(%a) }
    def @other(%a: $T, Compiler="any", Primitive=1, global_symbol="other") -> $T { nn.relu(%a) }"""


@pytest.mark.parametrize(
    "main, is_lone",
    [
        ("(%x: $T) { @part(%x) }", True),
        ("(%x: $T) { let %y = @part(%x); (%y, %x) }", True),
        ("(%x: $T) { exp(@part(%x)) }", False),
        ("(%x: $T) { @other(@part(%x)) }", False),
        ("(%x: $T) { %0 = @part(%x); @part(%0) }", False),
        ("(%x: $T) { exp(%x) }", False),
        ("(%x: $T) { %x }", False),
        ("(%x: $T) { if (True) { @part(%x) } else { exp(%x) } }", False),
    ],
)
def test_a_part_that_computes_alone_is_marked(main, is_lone):
    mod = parse(f"{PART} def @main{main}")
    marked = mark_lone_part(mod)
    assert (COMPUTES_ALONE in marked["part"].attrs) == is_lone
    assert COMPUTES_ALONE not in mod["part"].attrs
    assert COMPUTES_ALONE not in marked["other"].attrs


def test_pass_context_holds(layer):
    mod, usual = layer
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["AlterOpLayout"]):
        assert "layout_transform" not in build_library(mod, TARGET).graph_json
    assert "layout_transform" in usual.graph_json
    with tvm.transform.PassContext(opt_level=0):
        kept = build_library(mod, TARGET, opt_level=None).graph_json
        raised = build_library(mod, TARGET).graph_json
    assert "layout_transform" not in kept and "layout_transform" in raised
    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
        source = build_library(mod, TARGET).lib.get_source("ll")
    assert source != usual.lib.get_source("ll")


def test_tuning_contexts_are_asked():
    class Recorder(autotvm.FallbackContext):
        def __init__(self):
            super().__init__()
            self.tasks = []

        def _query_inside(self, target, workload):
            self.tasks.append(workload[0])
            return super()._query_inside(target, workload)

    mod, params = separable()
    recorder = Recorder()
    with recorder:
        build_library(mod, TARGET, params=params)
    assert "depthwise_conv2d_NCHWc.x86" in recorder.tasks
    assert "conv2d_NCHWc.x86" in recorder.tasks


def test_the_users_instruments_work(layer):
    mod, _ = layer

    @tvm.instrument.pass_instrument
    class Names:
        def __init__(self):
            self.seen = []

        def run_before_pass(self, mod, info):
            self.seen.append(info.name)

    names = Names()
    with tvm.transform.PassContext(opt_level=3, instruments=[names, PassTimingInstrument()]):
        build_library(mod, TARGET)
        rendered = PassTimingInstrument.render()
        again = len(names.seen)
        relay.transform.InferType()(mod)
        assert len(names.seen) == again + 1, "our own instrument has stopped"
    assert "AlterOpLayout" in rendered and "AlterOpLayout" in names.seen
    names.seen.clear()
    with tvm.transform.PassContext(opt_level=0, instruments=[names]):
        build_library(mod, TARGET)
    assert "AlterOpLayout" in names.seen


def test_the_users_context_is_left_as_it_was(layer):
    mod, _ = layer
    entered = []

    @tvm.instrument.pass_instrument
    class Watch:
        def enter_pass_ctx(self):
            entered.append("enter")

        def exit_pass_ctx(self):
            entered.append("exit")

    timing = PassTimingInstrument()
    with tvm.transform.PassContext(opt_level=3, instruments=[Watch(), timing]) as context:
        before = list(context.instruments)
        relay.transform.SimplifyExpr()(relay.transform.InferType()(mod))
        for _ in range(2):
            build_library(mod, TARGET)
            assert all(a.same_as(b) for a, b in zip(context.instruments, before, strict=True))
        broken = relay.Function([], relay.var("free", shape=(2,)))
        with pytest.raises(tvm.TVMError):
            build_library(tvm.IRModule.from_expr(broken), TARGET)
        assert len(context.instruments) == 2
        rendered = PassTimingInstrument.render()
        assert entered == ["enter"]
    assert entered == ["enter", "exit"]
    assert "SimplifyExpr:" in rendered and "AlterOpLayout:" in rendered


def test_context_of_passes(layer):
    mod, _ = layer
    mod = relay.transform.InferType()(mod)
    libinfo = te_compiler.libinfo
    before = tvm.transform.PassContext(config={"tir.disable_assert": True})
    with before, fast_passes(opt_level=3):
        current = tvm.transform.PassContext.current()
        assert current.opt_level == 3 and current.config["tir.disable_assert"]
        assert te_compiler.libinfo is not libinfo
        typed = relay.transform.InferType()(mod.clone())
        assert relay.transform.InferType()(typed)["main"].same_as(typed["main"])
    assert not tvm.transform.PassContext.current().config
    assert te_compiler.libinfo is libinfo


def test_context_is_left_after_an_error():
    before = tvm.transform.PassContext.current()
    libinfo = te_compiler.libinfo
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(4, 5))
    with pytest.raises(tvm.TVMError):
        build_library(tvm.IRModule.from_expr(relay.Function([x, y], x + y)), TARGET)
    assert tvm.transform.PassContext.current().same_as(before)
    assert te_compiler.libinfo is libinfo


def test_typed_functions_notice_a_callee_of_another_type():
    callee, vector = relay.GlobalVar("f"), relay.TensorType((2,))
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    mod = tvm.IRModule({callee: relay.Function([x], x, vector)})
    mod["main"] = relay.Function([y], relay.Call(callee, [y]), vector)
    mod = relay.transform.InferType()(mod)
    typed = TypedFunctions()
    assert not typed.covers(mod)
    typed.add(mod)
    assert typed.covers(mod) and typed.covers(mod.clone())

    other = mod.clone()
    z = relay.var("z", shape=(2,))
    other.update_func(callee, relay.Function([z], relay.cast(z, "float64")))
    del other["main"]
    assert not typed.covers(other)
    typed.add(relay.transform.InferType()(other))
    assert not typed.covers(mod), "main was typed with a callee of another type"


def test_typed_functions_that_are_asked_for_are_remembered_the_longest():
    """Each time that TVM types a module's main alone it makes new functions of all others."""

    def main_of(length):
        x = relay.var("x", shape=(2,))
        return relay.Function([x], functools.reduce(lambda y, _: relay.exp(y), range(length), x))

    def module(*mains):
        functions = {relay.GlobalVar(f"f{i}"): each for i, each in enumerate(mains)}
        return relay.transform.InferType()(tvm.IRModule(functions))

    asked, unasked = module(main_of(1)), module(main_of(2))
    typed = TypedFunctions()
    typed.add(asked)
    typed.add(unasked)
    for count in range(5):
        assert typed.covers(asked)
        typed.add(module(*(main_of(count) for _ in range(_REMEMBERED // 2))))
    assert typed.covers(asked) and not typed.covers(unasked)


def resize():
    """A kernel that reads what it interpolates several times, as floats of many lanes."""
    data = relay.var("data", shape=(1, 8, 6, 6))
    body = relay.image.resize2d(data, size=(12, 12), method="linear")
    return tvm.IRModule.from_expr(relay.Function([data], body))


@pytest.mark.parametrize("joins", [False, True])
def test_common_sub_expressions_are_left_to_llvm(joins, monkeypatch):
    """Stock TVM's pass binds them to variables that LLVM 22 cannot describe."""
    monkeypatch.setattr(small_loops, "SMALL_NANOSECONDS", 0)
    with tvm.transform.PassContext(opt_level=3), pytest.raises(tvm.TVMError, match="dbg_declare"):
        stock_build()(resize(), TARGET)
    data = np.random.RandomState(0).randn(1, 8, 6, 6).astype("float32")
    instruments = [PassTimingInstrument()] if joins else None
    with tvm.transform.PassContext(opt_level=3, instruments=instruments):
        library = build_library(resize(), TARGET)
    stock_one = stock_library(resize(), None)
    assert kernels(library) == kernels(stock_one)
    expected = run(stock_one, {"data": data})
    assert_same(run(library, {"data": data}), expected)
    assert_same(run_vm(build_vm(resize(), TARGET), data), expected)


def test_tvm_gives_no_advice_to_tune_within_a_build():
    logger = logging.getLogger("autotvm")
    before = logger.level
    with without_advice_to_tune():
        assert not logger.isEnabledFor(logging.WARNING)
    assert logger.level == before
