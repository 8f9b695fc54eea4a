# SPDX-License-Identifier: Apache-2.0
"""Measuring: costs of candidates and comparisons of whole models, in worker processes. Searching is
elsewhere and reaches this only through BatchEstimator. Docs: docs/measuring.md."""

from .candidate import CandidateModule, candidate_module, deployable_module
from .comparison import Comparison, compare, output_error
from .cost import STATUSES, Cost, Unsupported, WrongResult
from .estimator import MeasuredCostEstimator
from .interleave import Contestant, Samples, measure_interleaved
from .launch import WorkerStartError
from .options import MeasureOptions
from .pass_context import context_from_json, context_to_json
from .pool import Job, WorkerPool
from .process import WorkerOptions, WorkerProcess
from .progress import Progress, make_progress
from .protocols import BatchEstimator, KeptCosts
from .reply import Reply
from .runner import LocalRunner, Runner
from .statistics import Interval, is_narrow, median_interval, ratio_interval
from .text import describe

__all__ = [
    "STATUSES",
    "BatchEstimator",
    "CandidateModule",
    "Comparison",
    "Contestant",
    "Cost",
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
