# SPDX-License-Identifier: Apache-2.0
"""A candidate as the pass gives it, and what of it goes to workers as text, so that they build what
this process would. Test: estimators/test_session.py, candidate/test_pass_context.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tvm
from tvm.target import Target

from ..backends import find_backend
from ..backends.accuracy import trades_accuracy, with_kept_calls
from ..candidate.candidate import CandidateModule, deployable_module, deployed_candidate
from ..candidate.pass_context import context_to_json
from ..costs.kernel import with_kernels
from ..exec.reply import Unsupported
from ..messages.foreign import describe
from ..process_wide.logs import warn_once
from ..relay_util.external import backend_of, is_external
from ..tuning import TuningRecords, records_in_force
from ..tuning.run import TuningRun
from .session import Session


class Row:
    """A candidate as the pass gives it."""

    def __init__(self, mod: tvm.IRModule, target: Target, label: str) -> None:
        self.mod, self.target, self.label = mod, target, label
        self.external = is_external(target)
        self.backend = backend_of(target)
        # As deployed: TVM sees the host target alone.
        self.build_target = str(target.host if self.external or target.host else target)


def written_down(
    session: Session,
    row: Row,
    keywords: dict[str, Any],
    records_for: Callable[[str], TuningRecords],
) -> CandidateModule | str:
    """Return a row's CandidateModule, or why it cannot be one. `records_for`: those of a target."""
    verify = session.options.measuring.verify
    try:
        mod = with_kept_calls(deployable_module(row.mod))
        candidate = deployed_candidate(
            with_kernels(mod, session.kernels(row.backend)) if row.external else mod,
            row.backend,
            row.build_target,
            build_options=keywords,
            label=row.label,
            tuning=records_for(row.build_target),
        )
        return dataclasses.replace(
            candidate,
            verify=verify == "all" or (row.external and _is_verified(row.backend, verify)),
            computes_in=trades_accuracy(row.target) if row.external else "",
        )
    except (Unsupported, ValueError, tvm.TVMError) as error:
        return f"{row.label}: {describe(error)}"


def build_options() -> dict[str, Any]:
    """Return the keywords for a worker's build, so that it builds what the current PassContext
    would."""
    context = tvm.transform.PassContext.current()
    fields, left_out = context_to_json(context)
    for name in left_out:
        warn_once(
            f"the PassContext's {name} holds code, which cannot go to worker processes: candidates "
            "are measured without it"
        )
    return {"opt_level": context.opt_level, **({"pass_context": fields} if fields else {})}


def tuning_records(target: str, run: TuningRun | None = None) -> TuningRecords:
    """Return the tuning records that a build for the target would use, and what a search's tuning
    has found, for workers."""
    records, left_out = records_in_force(target)
    for name in left_out:
        warn_once(
            f"{name} does not show its records, which therefore cannot go to worker processes: "
            "candidates are measured without them (autotvm's and auto_scheduler's ApplyHistoryBest "
            "and a MetaSchedule JSONDatabase or MemoryDatabase do show them)"
        )
    if run is None or str(run.target) != str(target):
        return records
    return type(records)([*records, *run.records])


def _is_verified(backend: str, mode: str) -> bool:
    """Return whether an external backend's outputs are compared; one that can be wrong says so
    itself, and no option helps it."""
    found = find_backend(backend)
    return mode != "none" or (found is not None and found.can_be_wrong)
