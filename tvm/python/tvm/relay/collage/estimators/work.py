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

from ..relay_util.external import is_external_function


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
