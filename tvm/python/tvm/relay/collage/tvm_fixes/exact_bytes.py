# SPDX-License-Identifier: Apache-2.0
"""Products of bytes that TVM's x86 kernels compute exactly while something is built.

Without VNNI TVM multiplies bytes by vpmaddubsw, which adds two products in 16 bits: 255 * 127 twice
is 64,770, and 32,767 is what comes of it. Every convolution, dense layer and batched product of
bytes is made of that one dot product of four, so it is replaced here: bytes are widened to 16 bits
and multiplied by vpmaddwd, whose sums of two have 32 bits.

Test: tvm_fixes/test_exact_bytes.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tir
from tvm.target.x86 import get_simd_32bit_lanes

from .apply import ScopedFix

# Lanes of 32 bits -> LLVM's name of vpmaddwd: pairs of 16-bit products, each added in 32 bits.
_MULTIPLY_AND_ADD = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}


def exact_dot_of_bytes() -> te.TensorIntrin:
    """Return the intrinsic that sums data[k] * kernel[lane, k] over four bytes, for each lane.

    data: uint8 of shape (4,), kernel: int8 of shape (lanes, 4), result: int32 of shape (lanes,).
    Needs a current target with SSE4.2, which TVM asks for before it uses the intrinsic.
    """
    lanes = get_simd_32bit_lanes()
    data = te.placeholder((4,), dtype="uint8", name="data")
    kernel = te.placeholder((lanes, 4), dtype="int8", name="kernel")
    k = te.reduce_axis((0, 4), name="k")
    result = te.compute(
        (lanes,),
        lambda i: te.sum(data[k].astype("int32") * kernel[i, k].astype("int32"), axis=k),
        name="C",
    )
    binds = {
        data: tir.decl_buffer((4,), "uint8", "a_buffer", offset_factor=1, strides=[1]),
        kernel: tir.decl_buffer(
            (lanes, 4), "int8", "b_buffer", offset_factor=1, strides=[te.var("ldw"), 1]
        ),
    }

    def body_reset_update(
        ins: Sequence[te.Tensor], outs: Sequence[te.Tensor]
    ) -> tuple[Any, Any, Any]:
        sums = _sums_of_four(ins, lanes)
        wide = f"int32x{lanes}"
        return (
            outs[0].vstore(0, sums),
            outs[0].vstore(0, tir.const(0, wide)),
            outs[0].vstore(0, sums + outs[0].vload([0], wide)),
        )

    return te.decl_tensor_intrin(
        result.op, body_reset_update, binds=binds, default_buffer_params={"offset_factor": 1}
    )


def _sums_of_four(ins: Sequence[te.Tensor], lanes: int) -> tir.PrimExpr:
    """Add the products of bytes 0 and 2 of each lane, and those of bytes 1 and 3."""
    words, wide = f"int16x{2 * lanes}", f"int32x{lanes}"
    # The data are one lane for all: their bytes are taken apart before they are spread.
    four = tir.reinterpret("int32", ins[0].vload([0], "uint8x4"))
    mask, byte = tir.const(0x00FF00FF, "int32"), tir.const(8, words)
    pairs = tir.reinterpret(words, ins[1].vload([0, 0], f"int8x{4 * lanes}"))
    products = []
    for unsigned, signed in (
        (four & mask, (pairs << byte) >> byte),
        ((four >> 8) & mask, pairs >> byte),
    ):
        spread = tir.reinterpret(words, unsigned.astype(wide))
        products.append(
            tir.call_llvm_pure_intrin(
                wide, _MULTIPLY_AND_ADD[lanes], tir.const(2, "uint32"), spread, signed
            )
        )
    return products[0] + products[1]


# Context in which kernels of 8-bit products are scheduled to be exact.
exact_bytes = ScopedFix("exact bytes", lambda _: exact_dot_of_bytes).inside
