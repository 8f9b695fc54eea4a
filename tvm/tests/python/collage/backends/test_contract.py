# SPDX-License-Identifier: Apache-2.0
"""What every backend keeps, whatever computes its parts: each executor, files, TVM's runtime alone,
threads, and what is said of a wrong call or a missing library.

What is one backend's own (its operators, plans and messages) is tested in its own files.
"""

import functools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tvm
import tvm_forks
from blas_nets import partition
from onednn_nets import assert_threads_share, build, constant, function_of, run
from own_code_backends import IN_C, IN_PYTHON
from relay_text import PLAIN, is_external
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.collage.backends import BUILTIN, get_backend, greedy_partition
from tvm.runtime.vm import Executable, VirtualMachine

# Of each: an operator that it does not take, the variable that names its library, and what is said
# where that names none.
LIBRARIES = {
    "dnnl": (relay.erf, "ONEDNN", "oneDNN (libdnnl.so.3, version 3.2 or a later 3.x) was not"),
    "dnnl_bf16": (relay.erf, "ONEDNN", "oneDNN (libdnnl.so.3, version 3.2 or a later 3.x) was not"),
    "cblas": (relay.erf, "OPENBLAS", "OpenBLAS (libscipy_openblas.so) was not found"),
    "mkl": (relay.erf, "MKL", "MKL (libmkl_rt.so.3) was not found"),
    "onnxruntime": (relay.round, "ONNXRUNTIME", "pip install onnxruntime"),
    "openvino": (relay.round, "OPENVINO", "pip install openvino"),
    "xnnpack": (relay.erf, "XNNPACK", "XNNPACK (libexecutorch_backend_xnnpack.so) was not found"),
    "openvino_bf16": (relay.round, "OPENVINO", "pip install openvino"),
    "openvino_w8": (relay.round, "OPENVINO", "pip install openvino"),
}
# And those with a codegen of a user's own; a function of Python's is nowhere but in this process.
BACKENDS = [*LIBRARIES, IN_C.name, IN_PYTHON.name]
IN_FILES = [name for name in BACKENDS if name != IN_PYTHON.name]
SHAPE = (4, 8)
WEIGHTS = [constant(1, 4, 8), constant(2, 16, 8), constant(3, 16), constant(4, 6, 16)]
X = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")


def net():
    """A difference and two dense layers: each backend takes some of it."""
    minus, first, bias, second = WEIGHTS
    y = relay.subtract(relay.var("x", shape=SHAPE), minus)
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(y, first), bias))
    return function_of(relay.tanh(relay.nn.dense(y, second)))


def expected(x):
    minus, first, bias, second = (weight.data.numpy().astype("float64") for weight in WEIGHTS)
    return np.tanh(np.maximum((x - minus) @ first.T + bias, 0) @ second.T)


def check(name, got, x=X):
    """Within what the project promises of float32, or of the type that the backend computes in."""
    tolerance = 5e-2 if get_backend(name).trades_accuracy else 1e-4
    assert got.shape == expected(x).shape and got.dtype == np.float32
    np.testing.assert_allclose(got, expected(x), rtol=tolerance, atol=tolerance)


def skip_unless_available(name):
    if reason := get_backend(name).available():
        pytest.skip(f"{name}: {reason}")


@functools.cache
def placed(name):
    mod = greedy_partition(tvm.IRModule.from_expr(net()), name)
    assert any(map(is_external, mod.functions.values()))
    return mod


@functools.cache
def library_of(name):
    return build(placed(name))


@functools.cache
def executable_of(name):
    with tvm.transform.PassContext(opt_level=3):
        return relay.vm.compile(placed(name), PLAIN)


@pytest.fixture(params=BACKENDS)
def name(request):
    skip_unless_available(request.param)
    return request.param


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The exported library of each backend that is here, by name."""
    folder, found = tmp_path_factory.mktemp("libraries"), {}
    for name in BACKENDS:
        if get_backend(name).available() is None:
            found[name] = str(folder / f"{name}.so")
            library_of(name).export_library(found[name])
    return found


def test_no_backend_is_forgotten():
    assert set(LIBRARIES) == set(BUILTIN)


def test_graph_executor(name):
    check(name, *run(library_of(name), {"x": X}))


def test_virtual_machine(name):
    check(name, VirtualMachine(executable_of(name), tvm.cpu()).invoke("main", X).numpy())


def test_a_file_is_loaded_twice(name, files):
    """Two loads share nothing; where inputs lie may change from run to run."""
    for _ in range(2):
        library = tvm.runtime.load_module(files[name])
        module = graph_executor.GraphModule(library["default"](tvm.cpu()))
        arrays = [tvm.nd.array(X * np.float32(factor)) for factor in (1, 2, 1)]
        for array in arrays:
            module.set_input_zero_copy("x", array)
            module.run()
            check(name, module.get_output(0).numpy(), array.numpy())


def test_a_file_of_the_virtual_machine(name, tmp_path):
    code, library = executable_of(name).save()
    library.export_library(str(tmp_path / "vm.so"))
    loaded = Executable.load_exec(code, tvm.runtime.load_module(str(tmp_path / "vm.so")))
    check(name, VirtualMachine(loaded, tvm.cpu()).invoke("main", X).numpy())


RUNTIME_ALONE = """
import ctypes, sys
import numpy as np
import tvm, tvm_collage
from tvm.contrib import graph_executor
assert tvm._ffi.base._RUNTIME_ONLY
assert tvm.get_global_func("relay._transform.InferType", allow_missing=True) is None
ctypes.CDLL(tvm_collage.library_path("tvm_collage_runtime"), mode=ctypes.RTLD_GLOBAL)
for file in sys.argv[2:]:
    module = graph_executor.GraphModule(tvm.runtime.load_module(file)["default"](tvm.cpu()))
    module.run(x=np.load(sys.argv[1]))
    np.save(file + ".npy", module.get_output(0).numpy())
"""


@pytest.fixture(scope="module")
def alone(files, tmp_path_factory):
    """One process that has TVM's runtime and no compiler runs all files, each beside the others."""
    x = tmp_path_factory.mktemp("inputs") / "x.npy"
    np.save(x, X)
    command = [sys.executable, "-c", RUNTIME_ALONE, x]
    command += [file for name, file in files.items() if name in IN_FILES]
    environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return done.stderr


@pytest.mark.parametrize("name", IN_FILES)
def test_a_file_on_the_runtime_alone(name, files, alone):
    skip_unless_available(name)
    assert os.path.exists(f"{files[name]}.npy"), alone
    check(name, np.load(f"{files[name]}.npy"))


def test_threads_share_a_loaded_library(name, files):
    """The first run of several threads, too: backends/test_threads.py."""
    assert_threads_share(files[name], X)


def test_wrong_tensors_are_named(name):
    library = library_of(name)
    run(library, {"x": X})
    var, part = next(item for item in placed(name).functions.items() if is_external(item[1]))
    symbol, types = var.name_hint, [parameter.checked_type for parameter in part.params]
    call = library.get_lib().get_function(symbol, query_imports=True)
    first, *rest = (tvm.nd.empty([int(extent) for extent in each.shape]) for each in types)
    out = tvm.nd.empty([int(extent) for extent in part.ret_type.shape])
    call(first, *rest, out)
    tensor = rf"{symbol}: input 0 must be a compact float32 tensor of shape .*, got"
    with pytest.raises(ValueError, match=f"{tensor} float64"):
        call(tvm.nd.empty(first.shape, "float64"), *rest, out)
    with pytest.raises(ValueError, match=rf"{tensor} float32 of shape \(3, 5\)"):
        call(tvm.nd.empty((3, 5)), *rest, out)
    with pytest.raises(ValueError, match=rf"{symbol}: output 0 must be .* of shape \(7\)"):
        call(first, *rest, tvm.nd.empty((7,)))
    with pytest.raises(tvm.TVMError, match=rf"takes {len(types)} inputs and 1 outputs"):
        call(out)


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_operator_that_it_does_not_take_is_named(name):
    skip_unless_available(name)
    op, _, _ = LIBRARIES[name]
    body = op(relay.var("x", shape=SHAPE))
    with pytest.raises(Exception, match=f"{name} cannot run {body.op.name}"):
        build(partition(name, body))


WITHOUT_LIBRARIES = """
import json, sys, tvm
from tvm.relay import collage
from tvm.relay.collage import backends
from tvm.relay.collage.backends.targets import parse_targets

def error_of(function, argument):
    try:
        function(argument)
    except backends.BackendUnavailableError as error:
        return str(error)

def errors(name):
    targets = [collage.host_target(), tvm.target.Target(name)]
    return [error_of(backends.require_backend, name), error_of(parse_targets, targets)]

known = [backends.get_backend(name) for name in sys.argv[1:]]
print(json.dumps({b.name: [b.available(), b.summary(), errors(b.name)] for b in known}))
"""


@pytest.fixture(scope="module")
def without_libraries():
    variables = {
        f"COLLAGE_{word}_LIBRARY": "/nonexistent/lib.so" for _, word, _ in LIBRARIES.values()
    }
    done = tvm_forks.run(WITHOUT_LIBRARIES, *LIBRARIES, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_missing_library_is_named_with_what_to_do(name, without_libraries):
    _, word, words = LIBRARIES[name]
    reason, summary, errors = without_libraries[name]
    assert words in reason and "/nonexistent/lib.so" in reason
    assert f"COLLAGE_{word}_LIBRARY" in reason
    assert f"{name} (" in summary and "not available: " in summary
    assert all(f"backend '{name}' is not available: {reason}" in error for error in errors)
