# SPDX-License-Identifier: Apache-2.0
"""Marks costs that are many times what the machine's peaks allow: a kernel without vectors, a
library's reference code, a bad schedule. It marks them for people and chooses nothing.

The roofline is low on purpose, that of two ordinary cores (`work.Machine`) and no faster on
more, so that what is marked is slow on any machine; what a cache would do is not counted. Nothing
is said of recurrent layers, whose products `work` does not count.
Test: estimators/test_roofline.py.
"""

from __future__ import annotations

import tvm

from ..costs.cost import format_seconds
from ..ops import KINDS
from ..relay_util.walk import operator_calls
from .work import Machine, work_of_module

# A start takes an executor's call, a wake-up of threads, and what a small tensor costs at least.
_LAUNCH_SECONDS = 2e-5
_FAR = 10.0


def roofline_remark(mod: tvm.IRModule, seconds: float) -> str:
    """Return what is to be said of a candidate's measured time; "" where its kernels may be good
    ones."""
    if seconds < _FAR * _LAUNCH_SECONDS or _has_recurrence(mod):
        return ""
    work = work_of_module(mod)
    bound = Machine(launch_seconds=_LAUNCH_SECONDS).seconds(work)
    if seconds < _FAR * bound:
        return ""
    return (
        f"{seconds / bound:.0f} times its roofline ({format_seconds(bound)} for "
        f"{work.operations:.3g} operations and {work.bytes:.3g} bytes)"
    )


def _has_recurrence(mod: tvm.IRModule) -> bool:
    ours = {kind.operator for kind in KINDS.values()}
    return any(call.op.name in ours for call in operator_calls(mod))
