# SPDX-License-Identifier: Apache-2.0
"""Plans whose kernels and parts are compiled once compute what those of TVM's own build do."""

import numpy as np
import own_code_backends
import pytest
import tvm
from relay_text import PLAIN, partition
from tuning_nets import in_mode, line_in_blocks
from tvm import auto_scheduler, relay
from tvm.auto_scheduler.measure_record import load_record_from_string
from tvm.relay.collage import backends
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.compile.compiled_parts import CompiledParts
from tvm.relay.collage.measure.race.library_contestant import library_contestant

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.standard_normal((4, 4, 3, 3)).astype("float32")
X = RANDOM.standard_normal((1, 4, 8, 8)).astype("float32")


def conv(x, scale=1.0):
    weight = relay.const(scale * WEIGHT)
    return relay.nn.conv2d(x, weight, padding=(1, 1), channels=4, kernel_size=(3, 3))


def net(end=relay.tanh):
    """Kernels of several results and of tuples, one that only changes a shape, equal ones."""
    x = relay.var("x", shape=X.shape)
    y = relay.nn.relu(conv(relay.nn.relu(conv(x)), 2.0))
    halves = relay.split(y, 2, axis=2)
    y = relay.concatenate([halves[1], relay.exp(halves[0])], axis=2)
    return prepare(tvm.IRModule.from_expr(relay.Function([x], relay.reshape(end(y), (4, 64)))))


def outputs(library, folder, name):
    np.savez(folder / "in.npz", x=X)
    library.export_library(str(folder / f"{name}.so"))
    made = library_contestant(str(folder / f"{name}.so"), str(folder / "in.npz"))
    made.run()
    return made.outputs()


def counts(compiled):
    return {kind: (c.compiled, c.reused) for kind, c in compiled.counts.items()}


def test_a_plan_costs_what_is_new_in_it(tmp_path):
    compiled = CompiledParts(PLAIN)
    mod = net()
    (right,) = outputs(build_library(mod, PLAIN), tmp_path, "stock")
    (first,) = outputs(compiled.build(mod), tmp_path, "first")
    np.testing.assert_array_equal(first, right)
    kernels, _ = counts(compiled)["kernel"]
    assert kernels >= 3 and counts(compiled) == {"kernel": (kernels, 0), "part": (0, 0)}
    (again,) = outputs(compiled.build(net()), tmp_path, "again")
    np.testing.assert_array_equal(again, right)
    assert counts(compiled)["kernel"] == (kernels, kernels)
    (other,) = outputs(compiled.build(net(relay.cos)), tmp_path, "other")
    np.testing.assert_array_equal(
        other, outputs(build_library(net(relay.cos), PLAIN), tmp_path, "other_stock")[0]
    )
    assert counts(compiled)["kernel"][0] == kernels + 1, "but for the last one they were there"


def test_forks_compile_the_kernels_and_another_finds_them_in_the_folder(tmp_path):
    one, two = (CompiledParts(PLAIN, folder=str(tmp_path), at_once=n) for n in (3, 1))
    (right,) = outputs(build_library(net(), PLAIN), tmp_path, "stock")
    (first,) = outputs(one.build(net()), tmp_path, "first")
    np.testing.assert_array_equal(first, right)
    kernels, reused = counts(one)["kernel"]
    assert kernels >= 3 and not reused
    assert len(list(tmp_path.glob("*.o"))) == kernels
    (second,) = outputs(two.build(net()), tmp_path, "second")
    np.testing.assert_array_equal(second, right)
    assert counts(two)["kernel"] == (0, kernels)


def test_a_part_gives_a_tensor_and_a_tuple(tmp_path):
    """TVM builds the cosines and oneDNN the rest: the sum, its halves, and what is made of one."""
    x = relay.var("x", shape=X.shape)
    whole = conv(x) + relay.const(1.0)
    halves = relay.split(whole, 2, axis=2)
    read = (whole, halves[0], halves[1], relay.nn.relu(halves[0]))
    ends = relay.Tuple([relay.cos(each) for each in read])
    mod = prepare(tvm.IRModule.from_expr(relay.Function([x], ends)))
    right = outputs(build_library(mod, PLAIN), tmp_path, "stock")
    plan = partition(mod, ["dnnl"], {"llvm": 10, "dnnl": 1}, merge_parts=True)
    [part] = [f for f in plan.functions.values() if "Compiler" in (f.attrs or {})]
    assert len(part.ret_type.fields) >= len(read)
    for name, build in (
        ("alone", lambda: build_library(plan, PLAIN)),
        ("kept", lambda: CompiledParts(PLAIN).build(plan)),
    ):
        for found, expected in zip(outputs(build(), tmp_path, name), right, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_parts_are_compiled_once_whatever_they_are_called(tmp_path, monkeypatch):
    asked = []
    backend = backends.get_backend("dnnl")
    compile = type(backend).compile
    monkeypatch.setattr(
        type(backend), "compile", lambda self, f: asked.append(f) or compile(self, f)
    )
    compiled = CompiledParts(PLAIN)
    mod = backends.greedy_partition(net(), "dnnl")
    (right,) = outputs(build_library(mod, PLAIN), tmp_path, "stock")
    parts = len(asked)
    asked.clear()
    (first,) = outputs(compiled.build(mod), tmp_path, "first")
    np.testing.assert_array_equal(first, right)
    assert len(asked) == parts == counts(compiled)["part"][0]
    renamed = mod.clone()
    for var, function in mod.functions_items():
        if "Compiler" in function.attrs:
            name = str(function.attrs["global_symbol"]) + "_renamed"
            renamed.update_func(var, function.with_attr("global_symbol", name))
    (again,) = outputs(compiled.build(renamed), tmp_path, "again")
    np.testing.assert_array_equal(again, right)
    assert len(asked) == parts and counts(compiled)["part"] == (parts, parts)


def test_a_part_that_asks_tvm_for_its_constants_is_built_as_ever(tmp_path):
    constant = RANDOM.standard_normal((2, 3)).astype("float32")
    mod = backends.greedy_partition(
        prepare(own_code_backends.net(constant)), own_code_backends.IN_C.name
    )
    compiled = CompiledParts(PLAIN)
    library = compiled.build(mod)
    np.savez(tmp_path / "in.npz", x=constant)
    library.export_library(str(tmp_path / "lib.so"))
    made = library_contestant(str(tmp_path / "lib.so"), str(tmp_path / "in.npz"))
    made.run()
    np.testing.assert_array_equal(made.outputs()[0], np.zeros((2, 3), "float32"))
    assert counts(compiled) == {"kernel": (1, 0), "part": (0, 0)}


def test_weights_that_a_record_lays_out_anew_are_so_beside_a_part(tmp_path):
    weight = relay.const(RANDOM.standard_normal((24, 64)).astype("float32"))
    mod = backends.greedy_partition(net(), "dnnl")
    main = mod["main"]
    body = relay.nn.dense(main.body, weight)
    mod.update_func(mod.get_global_var("main"), relay.Function(main.params, body))
    mod = relay.transform.InferType()(mod)
    (right,) = outputs(build_library(mod, PLAIN), tmp_path, "untuned")
    x = relay.var("x", shape=(4, 64))
    layer = tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, weight)))
    [task], _ = auto_scheduler.extract_tasks(layer, {}, PLAIN)
    record = load_record_from_string(line_in_blocks(task))
    with auto_scheduler.ApplyHistoryBest([record]), in_mode("ansor"):
        for name, build in {
            "stock": lambda mod: build_library(mod, PLAIN),
            "compiled": CompiledParts(PLAIN).build,
        }.items():
            library = build(mod)
            assert (3, 64, 8) in [value.shape for value in library.get_params().values()]
            (found,) = outputs(library, tmp_path, name)
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)


def test_the_least_recently_used_is_dropped_for_room():
    compiled = CompiledParts(PLAIN, {"kernel": 1, "part": 1})
    compiled.build(net())
    kernels = counts(compiled)["kernel"][0]
    compiled.build(net())
    assert counts(compiled)["kernel"] == (2 * kernels, 0), "each was dropped for the next"


@pytest.mark.parametrize(
    ("options", "can"),
    [
        ({}, True),
        ({"executor": relay.backend.Executor("graph"), "mod_name": "net", "opt_level": 3}, True),
        ({"executor": relay.backend.Executor("graph", {"link-params": True})}, False),
        ({"executor": relay.backend.Executor("aot")}, False),
        ({"runtime": relay.backend.Runtime("cpp", {"system-lib": True})}, False),
    ],
)
def test_which_builds_it_serves(options, can):
    assert CompiledParts.can_build(options) is can


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_failure_of_a_kernel_is_the_builds(monkeypatch, at_once):
    def fail(*_):
        raise RuntimeError("no schedule today")

    monkeypatch.setattr("tvm.relay.backend.te_compiler.TECompiler.lower", fail)
    with pytest.raises(RuntimeError, match="no schedule today"):
        CompiledParts(PLAIN, at_once=at_once).build(net())
