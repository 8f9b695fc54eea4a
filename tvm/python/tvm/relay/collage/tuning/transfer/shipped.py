# SPDX-License-Identifier: Apache-2.0
"""The schedules that come with the package, for targets whose vectors are as wide as those of the
target that they were found for. tools/make_records.py makes them. Test:
tuning/transfer/test_shipped.py.

Docs: docs/transfer.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tvm
from tvm.relay.op import OpPattern
from tvm.target import Target
from tvm.target.codegen import target_has_features

from ...errors import OptionError
from ...machine.environment import vector_bits
from ...relay_util.walk import elements_of, operator_calls, tensors_of
from ..ansor_kernel import AnsorKernel, comments_in
from ..log import kernels_of
from ..tuner import Line
from .log import read_ansor

# How the option transfer_log and --from name them.
NAME = "shipped"
RECORDS = Path(__file__).parent / "records"
# What the file says of itself; a comment to other readers, as those of ansor_kernel.py.
MADE = "# made "


def bits_of(target: Target | None) -> int:
    """Return the bits of the widest vectors of floats in code for the target, or this CPU's."""
    if target is None:
        return vector_bits()
    return vector_bits(flag for flag in ("avx512f", "avx2") if target_has_features(flag, target))


def path_for(target: Target | None) -> Path:
    """Return where the file for a target is, if there is one."""
    return RECORDS / f"x86-{bits_of(target)}.jsonl"


def shipped_log(target: Target | None = None) -> Path | None:
    """Return the file for a target, by default for this CPU; None where none is shipped."""
    path = path_for(target)
    return path if path.exists() else None


def shipped_lines(target: Target) -> list[Line]:
    """Return its trials as if they had been made for the target, which says more than the width of
    its vectors; none where none is shipped."""
    path = shipped_log(target)
    lines = read_ansor(path) if path else []
    return [_for(line, str(target)) for line in lines]


def shipped_kernels(target: Target | None = None) -> list[AnsorKernel]:
    """Return the kernels that they were found for."""
    return list(kernels_of(*filter(None, [shipped_log(target)])).values())


def made(path: Path) -> dict[str, Any]:
    """Return what a file says of itself: nets, trials, the machine; {} where it says nothing."""
    with open(path, encoding="utf-8") as file:
        return next(comments_in([file.readline()], MADE), {})


def log_named(name: str, target: Target | None = None) -> str:
    """Return the path that is meant: a file's own, or that of the records that are shipped for the
    target, by default for this CPU. OptionError where there are none."""
    if name != NAME:
        return name
    path = shipped_log(target)
    if path is None:
        raise OptionError(
            f"no schedules are shipped for CPUs with vectors of {bits_of(target)} bits: name a log "
            "of your own (collage tt autoschedule makes one)"
        )
    return str(path)


def may_serve(mod: tvm.IRModule, kernels: Iterable[AnsorKernel]) -> bool:
    """Tell whether an operator of a typed module is one that the name of a kernel tells, and has an
    output as large as the kernel's: where none is, no record serves the module, which is seen at
    once. Those that compute element by element do not count, since no such kernel is tuned."""
    names: dict[int, list[str]] = {}
    for kernel in kernels:
        names.setdefault(math.prod(kernel.shape), []).append(kernel.name)
    return any(
        call.op.name.rpartition(".")[2] in name
        for call in (operator_calls(mod) if names else ())
        if (call.op.get_attr("TOpPattern") or 0) > OpPattern.INJECTIVE
        for tensor in tensors_of(call.checked_type)
        for name in names.get(elements_of(tensor) or 0, ())
    )


def _for(line: Line, target: str) -> Line:
    row = json.loads(line.text)
    row["i"][0][1] = target
    return line._replace(target=target, text=json.dumps(row), origin=NAME)
