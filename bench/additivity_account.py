# SPDX-License-Identifier: Apache-2.0
"""Where a network's time and the sum of its parts' costs differ: plain arithmetic on timings.

Every second of the gap is in exactly one row; what nothing explains is `unknown`.
Test: bench/test_additivity.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from tvm.relay.collage.measure.profiler.compiled_kernels import Kernel
from tvm.relay.collage.report.kernels import KernelComparison

ROWS = ("layout", "fusion", "cache", "launch", "unknown")
# Row of a difference between kernels in the network and alone.
_ROW_OF = {
    "border": "layout",
    "fused transform": "layout",
    "layout": "layout",
    "fusion": "fusion",
    "tuple": "fusion",
}


@dataclasses.dataclass(frozen=True)
class Launch:
    """Seconds that the executor takes besides kernels: for a run, and for each kernel of it."""

    run: float
    kernel: float

    def of(self, num_kernels: int) -> float:
        return self.run + self.kernel * num_kernels

    @classmethod
    def of_chains(cls, one: Chain, many: Chain) -> Launch:
        """From chains of kernels that do next to nothing."""
        overheads = [chain.seconds - sum(chain.kernels) for chain in (one, many)]
        kernel = (overheads[1] - overheads[0]) / (len(many.kernels) - len(one.kernels))
        return cls(max(0.0, overheads[0] - kernel * len(one.kernels)), max(0.0, kernel))


@dataclasses.dataclass(frozen=True)
class Chain:
    """Seconds of a run, and of each of its kernels by itself."""

    seconds: float
    kernels: Sequence[float]


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the plan: how often it occurs, seconds of its run alone and what measuring takes
    off for borders, number of its kernels."""

    count: int
    seconds: float
    border_seconds: float
    num_kernels: int

    @property
    def cost(self) -> float:
        return self.seconds - self.border_seconds


@dataclasses.dataclass(frozen=True)
class Account:
    """network: seconds of a run. parts, transitions: what the plan is charged. gap: the
    network's seconds beyond both, by row of ROWS."""

    network: float
    parts: float
    transitions: float
    rows: dict[str, float]

    @property
    def total(self) -> float:
        return self.parts + self.transitions

    @property
    def gap(self) -> float:
        return self.network - self.total


def account(
    network: float,
    parts: Sequence[Part],
    transitions: float,
    comparison: KernelComparison,
    in_place: Callable[[Kernel], float],
    alone: Callable[[Kernel], float],
    launch: Launch,
) -> Account:
    """Attribute the gap between a run of the network and the sum of the plan's costs.

    cache: equal kernels, in their place in the network and by themselves. layout: transforms and
    other layouts, less the transitions charged and more the borders taken off. fusion: kernels that
    FuseOps made otherwise. launch: the executor's own time, once for the network and once a part.
    """
    rows = dict.fromkeys(ROWS, 0.0)
    for here, there in comparison.same:
        rows["cache"] += in_place(here) - alone(there)
    for item in comparison.differences:
        row = _ROW_OF.get(item.cause)
        if row is not None:
            rows[row] += sum(map(in_place, item.network)) - sum(map(alone, item.alone))
    rows["layout"] += sum(p.count * p.border_seconds for p in parts) - transitions
    num_kernels = len(comparison.same) + sum(len(d.network) for d in comparison.differences)
    rows["launch"] = launch.of(num_kernels) - sum(p.count * launch.of(p.num_kernels) for p in parts)
    total = sum(part.count * part.cost for part in parts)
    rows["unknown"] = network - total - transitions - sum(rows.values())
    return Account(network, total, transitions, rows)
