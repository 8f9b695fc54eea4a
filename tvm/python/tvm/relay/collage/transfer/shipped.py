# SPDX-License-Identifier: Apache-2.0
"""The schedules that come with the package, for CPUs with vectors of the width of the machine's
that they were found on. tools/make_records.py makes them. Test: transfer/test_shipped.py.

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

from ..errors import OptionError
from ..machine.environment import vector_bits
from ..relay_util.walk import elements_of, operator_calls, tensors_of
from ..tuning.logs import Line
from .kernel import Kernel
from .log import kernels_of, read_ansor

# How the option transfer_log and --from name them.
NAME = "shipped"
RECORDS = Path(__file__).parent / "records"
# What the file says of itself; a comment to other readers, as those of transfer/kernel.py.
MADE = "# made "


def shipped_log(bits: int | None = None) -> Path | None:
    """The file for such vectors, this CPU's by default; None where none is shipped."""
    path = RECORDS / f"x86-{vector_bits() if bits is None else bits}.jsonl"
    return path if path.exists() else None


def shipped_lines(target: tvm.target.Target) -> list[Line]:
    """Their trials as if they had been made for the target, which says more than the width of its
    vectors; none where none is shipped."""
    path = shipped_log()
    lines = read_ansor(path) if path else []
    return [_for(line, str(target)) for line in lines]


def shipped_kernels() -> list[Kernel]:
    """The kernels that they were found for."""
    path = shipped_log()
    return list(kernels_of(path).values()) if path else []


def made(path: Path) -> dict[str, Any]:
    """What a file says of itself: nets, trials, the machine; {} where it says nothing."""
    with open(path, encoding="utf-8") as file:
        first = file.readline()
    return json.loads(first[len(MADE) :]) if first.startswith(MADE) else {}


def log_named(name: str) -> str:
    """The path that is meant: a file's own, or that of the records that are shipped. OptionError
    where none are for this CPU."""
    if name != NAME:
        return name
    path = shipped_log()
    if path is None:
        raise OptionError(
            f"no schedules are shipped for CPUs with vectors of {vector_bits()} bits: name a log "
            "of your own (collage tt autoschedule makes one)"
        )
    return str(path)


def may_serve(mod: tvm.IRModule, kernels: Iterable[Kernel]) -> bool:
    """Whether an operator of a typed module is one that the name of a kernel tells, and has an
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
