# SPDX-License-Identifier: Apache-2.0
"""The work of a candidate, by shapes alone, and its time by a machine's peaks (the roofline).

Assumption: a candidate is one kernel that keeps what is inside it in caches, and reaches either the
peak of arithmetic or that of memory. Test: estimators/test_analytic.py,
estimators/test_roofline.py.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import tvm
from tvm import relay
from tvm._ffi import get_global_func

from ..costs.cost import format_seconds
from ..ops import KINDS
from ..relay_util.external import is_external_function
from ..relay_util.walk import operator_calls

# A start takes an executor's call, a wake-up of threads, and what a small tensor costs at least.
_LAUNCH_SECONDS = 2e-5
_FAR = 10.0


class Work(NamedTuple):
    """The work of a candidate, from shapes alone."""

    num_calls: int  # of operators
    # of products and convolutions, arithmetic ones; of others, elements read and written
    operations: float
    bytes: float  # read and written, each tensor at its border once


class Machine(NamedTuple):
    """Peaks of a machine, or of a backend on it: 1e9 operations a second, 1e9 bytes a second, and
    seconds to start a kernel. The defaults are of the order of two cores of a server."""

    gflops: float = 100.0
    gigabytes_per_second: float = 20.0
    launch_seconds: float = 2e-6

    def seconds(self, work: Work) -> float:
        """Return the longer of arithmetic and memory traffic, after the start."""
        arithmetic = work.operations / (self.gflops * 1e9)
        traffic = work.bytes / (self.gigabytes_per_second * 1e9)
        return self.launch_seconds + max(arithmetic, traffic)


def work_of_module(mod: tvm.IRModule) -> Work:
    """Return the Work of a module's @main, external functions that it calls included, as one
    candidate."""
    external = [var for var, function in mod.functions_items() if is_external_function(function)]
    inlined = relay.transform.InlineCompilerFunctionsBoundTo(external)(mod)
    main = relay.transform.InferType()(inlined)["main"]
    return Work(**json.loads(get_global_func("collage.WorkOfFunction")(main)))


def roofline_remark(mod: tvm.IRModule, seconds: float) -> str:
    """Return what is to be said of a candidate's measured time where it is many times what peaks
    allow: a kernel without vectors, a library's reference code, a bad schedule; "" where its
    kernels may be good ones. It is said to people and chooses nothing.

    The roofline is low on purpose, that of two ordinary cores and no faster on more, so that what
    is marked is slow on any machine; what a cache would do is not counted. Nothing is said of
    recurrent layers, whose products Work does not count.
    """
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
