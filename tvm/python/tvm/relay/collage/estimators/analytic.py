# SPDX-License-Identifier: Apache-2.0
"""Heuristic costs from operations and bytes, where nothing can be measured.

Backends differ only by the machines given for them. Test: estimators/test_analytic.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import tvm
from tvm import relay
from tvm.target import Target

from ..costs.cost import Cost
from . import CostEstimator
from .work import Machine, Work, work_of_module


class AnalyticCostEstimator(CostEstimator):
    """Costs by shapes alone, of status `estimated`, labelled heuristic; nothing is built or run.

    ``machines``: Machine by target kind, for targets that are not ``machine``. ValueError for peaks
    that are not above 0.
    """

    def __init__(
        self, machine: Machine | None = None, machines: Mapping[str, Machine] | None = None
    ) -> None:
        self._machine = Machine() if machine is None else machine
        self._machines = dict(machines or {})
        for name, each in {"machine": self._machine, **self._machines}.items():
            peaks = (each.gflops, each.gigabytes_per_second)
            is_right = all(0 < peak < math.inf for peak in peaks)
            if not (is_right and 0 <= each.launch_seconds < math.inf):
                raise ValueError(f"{name} needs peaks > 0 and launch_seconds >= 0, not {each}")
        super().__init__()

    def price_batch(
        self, signatures: Sequence[str], works: Sequence[Work], targets: Sequence[Target]
    ) -> list[Cost]:
        return [self._cost(work, target) for work, target in zip(works, targets, strict=True)]

    def estimate_batch(
        self, mods: Sequence[tvm.IRModule], targets: Sequence[Target], labels: Sequence[str]
    ) -> list[Cost]:
        return [
            self._cost(work_of_module(mod), target)
            for mod, target in zip(mods, targets, strict=True)
        ]

    def transition_seconds(self, types: Sequence[relay.TensorType], target: Target) -> list[float]:
        """Return the seconds of layout transforms, each of which reads and writes the tensor
        once."""
        sizes = [math.prod(map(int, t.shape)) * tvm.DataType(t.dtype).bits / 8 for t in types]
        machine = self._machine_of(target)
        return [machine.seconds(Work(1, 0.0, 2.0 * size)) for size in sizes]

    def _cost(self, work: Work, target: Target) -> Cost:
        message = f"heuristic: {work.operations:.3g} operations, {work.bytes:.3g} bytes"
        return Cost.estimated(self._machine_of(target).seconds(work), message)

    def _machine_of(self, target: Target) -> Machine:
        return self._machines.get(target.kind.name, self._machine)
