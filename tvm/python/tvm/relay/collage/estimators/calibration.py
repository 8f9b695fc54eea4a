# SPDX-License-Identifier: Apache-2.0
"""Multiples of a profile that costs are hardly ever below, and seldom, by backend and size.

Each cost that was measured beside a profile is a pair of both, and their ratio depends on the size
above all: a part of microseconds has borders that take as long as itself, and the whole model has
none. So a backend's pairs are split by the profile's seconds. SHIPPED was learnt from nets of the
benchmark on two machines, an AMD and an Intel, between which the likely multiples lie
(docs/measuring.md), and what this machine measures takes its place (relearnt.py).
Test: estimators/test_calibration.py.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Sequence

# Up to which seconds of the profile each size goes, and more.
SIZES = (5e-6, 2e-5, 1e-4, 5e-4, 2e-3)
# The shares of the pairs that are below what is hardly ever, and seldom.
HARDLY_EVER, SELDOM = 0.01, 0.25
# Fewer pairs say nothing of one in a hundred.
_ENOUGH = 100


@dataclasses.dataclass(frozen=True)
class Multiples:
    """The multiples of one backend, one of each size."""

    least: Sequence[float]
    likely: Sequence[float]
    # Seconds that a part seldom takes less than, whatever its operators took inside others; shipped
    # is less than half of the least that any took. Nobody learns it: such pairs have no ratio.
    start: float = 0.0

    def of(self, seconds: float) -> tuple[float, float]:
        """Return those of a profile's seconds."""
        size = bisect.bisect_left(SIZES, seconds)
        return self.least[size], self.likely[size]

    def foreseen(self, seconds: float) -> tuple[float, float]:
        """Return the seconds that a cost is hardly ever below, and seldom, by a profile's."""
        least, likely = self.of(seconds)
        return least * seconds, max(likely * seconds, self.start)

    def learnt(self, pairs: Iterable[tuple[float, float]]) -> Multiples:
        """Return those of pairs of a profile's seconds and a cost's; a size of which there are too
        few stays as it is."""
        ratios: list[list[float]] = [[] for _ in range(len(SIZES) + 1)]
        for profiled, cost in pairs:
            if profiled > 0:
                ratios[bisect.bisect_left(SIZES, profiled)].append(cost / profiled)

        def of_sizes(known: Sequence[float], share: float) -> list[float]:
            return [
                sorted(each)[int(share * len(each))] if len(each) >= _ENOUGH else before
                for each, before in zip(ratios, known, strict=True)
            ]

        least, likely = of_sizes(self.least, HARDLY_EVER), of_sizes(self.likely, SELDOM)
        return Multiples(least, likely, self.start)


SHIPPED = {
    "tvm": Multiples((0.03, 0.09, 0.2, 0.35, 0.7, 0.7), (0.85, 0.9, 0.95, 0.8, 1.0, 1.0), 2e-6),
    "dnnl": Multiples((0.7, 0.25, 0.5, 0.45, 0.85, 0.85), (2.8, 2.2, 1.5, 1.1, 1.15, 1.05), 4e-6),
    "onnxruntime": Multiples(
        (2.9, 0.35, 1.7, 1.0, 1.0, 1.0), (4.2, 4.3, 2.3, 1.5, 1.2, 1.05), 15e-6
    ),
    "openvino": Multiples((5.0, 1.7, 1.5, 1.0, 1.0, 1.0), (10.0, 3.8, 3.0, 1.4, 1.1, 1.05), 15e-6),
}
# Of a backend that none were learnt of.
CAUTIOUS = Multiples(
    [min(sizes) for sizes in zip(*(each.least for each in SHIPPED.values()))],
    [min(sizes) for sizes in zip(*(each.likely for each in SHIPPED.values()))],
    min(each.start for each in SHIPPED.values()),
)
