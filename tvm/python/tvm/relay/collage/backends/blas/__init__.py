# SPDX-License-Identifier: Apache-2.0
"""The backends ``cblas`` (OpenBLAS) and ``mkl``: matrix products by a BLAS library.

They differ in the library only. Test: test_blas_*.py.
"""

from __future__ import annotations

import tvm
from tvm import relay

from ..interface import OP_LEVEL, Backend
from ..partition import PartitionCodegen
from .lower import lower_function
from .patterns import pattern_table


class BlasBackend(Backend):
    """Dense layers and matrix products, float32 and float64, static shapes, through BLAS."""

    kind = OP_LEVEL
    local_predicates = True
    restrictions = ("types other than float32 and float64", "dynamic shapes", "the AOT executor")

    def __init__(self) -> None:
        self._codegen = PartitionCodegen(
            self.name, lambda function: lower_function(function, self.name)
        )

    def version(self) -> str:
        return str(tvm.get_global_func(f"collage.{self.name}.version")())

    def available(self) -> str | None:
        probe = tvm.get_global_func(f"collage.{self.name}.why_unavailable", allow_missing=True)
        if probe is None:
            return "libtvm_collage_runtime.so is not loaded"
        return str(probe()) or None

    def patterns(self) -> list[tuple]:
        return pattern_table(self.name)

    def compile(self, function: relay.Function) -> tvm.runtime.Module:
        return self._codegen.compile(function)

    def constants(self, function: relay.Function, symbol: str) -> dict:
        """None are asked for: the module holds them."""
        return {}


class CblasBackend(BlasBackend):
    """OpenBLAS."""

    name = "cblas"
    colour = "#cc79a7"


class MklBackend(BlasBackend):
    """Intel's MKL, which keeps constant weights packed."""

    name = "mkl"
    colour = "#56b4e9"
