# SPDX-License-Identifier: Apache-2.0
"""What users read when a BLAS backend cannot run something or its library is not there."""

import os
import subprocess
import sys

import pytest
import tvm
from blas_nets import BACKENDS, partition, require
from onednn_nets import build, constant
from tvm import relay
from tvm.relay.collage.backends import UnsupportedOpError
from tvm.relay.collage.backends.blas.lower import lower_function

nn = relay.nn


def var(*shape, dtype="float32", name="x"):
    return relay.var(name, shape=shape, dtype=dtype)


DENSE = nn.dense(var(4, 8), constant(1, 16, 8))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "body, words",
    [
        (relay.erf(var(2, 3)), ["erf", "not in its table"]),
        (nn.relu(var(2, 3)), ["nn.relu", "does not end a matrix product"]),
        (relay.Tuple([DENSE, nn.relu(DENSE)]), ["nn.relu", "does not end a matrix product"]),
        (relay.add(DENSE, var(4, 16, name="y")), ["add", "shapes=[(4, 16), (4, 16)]"]),
        (relay.add(nn.relu(DENSE), constant(2, 16)), ["add", "bias after=relu"]),
        (relay.add(relay.add(DENSE, constant(2, 16)), constant(3, 16)), ["add", "biases=2"]),
        (nn.bias_add(DENSE, constant(2, 4), axis=0), ["nn.bias_add", "axis=0"]),
        (nn.dense(var(0, 8), constant(1, 16, 8)), ["nn.dense", "shape=(0, 8)"]),
        (
            nn.dense(var(4, 8, dtype="int8"), var(16, 8, dtype="int8", name="y"), None, "int32"),
            ["nn.dense", "dtype=int32"],
        ),
        (nn.dense(var(relay.Any(), 8), constant(1, 16, 8)), ["dynamic"]),
    ],
)
def test_unsupported(backend, body, words):
    function = partition(backend, body)["part"]
    with pytest.raises(UnsupportedOpError) as raised:
        lower_function(function, backend)
    for word in [backend, *words]:
        assert word in str(raised.value)


def test_unsupported_through_the_build():
    with pytest.raises(Exception, match="cblas cannot run erf: the op is not in its table"):
        build(partition("cblas", relay.erf(var(2, 3))))


def test_unknown_node_kind():
    require("cblas")
    text = (
        '{"format":1,"shapes":[[2],[2]],"inputs":[0],"outputs":[1],"constants":[],'
        '"nodes":[{"kind":"teleport","inputs":[0],"output":1}]}'
    )
    module = tvm.get_global_func("collage.cblas.create")("f", text, [])
    with pytest.raises(ValueError, match="unknown operation 'teleport'; known: matmul"):
        module["__init_f"]([])


LIBRARIES = {
    "cblas": ("COLLAGE_OPENBLAS_LIBRARY", "OpenBLAS (libscipy_openblas.so) was not found"),
    "mkl": ("COLLAGE_MKL_LIBRARY", "MKL (libmkl_rt.so.3) was not found"),
}

SAY = """
import sys, tvm
from tvm.relay.collage import backends
backend = backends.get_backend(sys.argv[1])
print("SUMMARY", backend.summary())
try:
    backends.require_backend(sys.argv[1])
except backends.BackendUnavailableError as error:
    print("ERROR", error)
x = tvm.nd.empty((4, 4))
try:
    tvm.get_global_func(f"tvm.contrib.{sys.argv[1]}.matmul")(x, x, x, False, False)
except RuntimeError as error:
    print("CALL", str(error).splitlines()[-1])
"""


def say(backend, path) -> str:
    env = {**os.environ, LIBRARIES[backend][0]: str(path)}
    done = subprocess.run(
        [sys.executable, "-c", SAY, backend], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("backend", BACKENDS)
def test_missing_library(backend):
    text = say(backend, "/nonexistent/lib.so")
    variable, reason = LIBRARIES[backend]
    assert f"SUMMARY {backend} (op-level): not available: {reason}" in text
    assert f"ERROR backend '{backend}' is not available: {reason}" in text
    assert f"CALL RuntimeError: {reason}" in text
    assert text.count(f"or name the file in {variable}. Tried: /nonexistent/lib.so: ") == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_library_of_another_kind(backend, tmp_path):
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text("int nothing_of_blas;\n")
    subprocess.run(["gcc", "-shared", "-o", library, source], check=True, timeout=60)
    assert f"{library}: lacks function " in say(backend, library)
