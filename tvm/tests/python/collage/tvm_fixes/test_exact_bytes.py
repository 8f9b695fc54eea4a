# SPDX-License-Identifier: Apache-2.0
"""TVM's kernels of 8-bit products, as Collage builds them, at the extremes of their operands."""

from pathlib import Path

import numpy as np
import pytest
import tvm
from onednn_nets import run
from tvm import relay
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.tvm_fixes.exact_bytes import exact_bytes
from tvm.topi.x86 import conv2d_avx_1x1, conv2d_avx_common, dense

# CPU -> the kernel's name of the widest instructions that TVM uses there: 4, 8, 16 lanes.
CPUS = {"nehalem": "sse4_2", "haswell": "avx2", "skylake-avx512": "avx512bw"}
ZERO, ONE = relay.const(0), relay.const(1.0)
QUANTISED = (ZERO, ZERO, ONE, ONE)


def target_of(cpu):
    flags = Path("/proc/cpuinfo").read_text().split()
    if CPUS[cpu] not in flags:
        pytest.skip(f"this CPU has no {CPUS[cpu]}")
    return f"llvm -mcpu={cpu}"


def extremes(rng, shape, dtype):
    """Numbers of which most are the least or the greatest of the type: sums of two overflow."""
    info = np.iinfo(dtype)
    return rng.choice(np.array([info.min, info.max, info.max, 1], dtype), shape)


def products(rng, dtype):
    """Relay products of bytes over x, data and weights of each, and numpy's sums."""
    image, rows = extremes(rng, (1, 64, 6, 6), dtype), extremes(rng, (2, 16, 256), dtype)
    kernel, point = extremes(rng, (32, 64, 3, 3), "int8"), extremes(rng, (32, 64, 1, 1), "int8")
    matrix = extremes(rng, (2, 16, 256), "int8")
    x, y = (
        relay.var("x", shape=image.shape, dtype=dtype),
        relay.var("y", shape=rows.shape, dtype=dtype),
    )
    conv = relay.qnn.op.conv2d
    exprs = [
        conv(x, relay.const(kernel), *QUANTISED, kernel_size=(3, 3), channels=32),
        conv(x, relay.const(point), *QUANTISED, kernel_size=(1, 1), channels=32),
        relay.qnn.op.dense(
            relay.reshape(y, (32, 256)), relay.const(matrix[0]), *QUANTISED, units=16
        ),
        relay.qnn.op.batch_matmul(y, relay.const(matrix), *QUANTISED),
    ]
    wide = image.astype("int64")
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    sums = [
        np.einsum("nchwij,ocij->nohw", windows, kernel.astype("int64")),
        np.einsum("nchw,oc->nohw", wide, point[:, :, 0, 0].astype("int64")),
        rows.astype("int64").reshape(32, 256) @ matrix[0].astype("int64").T,
        rows.astype("int64") @ matrix.astype("int64").transpose(0, 2, 1),
    ]
    return relay.Function([x, y], relay.Tuple(exprs)), {"x": image, "y": rows}, sums


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_sums_are_exact(cpu, dtype):
    target = target_of(cpu)
    function, inputs, sums = products(np.random.default_rng(0), dtype)
    found = run(build_library(tvm.IRModule.from_expr(function), target), inputs)
    # What a sum of two in 16 bits cannot hold is asked for.
    assert max(np.abs(each).max() for each in sums) > 2**20
    for got, wanted in zip(found, sums, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_without_a_build_tvm_is_stock():
    modules = (conv2d_avx_1x1, conv2d_avx_common, dense)
    before = [module.dot_16x1x16_uint8_int8_int32 for module in modules]
    with exact_bytes():
        inside = [module.dot_16x1x16_uint8_int8_int32 for module in modules]
    assert len(set(inside)) == 1 and set(inside).isdisjoint(before)
    assert [module.dot_16x1x16_uint8_int8_int32 for module in modules] == before
