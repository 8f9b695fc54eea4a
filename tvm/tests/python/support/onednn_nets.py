# SPDX-License-Identifier: Apache-2.0
"""What the oneDNN tests share: hand-placed partitions, running them, comparing with TVM's own."""

import threading

import numpy as np
import pytest
import tvm
from relay_text import PLAIN, PLAIN_WITHOUT, composites
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.backends.dnnl.types import why_bytes_are_inexact
from tvm.relay.collage.backends.interface import TARGET_OPTIONS
from tvm.relay.collage.machine.environment import read_cpu_flags
from tvm.relay.op.contrib import get_pattern_table

get_backend("dnnl")  # registers relay.ext.dnnl
_KINDS = {"dnnl": "onednn"}  # of runtime modules, where they are called otherwise
needs_vnni = pytest.mark.skipif(bool(why_bytes_are_inexact()), reason="this CPU has no AVX512_VNNI")
needs_avx512 = pytest.mark.skipif(
    "avx512f" not in read_cpu_flags(), reason="without AVX-512 oneDNN has other kernels for it"
)

# Attributes of convolutions of 8 channels, of every kind but depthwise.
CONVOLUTIONS = {
    "plain": dict(kernel=(3, 3), padding=1),
    "no_padding": dict(kernel=(3, 3)),
    "asymmetric": dict(kernel=(3, 3), padding=(0, 1, 2, 1)),
    "stride": dict(kernel=(3, 3), padding=1, strides=2),
    "dilation": dict(kernel=(3, 3), padding=2, dilation=2),
    "pointwise": dict(kernel=(1, 1)),
    "wide": dict(kernel=(1, 7), padding=(0, 3)),
    "grouped": dict(kernel=(3, 3), padding=1, groups=4),
}


def var(name, *shape, dtype="float32"):
    """Return a variable of that shape."""
    return relay.var(name, shape=shape, dtype=dtype)


def constant(seed, *shape, low=None):
    """Return normal numbers as a Relay constant; uniform in [low, low + 1) where low is given."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) if low is None else rng.uniform(low, low + 1, shape)
    return relay.const(values.astype("float32"))


def function_of(body) -> relay.Function:
    """Return the function of an expression over its free variables."""
    return relay.Function(relay.analysis.free_vars(body), body)


def typed(body) -> tvm.IRModule:
    """Return the typed module of an expression."""
    return relay.transform.InferType()(tvm.IRModule.from_expr(function_of(body)))


def table_composites(body) -> list[str]:
    """Return the composites' names in main after MergeComposite with dnnl's table."""
    return composites(relay.transform.MergeComposite(get_pattern_table("dnnl"))(typed(body)))


def hand_placed(function, symbol="dnnl_part", backend="dnnl") -> tvm.IRModule:
    """Return a module whose main calls the function as one partition for the backend."""
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    function = mod["main"]
    params = [relay.var(p.name_hint, p.checked_type) for p in function.params]
    for key, value in (
        ("Primitive", tvm.tir.IntImm("int32", 1)),
        ("Inline", tvm.tir.IntImm("int32", 1)),
        ("Compiler", backend),
        ("global_symbol", symbol),
    ):
        function = function.with_attr(key, value)
    mod = tvm.IRModule()
    part = relay.GlobalVar(symbol)
    mod[part] = function
    mod = relay.transform.InferType()(mod)
    mod["main"] = relay.Function(params, part(*params))
    return relay.transform.InferType()(mod)


def build_with_winograd(winograd, function):
    """The library of a function in one partition, with the option set."""
    mod = hand_placed(function)
    mod["dnnl_part"] = mod["dnnl_part"].with_attr(TARGET_OPTIONS, f'{{"winograd": "{winograd}"}}')
    return build(mod)


def random_inputs(function, seed=0) -> dict:
    """Return normal numbers for each parameter of a typed or annotated function."""
    rng = np.random.default_rng(seed)
    return {
        p.name_hint: rng.standard_normal([int(d) for d in p.type_annotation.shape]).astype(
            "float32"
        )
        for p in function.params
    }


def build(mod, target=PLAIN, opt_level=3):
    """Return the built library, by default with kernels of TVM's that LLVM does not optimise."""
    # This LLVM refuses the debug info of some common subexpressions (docs/compile.md).
    config = {"tir.disable_cse_tir": True}
    without = PLAIN_WITHOUT if target == PLAIN else []
    with tvm.transform.PassContext(opt_level=opt_level, config=config, disabled_pass=without):
        return relay.build(mod, target=target)


def run(library, inputs) -> list[np.ndarray]:
    """Return all outputs of a graph executor's library."""
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input(**inputs)
    module.run()
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


def reference(function, inputs) -> list[np.ndarray]:
    """Return TVM's own outputs, of kernels that are hardly optimised."""
    # Below level 2 TVM cannot build quantised operators of constants.
    return run(build(tvm.IRModule.from_expr(function), opt_level=2), inputs)


def assert_close(got, wanted, name=""):
    """Compare lists of outputs as the project promises: 1e-4 of the largest value."""
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted):
        assert a.shape == b.shape, name
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max(), err_msg=name)


def modules(module):
    """Return a runtime module and all below it."""
    yield module
    for imported in module.imported_modules:
        yield from modules(imported)


def plan_of(library, kind="onednn") -> str:
    """Return what a library's partitions run, once they have been initialised by a first run."""
    root = library.get_lib() if hasattr(library, "get_lib") else library
    plans = [m.get_source("plan") for m in modules(root) if m.type_key == f"collage.{kind}"]
    return "\n".join(plans)


def check(body, same_as=None):
    """Run an expression as one partition, compare with TVM, return the plan that ran.

    same_as: an equal expression of the same variables that TVM can compile, where it can't body.
    """
    return check_all({"it": body}, {"it": same_as} if same_as is not None else {})["it"]


def check_all(
    bodies, same_as=None, options="", inputs_of=random_inputs, backend="dnnl"
) -> dict[str, str]:
    """Run each expression as a partition of its own, all in one library, and compare with TVM's
    library of them all; return the plan of each. Names are for messages.

    same_as: for some of them what TVM compiles in its place. options: those of the target, as JSON.
    inputs_of: what makes a function's inputs, by name.
    """
    mod, inputs, variables, placed, plain = tvm.IRModule(), {}, [], [], []
    for number, (name, body) in enumerate(bodies.items()):
        part = relay.GlobalVar(f"part_{number}")
        mod[part] = hand_placed(function_of(body), part.name_hint, backend)[part.name_hint]
        if options:
            mod[part] = mod[part].with_attr(TARGET_OPTIONS, options)
        own = {p.name_hint: relay.var(f"{p.name_hint}_{number}", p.checked_type)
               for p in mod[part].params}  # fmt: skip
        given = inputs_of(mod[part])
        inputs |= {own[key].name_hint: value for key, value in given.items()}
        variables += own.values()
        placed.append(_results(part(*own.values()), mod[part].ret_type))
        right = (same_as or {}).get(name, body)
        right = relay.bind(right, {v: own[v.name_hint] for v in relay.analysis.free_vars(right)})
        plain += _results(right, mod[part].ret_type)
    mod["main"] = relay.Function(variables, relay.Tuple(sum(placed, [])))
    library = build(relay.transform.InferType()(mod))
    got = iter(run(library, inputs))
    # Of kernels for one operator each, of which equal ones are compiled once.
    config = {"relay.FuseOps.max_depth": 1, "tir.disable_cse_tir": True}
    whole = tvm.IRModule.from_expr(relay.Function(variables, relay.Tuple(plain)))
    with tvm.transform.PassContext(opt_level=2, config=config, disabled_pass=PLAIN_WITHOUT):
        wanted = iter(run(relay.build(whole, target=PLAIN), inputs))
    for name, results in zip(bodies, placed):
        for _ in results:
            assert_close([next(got)], [next(wanted)], name)
    parts = [
        m
        for m in modules(library.get_lib())
        if m.type_key == f"collage.{_KINDS.get(backend, backend)}"
    ]
    return {
        name: next(m for m in parts if m.implements_function(f"part_{number}")).get_source("plan")
        for number, name in enumerate(bodies)
    }


def _results(expr, kind) -> list:
    """Return an expression's tensors."""
    if not isinstance(kind, tvm.ir.TupleType):
        return [expr]
    if isinstance(expr, relay.Tuple):
        return list(expr.fields)
    return [relay.TupleGetItem(expr, i) for i in range(len(kind.fields))]


def assert_threads_share(path, data):
    """Several executors over one loaded library, all calling at once, each with its own input x."""
    library = tvm.runtime.load_module(path)
    inputs = [data * np.float32(i + 1) for i in range(4)]
    executors = [graph_executor.GraphModule(library["default"](tvm.cpu())) for _ in inputs]
    wanted = [run(library, {"x": each})[0] for each in inputs]
    failures = []

    def work(executor, each, expected):
        executor.set_input("x", each)
        for _ in range(30):
            executor.run()
            if not np.array_equal(executor.get_output(0).numpy(), expected):
                failures.append("a call saw another call's memory")

    threads = [
        threading.Thread(target=work, args=triple) for triple in zip(executors, inputs, wanted)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
