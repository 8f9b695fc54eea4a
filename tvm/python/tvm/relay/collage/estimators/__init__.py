# SPDX-License-Identifier: Apache-2.0
"""Who is asked for the costs of candidates: workers that measure, a formula, or the user.

Docs: docs/measuring.md. Test: estimators/test_estimator.py.
"""

from ..process_wide.lazy import lazy_attributes

_LAZY = {
    "AnalyticCostEstimator": "analytic",
    "CostEstimator": "estimator",
    "CustomCostEstimator": "estimator",
    "FunctionCosts": "estimator",
    "MockCostEstimator": "estimator",
}

__all__ = [*_LAZY]

__getattr__ = lazy_attributes(__name__, _LAZY)
