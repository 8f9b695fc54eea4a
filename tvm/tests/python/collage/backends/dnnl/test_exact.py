# SPDX-License-Identifier: Apache-2.0
"""Products of bytes at their extremes: exact with VNNI, refused without it.

ONEDNN_MAX_CPU_ISA makes a CPU of a lesser one. It is read once a process, so each such CPU is one
process, which looks at all cases.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from onednn_nets import build, hand_placed, needs_vnni, run, typed
from tree import child_environment
from tvm import relay
from tvm.relay.collage.backends import UnsupportedOpError, get_backend, greedy_partition
from tvm.relay.collage.backends.dnnl.codegen import lower_function
from tvm.relay.qnn import op as qnn

get_backend("dnnl")


def number(value, dtype="float32"):
    return relay.const(value, dtype)


def dense(x, weight):
    return qnn.dense(
        x, weight, number(0, "int32"), number(0, "int32"), number(1.0), number(1.0), units=8
    )


def conv(groups, layout="NCHW", kernel_layout="OIHW"):
    def apply(x, weight):
        sizes = dict(zip(kernel_layout, weight.data.shape))
        return qnn.conv2d(
            x, weight, number(0, "int32"), number(0, "int32"), number(1.0), number(1.0),
            kernel_size=(sizes["H"], sizes["W"]), channels=sizes["O"], groups=groups,
            data_layout=layout, kernel_layout=kernel_layout,
        )  # fmt: skip

    return apply


# (op, shape and type of data, shape of weights, each number of both, products a sum)
CASES = {
    "dense": (dense, (4, 256), "int8", (8, 256), (127, 127), 256),
    "dense of uint8": (dense, (1, 255), "uint8", (8, 255), (255, 127), 255),
    "dense, least": (dense, (3, 64), "int8", (8, 64), (-128, -128), 64),
    "dense, two products": (dense, (4, 2), "uint8", (8, 2), (255, -128), 2),
    "conv": (conv(1), (1, 64, 5, 5), "uint8", (16, 64, 3, 3), (255, 127), 64 * 9),
    "conv of int8": (conv(1), (2, 16, 4, 4), "int8", (16, 16, 1, 1), (-128, 127), 16),
    "few channels": (conv(1), (1, 3, 9, 9), "uint8", (5, 3, 7, 7), (255, 127), 3 * 49),
    "groups": (conv(2), (1, 10, 5, 5), "int8", (6, 5, 3, 3), (127, 127), 5 * 9),
    "depthwise": (conv(8), (1, 8, 7, 7), "uint8", (8, 1, 5, 5), (255, 127), 25),
    "channels last": (
        conv(1, "NHWC", "HWIO"), (1, 5, 5, 32), "uint8", (3, 3, 32, 8), (255, -128), 32 * 9,
    ),
}  # fmt: skip
RUN = ("dense", "conv")  # those that lesser CPUs run, too: TVM takes seconds for each


def case(name):
    """(function, its input, the one number that its results are)."""
    op, shape, dtype, weight_shape, (datum, weight), terms = CASES[name]
    body = op(
        relay.var("x", shape=shape, dtype=dtype), relay.const(np.full(weight_shape, weight, "int8"))
    )
    mod = typed(body)
    return mod["main"], {"x": np.full(shape, datum, dtype)}, datum * weight * terms


def results(library, inputs):
    (found,) = run(library, inputs)
    return np.unique(found).tolist()


def refusal(function):
    try:
        lower_function(function)
    except UnsupportedOpError as error:
        return str(error)
    return ""


def failure(path, inputs):
    """What the run of an exported library raises, its last line; "" where it runs."""
    try:
        results(tvm.runtime.load_module(path), inputs)
    except ValueError as error:
        return str(error).strip().splitlines()[-1]
    return ""


def report(path):
    """What a process finds: why each case is refused, what runs in its place, and what a library
    says that was made elsewhere."""
    found = {"version": get_backend("dnnl").version(), "elsewhere": failure(path, case("dense")[1])}
    found["refused"] = {name: refusal(case(name)[0]) for name in CASES}
    for name in RUN:
        function, inputs, _ = case(name)
        mod = greedy_partition(tvm.IRModule.from_expr(function), "dnnl")
        found[name] = [len(mod.functions), results(build(mod), inputs)]
    return found


@needs_vnni
@pytest.mark.parametrize("name", CASES)
def test_sums_are_exact(name):
    function, inputs, wanted = case(name)
    assert results(build(hand_placed(function)), inputs) == [wanted]


@needs_vnni
@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE"])
def test_without_vnni_they_are_refused_and_tvms(isa, tmp_path):
    function, _, _ = case("dense")
    build(hand_placed(function)).export_library(str(tmp_path / "dense.so"))
    program = "import json, sys, test_exact as t; print(json.dumps(t.report(sys.argv[1])))"
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "dense.so"],
        env=child_environment(Path(__file__).parent, ONEDNN_MAX_CPU_ISA=isa),
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["version"].endswith(f", {isa} up to {isa}")
    reason = "8-bit products need AVX512_VNNI, which this CPU lacks"
    assert f"ValueError: oneDNN: matmul 4x256, 8x256 -> 4x8: {reason}" in found["elsewhere"]
    assert f"({isa})" in found["elsewhere"]
    assert found["refused"].keys() == CASES.keys()
    assert all(reason in text for text in found["refused"].values())
    for name in RUN:
        assert found[name] == [1, [case(name)[2]]]
