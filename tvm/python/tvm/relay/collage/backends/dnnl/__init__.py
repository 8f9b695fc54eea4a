# SPDX-License-Identifier: Apache-2.0
"""The oneDNN backend, named ``dnnl`` as in TVM. Test: test_onednn_*.py."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from ...costs.kernel import KernelRuns, KernelStep
from ...machine.environment import read_cpu_flags
from ..interface import GRAPH_LEVEL, Backend, OwnKernels
from .codegen import WINOGRAD_CHOICES, codegen, lower_function
from .kernels import kernel_runs, kernel_steps
from .patterns import ANCHORS, bare_op_predicates, pattern_table, takes_call
from .types import runs_bfloat16

# docs/backends/dnnl.md has the limits.
_WINOGRAD_WINDOWS = (
    "nn.conv2d with windows of 3x3, 5x5, 1x3, 3x1, 1x7 and 7x1, and of 7x7 with strides of 2",
    "nn.conv3d with these in rows and columns, any in depth",
)


# Without one of these oneDNN computes bfloat16 in float32.
_BFLOAT16 = {"avx512_bf16", "amx_bf16"}


class DnnlBackend(Backend):
    """oneDNN through our own runtime module; static shapes."""

    name = "dnnl"
    library = "oneDNN"
    colour = "#0072b2"
    kind = GRAPH_LEVEL
    local_predicates = True
    restrictions = (
        "types other than float32, bfloat16 (AVX-512), and int8 with zero points and scales (VNNI)",
        "dynamic shapes",
        "blocked layouts of weights or data in the model",
        "the AOT executor",
    )
    # Which convolutions run by our Winograd kernel: those it is faster on.
    options = {"winograd": "auto"}

    def __init__(self) -> None:
        self.op_predicates = bare_op_predicates()
        # TVM's partitioning prunes small regions where there are several: a cast would be one more.
        self.annotate_predicates = {
            **dict.fromkeys(ANCHORS.values(), takes_call),
            "cast": lambda call: False,
        }

    def with_options(self, values: Mapping[str, Any]) -> Backend:
        """Return the backend with these options; ValueError for a winograd outside
        WINOGRAD_CHOICES."""
        wanted = values.get("winograd", "auto")
        if wanted not in WINOGRAD_CHOICES:
            raise ValueError(
                f"backend {self.name}: option winograd is one of {', '.join(WINOGRAD_CHOICES)}, "
                f"got {wanted!r}"
            )
        return super().with_options(values)

    def version(self) -> str:
        text = str(tvm.get_global_func("collage.onednn.version")())
        # The text says what this process' kernels use; a limit set since then is the workers'.
        limit = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA")
        return f"{text} up to {limit}" if limit else text

    def own_kernels(self) -> tuple[OwnKernels, ...]:
        version = str(tvm.get_global_func("collage.winograd.version")())
        return (OwnKernels("winograd", version, _WINOGRAD_WINDOWS, without="dnnl -winograd=never"),)

    def available(self) -> str | None:
        probe = tvm.get_global_func("collage.onednn.why_unavailable", allow_missing=True)
        if probe is None:
            return "libtvm_collage_runtime.so is not loaded"
        return str(probe()) or None

    def patterns(self) -> list[tuple]:
        return pattern_table(self.name)

    def compile(self, function: relay.Function) -> tvm.runtime.Module:
        return codegen(**self._lowering()).compile(function)

    def kernel_steps(self, function: relay.Function) -> list[KernelStep]:
        return kernel_steps(lower_function(function, **self._lowering()))

    def _lowering(self) -> dict[str, Any]:
        """Return the options by which its parts are lowered."""
        is_short = bool(self.trades_accuracy)
        return {"winograd": self.options["winograd"], "backend": self.name, "is_short": is_short}

    def kernel_runs(self, text: str, kernel: str, seed: int) -> KernelRuns:
        return kernel_runs(text, kernel, seed)

    def constants(self, function: relay.Function, symbol: str) -> dict:
        """Return no constants: the module holds them."""
        return {}


class DnnlBf16Backend(DnnlBackend):
    """The same with products of float32 in bfloat16, but those that are kept from that, which stay
    in float32 inside its parts."""

    name = "dnnl_bf16"
    colour = "#88ccee"
    trades_accuracy = "bfloat16"
    variant_of = DnnlBackend.name
    keeps_calls = True

    def available(self) -> str | None:
        reason = super().available()
        if reason is None and not (runs_bfloat16() and _BFLOAT16 & read_cpu_flags()):
            reason = "the CPU has no bfloat16 instructions, or oneDNN may not use them"
        return reason

    def own_kernels(self) -> tuple[OwnKernels, ...]:
        return ()  # those of float32, in layers that are kept, are listed with dnnl
