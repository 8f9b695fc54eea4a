# SPDX-License-Identifier: Apache-2.0
"""The share of a profile that costs are hardly ever below, by backend.

Each cost that was measured beside a profile is a pair of both. A backend's share is the largest
that MOST of its pairs are above; a size of its own where pairs of few operators scatter more than
those of many. Test: estimators/test_calibration.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..costs.cost import CostStatus
from ..relay_util.external import TVM_BACKEND
from ..views.function_report import FunctionReport
from .profiles import Profiles

# Of the pairs, those that a share has to be below.
MOST = 0.99
# Of this package: by backend, the shares that were learnt on the nets of the benchmark.
SHARES = {"tvm": 0.7, "dnnl": 0.7, "onnxruntime": 0.7, "openvino": 0.7}
# Fewer pairs say nothing of one in a hundred.
_ENOUGH = 100


def ratios_of(
    profiles: Profiles, reports: Iterable[FunctionReport], host: str
) -> dict[str, list[float]]:
    """Return each measured cost over the sum of its operators' times in the profile, by backend."""
    found: dict[str, list[float]] = {}
    for report in reports:
        for row in report.graph.costed:
            name = TVM_BACKEND if row.backend == host else row.backend
            foreseen = profiles.sum_of(name, row.nodes)
            is_known = row.cost.status == CostStatus.MEASURED and not row.cost.flags
            if is_known and foreseen > 0:
                found.setdefault(name, []).append((row.cost.seconds or 0.0) / foreseen)
    return found


def share_of(ratios: Sequence[float]) -> float | None:
    """Return the largest share that MOST of the ratios are above; None for too few of them."""
    if len(ratios) < _ENOUGH:
        return None
    below = int((1 - MOST) * len(ratios))
    return sorted(ratios)[below]
