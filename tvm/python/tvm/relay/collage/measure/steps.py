# SPDX-License-Identifier: Apache-2.0
"""Steps that workers take for a candidate, and what their replies say of its cost.

Test: measure/test_measured.py, measure/test_steps.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..backends.registry import has_own_threads, why_not_here
from ..candidate.candidate import CandidateModule
from ..costs.cost import Cost, CostStatus
from ..costs.failure import failed_cost
from ..exec.pool import Job
from ..exec.reply import Reply
from ..exec.resolve import call_of, path_of
from ..relay_util.external import TVM_BACKEND
from .options import MeasureOptions
from .profiler.profile import Timing, measure_library


def build_job(options: MeasureOptions, candidate: CandidateModule, library: str) -> Job:
    arguments = _built(options, candidate, library=library, why_unavailable=path_of(why_not_here))
    if options.compiler:
        arguments["compiler"] = options.compiler
    return _call(options.build_step, arguments, options.build_timeout)


def reference_job(
    options: MeasureOptions, candidate: CandidateModule, file: str, exact: bool = False
) -> Job:
    """exact: what it should compute with 64 bits."""
    arguments = _built(options, candidate, file=file, exact=exact)
    return _call(options.reference_step, arguments, options.build_timeout)


def _built(options: MeasureOptions, candidate: CandidateModule, **more: Any) -> dict[str, Any]:
    """Return the arguments of a step that builds, or computes, the candidate."""
    made = {"candidate": candidate.to_json(), "builder": options.builder, "seed": options.seed}
    return {**made, **more}


def measure_job(
    options: MeasureOptions,
    candidate: CandidateModule,
    library: str,
    build: dict[str, Any] | None,
    tolerance: Sequence[float] | None,
) -> Job:
    """`tolerance` of the outputs beside the library's reference; None: there is none."""
    reference = None if tolerance is None else reference_of(library)
    timing = Timing(
        network_bytes=options.network_bytes,
        seed=options.seed,
        budget_seconds=options.budget_seconds,
        interval_width=options.interval_width,
        sample_seconds=options.sample_seconds,
        split_borders=candidate.backend == TVM_BACKEND,
        has_own_threads=has_own_threads(candidate.backend),
        why_unavailable=path_of(why_not_here),
    )
    arguments = {
        "library": library,
        "build": build,
        "reference": reference,
        "tolerance": tolerance,
        "timing": dataclasses.asdict(timing),
    }
    files = (library,) if reference is None else (library, reference)
    step = options.measure_step or path_of(measure_library)
    return _call(step, arguments, options.run_timeout, files=files)


def reference_of(library: str) -> str:
    """Return the file of what TVM computes, beside a candidate's library."""
    return f"{library}.npz"


def _call(
    function: str, arguments: dict[str, Any], seconds: float, files: tuple[str, ...] = ()
) -> Job:
    return Job("call", call_of(function, **arguments), seconds, files)


def cost_of(reply: Reply) -> Cost:
    """Return the cost that a measuring step's reply stands for."""
    if reply.outcome != "ok":
        return failed_cost(reply, "run", CostStatus.RUN_FAILED)
    try:
        return Cost.measured(reply.value["samples"], reply.value.get("border_seconds", 0.0))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return Cost.failed(CostStatus.RUN_FAILED, f"run: it answered no timings ({error!r})")


def with_doubt(cost: Cost, doubt: str) -> Cost:
    """`doubt`: why its outputs could not be compared, "" where they were or need not be."""
    if not doubt or not cost.is_usable:
        return cost
    return dataclasses.replace(cost, message=f"not verified: {doubt}", unverified=True)


def better(before: Cost | None, after: Cost) -> Cost:
    """Return the one of two measurements that others disturbed less, then the one known better; a
    failure stays one."""
    if before is None or not after.is_usable:
        return after
    return min(before, after, key=lambda cost: (cost.is_busy, cost.spread))
