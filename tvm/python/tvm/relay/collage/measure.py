# SPDX-License-Identifier: Apache-2.0
"""Measuring by itself, for users: candidates, their costs, comparisons of whole models.

What these names do is in machine/, exec/, costs/, timing/ and measured/, which nothing of ours
reaches by this module. Docs: docs/measuring.md.
"""

from .costs.candidate import CandidateModule, candidate_module, deployable_module
from .costs.cost import STATUSES, Cost, CostStatus
from .costs.options import MeasureOptions
from .costs.pass_context import context_from_json, context_to_json
from .costs.protocols import BatchEstimator, KeptCosts
from .costs.statistics import Interval, is_narrow, median_interval, ratio_interval
from .exec.launch import WorkerStartError
from .exec.pool import Job, WorkerPool
from .exec.process import WorkerOptions, WorkerProcess
from .exec.reply import Reply, Unsupported, WrongResult
from .measured.estimator import MeasuredCostEstimator
from .measured.progress import Progress, make_progress
from .measured.runner import LocalRunner, Runner
from .messages import describe
from .timing.comparison import Comparison, compare, output_error
from .timing.interleave import Contestant, Samples, measure_interleaved

__all__ = [
    "STATUSES",
    "BatchEstimator",
    "CandidateModule",
    "Comparison",
    "Contestant",
    "Cost",
    "CostStatus",
    "Interval",
    "Job",
    "LocalRunner",
    "KeptCosts",
    "MeasureOptions",
    "MeasuredCostEstimator",
    "Progress",
    "Reply",
    "Runner",
    "Samples",
    "Unsupported",
    "WorkerOptions",
    "WorkerPool",
    "WorkerProcess",
    "WorkerStartError",
    "WrongResult",
    "candidate_module",
    "compare",
    "context_from_json",
    "context_to_json",
    "deployable_module",
    "describe",
    "is_narrow",
    "make_progress",
    "measure_interleaved",
    "median_interval",
    "output_error",
    "ratio_interval",
]
