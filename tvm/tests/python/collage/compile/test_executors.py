# SPDX-License-Identifier: Apache-2.0
"""Which executor runs a module, and why."""

import pytest
import tvm
from relay_text import parse
from tvm import relay
from tvm.relay.backend import Executor
from tvm.relay.collage import CollageOptions, optimize
from tvm.relay.collage.compile.executors import (
    build_whole,
    check_runs,
    executor_of,
    has_several_ways,
    why_vm,
)
from tvm.relay.collage.errors import ModuleError

PLAIN = "def @main(%x: $T) { let %a = tanh(%x); (nn.relu(%a), %a) }"
IF = "if (%c) { nn.relu(%x) } else { tanh(%x) }"
# Module -> why the graph executor does not run it, and whether its inputs decide what of it runs.
MODULES = {
    PLAIN: ("", False),
    "def @main(%x: $T) { %0 = fn (%p: $T, Primitive=1) { exp(%p) }; %0(%x) }": ("", False),
    "def @f(%x: $T, Inline=1) -> $T { exp(%x) } def @main(%x: $T) { @f(%x) }": ("", False),
    """def @f(%p: $T, Compiler="dnnl", Primitive=1, global_symbol="f") -> $T { nn.relu(%p) }
       def @main(%x: $T) { @f(%x) }""": ("", False),
    "def @f(%x: $T) -> $T { exp(%x) } def @main(%x: $T) { @f(%x) }": ("main calls @f", False),
    f"def @f(%c: bool, %x: $T) -> $T {{ {IF} }} def @main(%c: bool, %x: $T) {{ @f(%c, %x) }}": (
        "main calls @f",
        True,
    ),
    f"def @main(%c: bool, %x: $T) {{ {IF} }}": ("main has an expression of kind If", True),
    f"def @main(%c: bool, %x: $T) {{ %0 = fn (%c: bool, %x: $T) {{ {IF} }}; %0(%c, %x) }}": (
        "main has an expression of kind If",
        True,
    ),
    "def @main(%x: $T) { let %f = fn (%p: $T) -> $T { exp(%p) }; %f(%x) }": (
        "main has an expression of kind Function",
        False,
    ),
    "def @main(%x: $T) { ref(%x) }": ("main has an expression of kind RefCreate", False),
    'def @main(%x: Tensor[(4), bool]) { tanh(cast(argwhere(%x), dtype="float32")) }': (
        "a run alone tells the sizes that argwhere gives",
        False,
    ),
    "def @main(%x: Tensor[(?, 4), float32]) { exp(%x) }": (
        "inputs have open dimensions (x [?, 4])",
        False,
    ),
}


@pytest.mark.parametrize("text", MODULES)
def test_why_only_the_vm_runs_a_module(text):
    mod = relay.transform.InferType()(parse(text))
    assert (why_vm(mod), has_several_ways(mod)) == MODULES[text]


def test_a_match_goes_several_ways():
    mod = tvm.IRModule()
    prelude = relay.prelude.Prelude(mod)
    _, cons, nil = prelude.mod.get_type("List")
    first, x = relay.var("first"), relay.var("x", shape=(2, 4))
    clauses = [
        relay.Clause(
            relay.PatternConstructor(cons, [relay.PatternVar(first), relay.PatternWildcard()]),
            relay.tanh(first),
        ),
        relay.Clause(relay.PatternConstructor(nil, []), x),
    ]
    mod["main"] = relay.Function([x], relay.Match(cons(x, nil()), clauses))
    mod = relay.transform.RemoveUnusedFunctions()(relay.transform.InferType()(mod))
    assert why_vm(mod) == "main has an expression of kind Constructor" and has_several_ways(mod)


@pytest.mark.parametrize(
    "options, plain, branching",
    [
        ({}, "graph", "vm"),
        ({"executor": Executor("graph")}, "graph", "graph"),
        ({"executor": Executor("aot")}, "aot", "aot"),
        ({"executor": "vm"}, "vm", "vm"),
    ],
)
def test_the_executor_is_the_one_named_or_the_one_that_runs_the_module(options, plain, branching):
    with_if = parse(f"def @main(%c: bool, %x: $T) {{ {IF} }}")
    assert (executor_of(options, parse(PLAIN)), executor_of(options, with_if)) == (plain, branching)


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_a_module_that_an_executor_cannot_run_is_refused_with_the_way_out(executor):
    with_if = parse(f"def @main(%c: bool, %x: $T) {{ {IF} }}")
    check_runs(parse(PLAIN), executor)
    check_runs(with_if, "vm")
    with pytest.raises(ModuleError) as caught:
        check_runs(with_if, executor)
    assert str(caught.value) == (
        f"the {executor} executor runs one function of operators with fixed shapes, but main has "
        "an expression of kind If: use relay.vm.compile"
    )


def test_the_vm_is_refused_at_level_0_where_tvm_would_end_the_process():
    mod = parse(f"def @main(%c: bool, %x: $T) {{ {IF} }}")
    with (
        tvm.transform.PassContext(opt_level=0),
        pytest.raises(ModuleError, match="opt_level 1 and above"),
    ):
        build_whole(mod, "llvm", "vm", {})


def test_a_guard_on_the_vm_at_level_0_says_why_there_is_none():
    mod = parse(f"def @main(%c: bool, %x: $T) {{ {IF} }}")
    options = CollageOptions(progress="quiet", store="none", measure_seconds=0.01, workers=1)
    with tvm.transform.PassContext(opt_level=0):
        result = optimize(mod, None, ["llvm", "dnnl"], options)
    assert "opt_level 1 and above" in result.guard_skipped
