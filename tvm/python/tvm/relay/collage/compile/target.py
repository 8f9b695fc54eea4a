# SPDX-License-Identifier: Apache-2.0
"""The TVM target that names this machine's CPU, which a fast kernel needs.

Bare `llvm` and `-mcpu=native` both lose vector instructions.

Test: compile/test_target.py
"""

from __future__ import annotations

import functools
from typing import Protocol

import tvm

from ..errors import BackendUnavailableError
from ..machine.environment import read_cpu_flags

# LLVM features that a CPU's name implies but a virtual machine may hide, by the kernel's name.
_MASKABLE_X86 = {
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512cd": "avx512cd",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avxvnni": "avx_vnni",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
}

# The row "features for 8 bits" of tvm_fixes/table.py: operands of vpdpbusd have another type in
# LLVM 22 than TVM gives them, and tiles of AMX that a layer does not fill are an error.
_UNFIT_FOR_TVM = ("avx512vnni", "avxvnni", "amx-int8")


class Device(Protocol):
    """A device, as find_device gives it."""

    def host_target(self, num_cores: int | None = None) -> tvm.target.Target:
        """Return the target of its CPU."""


def host_target(num_cores: int | None = None, *, device: Device | None = None) -> tvm.target.Target:
    """Return the `llvm` target of this CPU; `num_cores` (threads) is a hint to schedulers.

    `device`: what find_device gave; then the target of its CPU.

    Products of 8 bits are exact where Collage builds, be it for this target alone: by
    `relay.build` with the option enable_collage, or by `build_library`. Stock `relay.build` adds
    two products in 16 bits, which saturate: weights above 64 may then be far off.

    Raises BackendUnavailableError if TVM has no LLVM, ValueError if `num_cores` is not positive.
    """
    if num_cores is not None and num_cores < 1:
        raise ValueError(f"host_target: num_cores must be at least 1, got {num_cores}.")
    if not tvm.runtime.enabled("llvm"):
        raise BackendUnavailableError(
            "host_target: this TVM was built without LLVM, so it cannot compile for the CPU. "
            "Install the base package that requirements.txt names."
        )
    if device is not None:
        return device.host_target(num_cores)
    text = f"llvm -mcpu={tvm.target.codegen.llvm_get_system_cpu()}"
    hidden = {*hidden_features(text, read_cpu_flags()), *unfit_features(text)}
    if hidden:
        text += " -mattr=" + ",".join(f"-{feature}" for feature in sorted(hidden))
    if num_cores is not None:
        text += f" -num-cores={num_cores}"
    return tvm.target.Target(text)


def hidden_features(target: str, flags: frozenset[str]) -> list[str]:
    """Return features that `target` implies and the machine, having `flags`, does not offer."""
    if not flags:
        return []
    names = _implied_features(target)
    return [
        feature for feature, flag in _MASKABLE_X86.items() if feature in names and flag not in flags
    ]


def unfit_features(target: str) -> list[str]:
    """Return features that `target` implies and TVM's kernels for 8 bits cannot be built with."""
    names = _implied_features(target)
    return [feature for feature in _UNFIT_FOR_TVM if feature in names]


@functools.cache
def _implied_features(target: str) -> frozenset[str]:
    """Look features up in LLVM's table of CPUs, which it takes milliseconds to read."""
    implied = tvm.target.codegen.llvm_get_cpu_features(tvm.target.Target(target))
    return frozenset(str(name) for name in implied)


def maskable_features() -> frozenset[str]:
    """Return the kernel's names of the vector instructions that decide what compilers emit."""
    return frozenset(_MASKABLE_X86.values())
