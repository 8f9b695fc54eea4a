# SPDX-License-Identifier: Apache-2.0
"""What users read when oneDNN cannot run something or is not there."""

import math
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import tvm
import tvm_forks
from onednn_nets import constant, function_of, hand_placed
from tvm import relay
from tvm.relay.collage.backends import UnsupportedOpError
from tvm.relay.collage.backends.dnnl.codegen import codegen, lower_function


def partition_function(body, symbol="part"):
    mod = hand_placed(function_of(body), symbol)
    return mod[symbol]


def var(*shape, dtype="float32", name="x"):
    return relay.var(name, shape=shape, dtype=dtype)


def layer_norm(x):
    return relay.nn.layer_norm(x, constant(1, 6), constant(2, 6))


@pytest.mark.parametrize(
    "body, words",
    [
        (relay.erf(var(2, 3)), ["dnnl", "erf", "not in its table"]),
        (relay.cumsum(var(2, 3)), ["cumsum", "not in its table"]),
        (
            relay.nn.conv2d(
                var(1, 1, 8, 8, 16), var(1, 1, 3, 3, 16, 16, name="w"), channels=16,
                kernel_size=(3, 3), data_layout="NCHW16c", kernel_layout="OIHW16i16o",
            ),
            ["nn.conv2d", "data_layout=NCHW16c"],
        ),
        (relay.add(var(2, dtype="int64"), var(2, dtype="int64", name="y")), ["add", "dtype=int64"]),
        (
            relay.nn.avg_pool2d(
                var(1, 4, 9, 9), (3, 3), strides=(2, 2), padding=(1, 1), ceil_mode=True,
                count_include_pad=True,
            ),
            ["nn.avg_pool2d", "ceil_mode=1"],
        ),
        (
            relay.add(var(2, 3, 4, 5), var(1, 3, 1, 5, name="y")),
            ["add", "broadcast of the second operand=(1, 3, 1, 5)"],
        ),
        (
            relay.nn.max_pool2d(var(1, 4, 9, 9), (2, 2), dilation=(2, 2)),
            ["nn.max_pool2d", "dilation=[2, 2]"],
        ),
        (
            relay.nn.avg_pool2d(var(1, 4, 9, 9), (2, 2), padding=(0, 0, 3, 3)),
            ["nn.avg_pool2d", "padding=[0, 0, 3, 3]"],
        ),
        (  # the last windows lie beyond the image
            relay.nn.avg_pool2d(var(1, 4, 5, 5), (1, 1), strides=(3, 3), ceil_mode=True),
            ["nn.avg_pool2d", "padding=[0, 0, 0, 0]"],
        ),
        (layer_norm(var(6)), ["layer_norm", "number of axes=1"]),
        (layer_norm(var(1, 2, 1, 2, 1, 6)), ["layer_norm", "number of axes=6"]),
        (  # TVM reads the weights in another order than these letters say
            relay.nn.conv2d_transpose(
                var(1, 4, 5, 5), var(4, 4, 3, 3, name="w"), channels=4, kernel_size=(3, 3),
                kernel_layout="OIHW",
            ),
            ["nn.conv2d_transpose", "kernel_layout=OIHW"],
        ),
        (relay.subtract(var(3, 1), var(2, 3, 4, name="y")), ["subtract", "first operand"]),
        (relay.nn.relu(var(relay.Any(), 3)), ["dynamic"]),
        (relay.clip(var(2, 3, dtype="bfloat16"), 0.5, math.inf), ["clip", "a_max=inf"]),
        (relay.clip(var(2, 3, dtype="int8"), -math.inf, 5.0), ["clip", "a_min=-inf"]),
        (relay.clip(var(2, 3), math.nan, 5.0), ["clip", "a_min=nan"]),
    ],
)  # fmt: skip
def test_unsupported_op(body, words):
    with pytest.raises(UnsupportedOpError) as raised:
        lower_function(partition_function(body))
    for word in words:
        assert word in str(raised.value)


@pytest.fixture
def dense_module():
    function = partition_function(relay.nn.dense(var(2, 3), constant(1, 4, 3)))
    return codegen().compile(function)


def test_missing_constants(dense_module):
    create = tvm.get_global_func("collage.onednn.create")
    x, out = tvm.nd.array(np.ones((2, 3), "float32")), tvm.nd.empty((2, 4))
    with pytest.raises(ValueError, match="part has 1 constants.*but 0 were given"):
        create("part", dense_module.get_source(), [])
    by_name = create("part", dense_module.get_source(), ["weight"])  # as TVM's const loader has it
    assert list(by_name["get_const_vars"]()) == ["weight"]
    with pytest.raises(ValueError, match="part has 1 constants.*but 0 were given"):
        by_name["part"](x, out)
    with pytest.raises(ValueError, match="but 2 were given"):
        by_name["__init_part"]([x, x])


def test_wrong_constants(dense_module):
    """Of wrong inputs and outputs: backends/test_contract.py."""
    wrong = [tvm.nd.array(np.ones((2, 3), "float32"))]
    with pytest.raises(ValueError, match=r"constant 0 must be .*\(4, 3\), got .*\(2, 3\)"):
        tvm.get_global_func("collage.onednn.create")("part", dense_module.get_source(), wrong)


@pytest.mark.parametrize(
    "shapes, kind, message",
    [
        ("[2],[2]", "teleport", "unknown operation 'teleport'; known: .*conv"),
        ("[2,3],[1]", "reshape", r"step 0 \(reshape\): result: not as many elements"),
    ],
)
def test_a_node_that_cannot_be(shapes, kind, message):
    create = tvm.get_global_func("collage.onednn.create")
    text = (
        f'{{"format":2,"shapes":[{shapes}],"inputs":[0],"outputs":[1],"constants":[],'
        f'"nodes":[{{"kind":"{kind}","inputs":[0],"output":1}}]}}'
    )
    with pytest.raises(ValueError, match=message):
        create("f", text, [])


def test_inconsistent_description():
    create = tvm.get_global_func("collage.onednn.create")
    text = '{"format":2,"shapes":[[2]],"inputs":[],"outputs":[0],"constants":[],"nodes":[]}'
    with pytest.raises(Exception, match="tensor 0 is used before it is defined"):
        create("f", text, [])


MISSING = """
import tvm
from tvm.relay.collage import backends
backend = backends.get_backend("dnnl")
print("REASON", backend.available())
print("SUMMARY", backend.summary())
try:
    backends.require_backend("dnnl")
except backends.BackendUnavailableError as error:
    print("ERROR", error)
"""


FAKE = """
typedef struct { int major, minor, patch; } version_t;
const version_t* dnnl_version(void) { static const version_t v = {%s}; return &v; }
"""


def fake_library(directory, version):
    """Build a library that says it is a version of oneDNN, and holds nothing else of it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    directory.mkdir()
    source, library = directory / "fake.c", directory / "libdnnl.so.3"
    source.write_text(FAKE % version.replace(".", ","))
    command = [compiler, "-shared", "-fPIC", "-Wl,-soname,libdnnl.so.3", "-o", library, source]
    subprocess.run(command, check=True)
    return library


def run_with(program, **environment):
    env = {key: value for key, value in os.environ.items() if key != "COLLAGE_ONEDNN_LIBRARY"}
    done = tvm_forks.run(program, env={**env, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "version, reason",
    [
        ("2.7.3", "is oneDNN 2.7.3, not 3.2 or a later 3.x"),
        ("3.1.9", "is oneDNN 3.1.9, not 3.2 or a later 3.x"),
        ("4.0.0", "is oneDNN 4.0.0, not 3.2 or a later 3.x"),
        ("3.4.0", "lacks function dnnl_engine_create"),
    ],
)
def test_unfit_library_is_named_with_its_reason(tmp_path, version, reason):
    library = fake_library(tmp_path / "old", version)
    out = run_with(MISSING, COLLAGE_ONEDNN_LIBRARY=str(library))
    assert f"{library}: {reason}" in out


@pytest.mark.parametrize("version", ["2.7.3", "3.4.0"])
def test_an_unfit_library_is_passed_over(tmp_path, version):
    """The loader's own search finds an unfit library first; the one beside TVM is taken."""
    beside = pathlib.Path(tvm.__file__).resolve().parents
    if not any((p / sub / "libdnnl.so.3").exists() for p in beside[:6] for sub in ("", "lib")):
        pytest.skip("oneDNN is not installed beside TVM")
    unfit = fake_library(tmp_path / "old", version).parent
    search = os.pathsep.join(filter(None, [str(unfit), os.environ.get("LD_LIBRARY_PATH")]))
    program = "from tvm.relay.collage import backends; b = backends.get_backend('dnnl');"
    program += "print(b.available(), b.version().split('.')[0]);"
    program += "print(any('old/libdnnl' in line for line in open('/proc/self/maps')))"
    assert run_with(program, LD_LIBRARY_PATH=search).split() == ["None", "3", "True"]
