# SPDX-License-Identifier: Apache-2.0
"""Measuring by itself, for users: candidates, their costs, comparisons of whole models.

Nothing of ours reaches by this module what these names are. Docs: docs/measuring.md.
"""

from ..process_wide.lazy import lazy_attributes

# Public name -> the module that holds it, seen from here and imported at the first use.
_LAZY = {
    "STATUSES": ".costs.cost",
    "BatchEstimator": "protocols",
    "CandidateModule": ".candidate.candidate",
    "Comparison": "race.comparison",
    "Contestant": "race.race",
    "Cost": ".costs.cost",
    "CostStatus": ".costs.cost",
    "Interval": ".costs.statistics",
    "Job": ".exec.pool",
    "KeptCosts": "protocols",
    "LocalRunner": "runner",
    "MeasureOptions": "options",
    "MeasuredCostEstimator": "measured",
    "Progress": "progress",
    "RaceOptions": "race.race",
    "Reply": ".exec.reply",
    "Runner": "runner",
    "Samples": "race.race",
    "Unsupported": ".exec.reply",
    "WorkerOptions": ".exec.process",
    "WorkerPool": ".exec.pool",
    "WorkerProcess": ".exec.process",
    "WorkerStartError": ".exec.launch",
    "WrongResult": ".exec.reply",
    "candidate_module": ".candidate.candidate",
    "compare": "race.comparison",
    "context_from_json": ".candidate.pass_context",
    "context_to_json": ".candidate.pass_context",
    "deployable_module": ".candidate.candidate",
    "describe": ".messages.foreign",
    "is_narrow": ".costs.statistics",
    "make_progress": "progress",
    "median_interval": ".costs.statistics",
    "output_error": "race.comparison",
    "ratio_interval": ".costs.statistics",
}

__all__ = [*_LAZY]

__getattr__ = lazy_attributes(__name__, _LAZY)
