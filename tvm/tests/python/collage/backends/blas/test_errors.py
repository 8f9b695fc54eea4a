# SPDX-License-Identifier: Apache-2.0
"""What users read when a BLAS backend cannot run something or its library is not there."""

import os
import subprocess

import pytest
import tvm
import tvm_forks
from blas_nets import BACKENDS, partition, require
from onednn_nets import constant
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


def test_unknown_node_kind():
    require("cblas")
    text = (
        '{"format":2,"shapes":[[2],[2]],"inputs":[0],"outputs":[1],"constants":[],'
        '"nodes":[{"kind":"teleport","inputs":[0],"output":1}]}'
    )
    with pytest.raises(ValueError, match="unknown operation 'teleport'; known: matmul"):
        tvm.get_global_func("collage.cblas.create")("f", text, [])


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
    done = tvm_forks.run(SAY, backend, env={**os.environ, LIBRARIES[backend][0]: str(path)})
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


def compiled(tmp_path, text):
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text(text)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    return library


@pytest.mark.parametrize("backend", BACKENDS)
def test_library_of_another_kind(backend, tmp_path):
    library = compiled(tmp_path, "int nothing_of_blas;\n")
    assert f"{library}: lacks function " in say(backend, library)


PRODUCTS = "".join(
    f"void cblas_{name}(void) {{}}\n" for name in ("sgemm", "dgemm", "sgemv", "dgemv")
)
OPENBLAS = """
void openblas_set_num_threads(int count) {}
const char* openblas_get_config(void) { return "OpenBLAS 0.3.28 %s Haswell MAX_THREADS=64"; }
"""
MKL = """
int MKL_Set_Interface_Layer(int layer) { return %d; }
int MKL_Set_Threading_Layer(int layer) { return layer; }
void MKL_Get_Version_String(char* text, int size) { text[0] = '1'; }
long cblas_sgemm_pack_get_size(void) { return 0; }
void cblas_sgemm_pack(void) {}
void cblas_sgemm_compute(void) {}
void cblas_gemm_s8u8s32(void) {}
"""


@pytest.mark.parametrize(
    "backend, text, reason",
    [
        ("cblas", OPENBLAS % "DYNAMIC_ARCH", ""),
        ("cblas", OPENBLAS % "USE64BITINT", "is built with 64-bit sizes (OpenBLAS 0.3.28 USE64BIT"),
        ("mkl", MKL % 0, ""),
        ("mkl", MKL % 1, "is in use already with 64-bit sizes"),
    ],
    ids=["openblas", "openblas of 64 bits", "mkl", "mkl of 64 bits"],
)
def test_a_library_of_64_bit_sizes(backend, text, reason, tmp_path):
    """Its names may be those of 32-bit sizes."""
    library = compiled(tmp_path, PRODUCTS + text)
    said = say(backend, library)
    if reason:
        assert f"SUMMARY {backend} (op-level): not available" in said
        assert f"{library}: {reason}" in said
    else:
        assert f"SUMMARY {backend} (op-level): version" in said
