# SPDX-License-Identifier: Apache-2.0
"""Codegen of a user's own: C source text, and functions that are registered by name."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onednn_nets
import pytest
import tvm
import tvm_forks
from own_code_backends import IN_C, IN_PYTHON, InC, net
from tvm import relay
from tvm.relay.collage import (
    CollageOptions,
    CostEstimator,
    backends,
    c_source_module,
    registered_function_module,
)
from tvm.relay.collage.backends import own_code
from tvm.relay.collage.backends.own_code import CompilerError
from tvm.relay.collage.estimators.session import open_session
from tvm.relay.collage.relay_util.walk import nodes_of
from tvm.target import Target
from tvm_collage import library_path

CONSTANT = np.arange(12, dtype="float32").reshape(3, 4)
X = np.linspace(-2, 9, 12).astype("float32").reshape(3, 4)
EXPECTED = np.tanh(X - CONSTANT)


def build(backend, mod=None):
    mod = backends.greedy_partition(mod or net(CONSTANT), backend.name)
    assert f'Compiler="{backend.name}"' in str(mod)
    return onednn_nets.build(mod)


def run(library):
    [found] = onednn_nets.run(library, {"x": X})
    return found


def test_its_constants_are_found_whoever_had_the_name_before(monkeypatch):
    """As it is updated: the first class named its constants itself, the second leaves it to TVM."""

    class First(type(IN_C)):
        def constants(self, function, symbol):
            return {}

    try:
        backends.register_backend(First())
    finally:
        backends.register_backend(IN_C)
    np.testing.assert_allclose(run(build(IN_C)), EXPECTED, rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_called_function_gets_the_shapes_of_the_model(shape):
    seen = []

    @tvm.register_func("own_code_test.shapes", override=True)
    def _record(*tensors):
        seen.extend(tensor.shape for tensor in tensors)
        tensors[-1].copyfrom(tensors[0].numpy() + tensors[1].numpy())

    x = relay.var("x", shape=shape)
    function = relay.Function([x], relay.add(x, relay.const(np.full(shape, 2, "float32"))))
    function = function.with_attr("Compiler", "in_python_test").with_attr("global_symbol", "part")
    function = relay.transform.InferType()(tvm.IRModule.from_expr(function))["part"]
    module = registered_function_module(function, "own_code_test.shapes")
    [constant] = nodes_of(function, relay.Constant)
    module["__init_part"]([constant.data])
    out = tvm.nd.empty(shape)
    module["part"](tvm.nd.array(np.full(shape, 3, "float32")), out)
    assert seen == [shape] * 3 and out.numpy() == 5


def test_constants_outputs_and_types_come_in_order(monkeypatch):
    """Two constants, of which one is read twice, and two outputs of different types."""
    x = relay.var("x", shape=(4,))
    first, second = relay.const(np.float32([1, 2, 3, 4])), relay.const(np.float32([8, 6, 4, 2]))
    body = (x - first) / second - first
    outputs = relay.Tuple([body, relay.cast(body, "int32")])
    function = relay.Function([x], outputs)
    for key, value in {"Compiler": IN_C.name, "global_symbol": "two", "Primitive": 1}.items():
        function = function.with_attr(key, tvm.runtime.convert(value))
    source = """
void run(const float* x, const float* first, const float* second, float* out, int32_t* whole) {
  for (int i = 0; i < 4; ++i) {
    out[i] = (x[i] - first[i]) / second[i] - first[i];
    whole[i] = (int32_t)out[i];
  }
}
"""
    monkeypatch.setattr(IN_C, "source", source)
    var, call = relay.GlobalVar("two"), relay.var("x", shape=(4,))
    main = relay.Function([call], relay.Call(var, [call]))
    function = function.with_attr("Inline", tvm.tir.IntImm("int32", 1))
    typed = relay.transform.InferType()(tvm.IRModule({var: function}))[var]
    mod = relay.transform.InferType()(tvm.IRModule({var: typed, "main": main}))
    data = np.float32([10, -20, 30, 40])
    out, whole = onednn_nets.run(onednn_nets.build(mod), {"x": data})
    expected = (data - first.data.numpy()) / second.data.numpy() - first.data.numpy()
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    assert whole.tolist() == np.trunc(expected).astype(int).tolist()


def test_workers_build_measure_and_verify_it():
    parts = [backends.greedy_partition(net(CONSTANT), each.name) for each in (IN_C, IN_PYTHON)]
    targets = [Target(each.name, host="llvm") for each in (IN_C, IN_PYTHON)]
    options = CollageOptions(workers=1, measure_seconds=0.01, progress="quiet")
    with open_session(options.session, targets) as session:
        costs = CostEstimator(session).estimate_batch(parts, targets, ["c", "python"])
    assert [(cost.status, cost.unverified) for cost in costs] == [("measured", False)] * 2


def test_modules_loaded_at_once_stay_apart():
    """The loader goes by names of files; each module keeps its own."""
    libraries = [build(IN_C, net(np.full((3, 4), value, "float32"))) for value in (1, 2, 3)]
    for value, library in enumerate(libraries, 1):
        np.testing.assert_allclose(run(library), np.tanh(X - value), rtol=1e-5)
    del libraries[0], library
    again = build(IN_C, net(np.full((3, 4), 4, "float32")))
    np.testing.assert_allclose(run(again), np.tanh(X - 4), rtol=1e-5)
    np.testing.assert_allclose(run(libraries[0]), np.tanh(X - 2), rtol=1e-5)


def test_libraries_loaded_in_turn_are_not_taken_for_each_other(monkeypatch):
    """None is unloaded, and the loader takes a path that it knows for the library that it knows."""

    def compile_variant(function):
        source = IN_C.source.replace("SIZE", "12")
        return c_source_module(function, source, flags=[f"-DEXTRA={extra}"])

    monkeypatch.setattr(IN_C, "compile", compile_variant)
    monkeypatch.setattr(IN_C, "source", InC.source.replace("- c[i]", "- c[i] + EXTRA"))
    before = open_files()
    for extra in (1, 2, 3):
        expected = np.tanh(X - CONSTANT + np.float32(extra))
        np.testing.assert_allclose(run(build(IN_C)), expected, rtol=1e-4)
    assert open_files() == before, "the libraries' files stay open, also in child processes"


def open_files():
    files = (os.path.realpath(link) for link in Path("/proc/self/fd").iterdir())
    return sum("memfd:" in file for file in files)


def test_equal_libraries_are_one(monkeypatch):
    """Each is loaded for good: a model that is loaded again and again must not grow."""
    source = InC.source.replace("void run", "static int runs; void run")
    monkeypatch.setattr(
        IN_C, "source", source.replace("x[i] - c[i]", "(float)runs").replace("for", "++runs; for")
    )
    outputs = [run(build(IN_C)) for _ in range(3)]
    np.testing.assert_allclose(outputs, [np.full((3, 4), np.tanh(k)) for k in (1, 2, 3)], rtol=1e-5)


OPENMP = """
void run(const float* x, const float* c, float* out) {
  #pragma omp parallel for num_threads(4)
  for (int i = 0; i < 12; ++i) out[i] = x[i] - c[i];
}
"""
RELEASE = """
import ctypes, gc, sys, time
import tvm
from tvm.contrib import graph_executor
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
library = tvm.runtime.load_module(sys.argv[2])
module = graph_executor.GraphModule(library["default"](tvm.cpu()))
module.run()
del module, library
gc.collect()
time.sleep(0.5)  # its threads are asleep by then; they ran into what was unloaded sooner
print("alive", "libgomp" in open("/proc/self/maps").read())
"""


def test_threads_of_a_released_part_live_on(monkeypatch, tmp_path):
    """With the C's own thread library, which nothing else in the process holds."""
    monkeypatch.setattr(IN_C, "compile", lambda f: c_source_module(f, OPENMP, flags=["-fopenmp"]))
    build(IN_C).export_library(str(tmp_path / "net.so"))
    runtime = library_path("tvm_collage_runtime")
    done = subprocess.run(
        [sys.executable, "-c", RELEASE, runtime, str(tmp_path / "net.so")],
        env={**os.environ, "COLLAGE_DISABLE": "1", "TVM_USE_RUNTIME_LIB": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["alive", "True"]), done.stderr


@pytest.mark.parametrize(
    "source, message",
    [
        ("void run(float* x) { y; }", "'y' undeclared|undeclared identifier 'y'"),
        ("void run(const float* x, const float* c) {}", "too many arguments"),
        ("void run(const double* x, const float* c, float* o) {}", "incompatible"),
        ("void other(const float* x, const float* c, float* o) {}", "run"),
    ],
)
def test_what_the_compiler_refuses_is_quoted(monkeypatch, source, message):
    monkeypatch.setattr(IN_C, "source", source)
    with pytest.raises(CompilerError, match=f"refused the C source: .*({message})"):
        IN_C.compile(part())


@pytest.fixture
def static_library(tmp_path):
    """The folder of libplus.a, and of its object file plus.o: float plus(float, float)."""
    compiler, source = tvm.contrib.cc.get_cc(), tmp_path / "plus.c"
    source.write_text("float plus(float x, float y) { return x + y; }")
    subprocess.run([compiler, "-x", "c", "-c", "-fPIC", "plus.c"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rcs", "libplus.a", "plus.o"], cwd=tmp_path, check=True)
    return tmp_path


CALLS_PLUS = """
float plus(float, float);
void run(const float* x, const float* c, float* out) {
  for (int i = 0; i < 12; ++i) out[i] = plus(x[i], -c[i]);
}
"""


@pytest.mark.parametrize("flags", [["-L{}", "-lplus"], ["{}/libplus.a"], ["-O1", "{}/plus.o"]])
def test_flags_may_name_libraries_and_object_files(monkeypatch, static_library, flags):
    flags = [flag.format(static_library) for flag in flags]
    monkeypatch.setattr(IN_C, "compile", lambda f: c_source_module(f, CALLS_PLUS, flags=flags))
    np.testing.assert_allclose(run(build(IN_C)), EXPECTED, rtol=1e-5)


@pytest.mark.parametrize(
    "flags, message", [([], "undefined (reference to|symbol:) .?plus"), (["-lno_such"], "no_such")]
)
def test_what_the_linker_misses_is_quoted(flags, message):
    with pytest.raises(CompilerError, match=f"refused the C source: .*{message}"):
        c_source_module(part(), CALLS_PLUS, flags=flags)


PARALLEL = """
typedef int (*Task)(int number, void* all, void* data);
int TVMBackendParallelLaunch(Task task, void* data, int tasks);
static int minus(int number, void* all, void* data) {
  const float** tensors = data;
  for (int i = number; i < 12; i += 2) ((float*)tensors[2])[i] = tensors[0][i] - tensors[1][i];
  return 0;
}
void run(const float* x, const float* c, float* out) {
  const float* tensors[] = {x, c, out};
  TVMBackendParallelLaunch(minus, tensors, 2);
}
"""


def test_functions_of_tvms_runtime_are_found_when_it_is_loaded(monkeypatch):
    monkeypatch.setattr(IN_C, "source", PARALLEL)
    np.testing.assert_allclose(run(build(IN_C)), EXPECTED, rtol=1e-5)


def part(kind="float32", shape=(2,)):
    x = relay.var("x", shape=shape, dtype=kind)
    function = relay.Function([x], relay.subtract(x, relay.const(np.ones(shape[:0], kind))))
    function = function.with_attr("Compiler", IN_C.name).with_attr("global_symbol", "part")
    return relay.transform.InferType()(tvm.IRModule.from_expr(function))["part"]


def test_no_compiler(monkeypatch):
    monkeypatch.setattr(tvm.contrib.cc, "get_cc", lambda: None)
    with pytest.raises(CompilerError, match="no C compiler was found: install gcc or clang"):
        IN_C.compile(part())


def test_a_compiler_that_cannot_be_started_or_does_not_end(monkeypatch, tmp_path):
    sleeper = tmp_path / "cc"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(own_code, "COMPILE_SECONDS", 0.2)
    for compiler in ("/no/such/cc", str(sleeper)):
        monkeypatch.setattr(tvm.contrib.cc, "get_cc", lambda compiler=compiler: compiler)
        with pytest.raises(CompilerError, match=f"the C compiler {compiler} did not do it: "):
            IN_C.compile(part())


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match="made of the function that Backend.compile gets, not of"):
        c_source_module(relay.Function([], relay.const(1)), InC.source)
    with pytest.raises(TypeError, match="c_source_module: source is a str, got int"):
        c_source_module(part(), 7)
    with pytest.raises(TypeError, match="flags is a list of texts, got '-O3'"):
        c_source_module(part(), InC.source, flags="-O3")
    with pytest.raises(ValueError, match="backend in_c_test: C has no type for float16"):
        c_source_module(part("float16"), InC.source)
    with pytest.raises(ValueError, match="no function is registered as 'nobody.knows'"):
        registered_function_module(part(), "nobody.knows")
    with pytest.raises(ValueError, match="input x is no tensor of static shape"):
        c_source_module(part(shape=(relay.Any(),)), "")


def test_a_process_without_the_function_says_what_is_missing(tmp_path):
    path = tmp_path / "net.so"
    build(IN_PYTHON).export_library(str(path))
    script = f"""
        import tvm
        module = tvm.runtime.load_module({str(path)!r})
        tvm.contrib.graph_executor.GraphModule(module["default"](tvm.cpu())).run()
    """
    script = "from tvm.contrib import graph_executor\n" + textwrap.dedent(script)
    done = tvm_forks.run(script)
    assert done.returncode != 0
    assert "runs the function 'own_code_backends.minus', which is not registered" in done.stderr
    assert Path(path).exists()


def test_the_source_is_shown():
    assert "out[i] = x[i] - c[i]" in IN_C.compile(part()).get_source().replace("\\n", "\n")
