# SPDX-License-Identifier: Apache-2.0
"""Heuristic costs from operations and bytes (the roofline model), where nothing can be measured.

Assumption: a candidate is one kernel that keeps what is inside it in caches, and reaches either the
peak of arithmetic or that of memory. Backends differ only by the machines given for them. Test:
test_analytic.py.
"""

import math
from typing import NamedTuple

import tvm
from tvm import relay
from tvm._ffi import get_global_func

from .estimators import CostEstimator, Work
from .external import is_external_function


class Machine(NamedTuple):
    """Peaks of a machine, or of a backend on it: 1e9 operations a second, 1e9 bytes a second, and
    seconds to start a kernel. The defaults are of the order of two cores of a server."""

    gflops: float = 100.0
    gigabytes_per_second: float = 20.0
    launch_seconds: float = 2e-6

    def seconds(self, work: Work) -> float:
        """The longer of arithmetic and memory traffic, after the start."""
        arithmetic = work.operations / (self.gflops * 1e9)
        traffic = work.bytes / (self.gigabytes_per_second * 1e9)
        return self.launch_seconds + max(arithmetic, traffic)


class AnalyticCostEstimator(CostEstimator):
    """Costs by shapes alone, of status `estimated`, labelled heuristic; nothing is built or run.

    ``machines``: Machine by target kind, for targets that are not ``machine``. ValueError for peaks
    that are not above 0.
    """

    def __init__(self, machine=None, machines=None):
        self._machine = Machine() if machine is None else machine
        self._machines = dict(machines or {})
        for name, each in {"machine": self._machine, **self._machines}.items():
            peaks = (each.gflops, each.gigabytes_per_second)
            is_right = all(0 < peak < math.inf for peak in peaks)
            if not (is_right and 0 <= each.launch_seconds < math.inf):
                raise ValueError(f"{name} needs peaks > 0 and launch_seconds >= 0, not {each}")
        super().__init__()

    def price_batch(self, signatures, works, targets):
        return [self._cost(work, target) for work, target in zip(works, targets, strict=True)]

    def estimate_batch(self, mods, targets, labels):
        return [
            self._cost(work_of_module(mod), target)
            for mod, target in zip(mods, targets, strict=True)
        ]

    def transition_seconds(self, types, target):
        """A layout transform reads and writes the tensor once."""
        sizes = [math.prod(map(int, t.shape)) * tvm.DataType(t.dtype).bits / 8 for t in types]
        machine = self._machine_of(target)
        return [machine.seconds(Work(1, 0.0, 2.0 * size)) for size in sizes]

    def _cost(self, work, target):
        message = f"heuristic: {work.operations:.3g} operations, {work.bytes:.3g} bytes"
        return ["estimated", self._machine_of(target).seconds(work), message]

    def _machine_of(self, target):
        return self._machines.get(target.kind.name, self._machine)


def work_of_module(mod):
    """The Work of a module's @main, external functions that it calls included, as one candidate."""
    external = [var for var, function in mod.functions_items() if is_external_function(function)]
    inlined = relay.transform.InlineCompilerFunctionsBoundTo(external)(mod)
    main = relay.transform.InferType()(inlined)["main"]
    calls, operations, size = get_global_func("collage.WorkOfFunction")(main)
    return Work(int(calls), float(operations), float(size))
