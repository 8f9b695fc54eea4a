# SPDX-License-Identifier: Apache-2.0
"""Results by decisions that were made before: of a placement that the user gives, and of an earlier
compile of the same model, which the store keeps.

What decides that it is the same is store.DecisionKey. An earlier decision is kept, and so
used again, only where a later compile could not do better: a guard chose it on a machine that was
not busy, and no limit of time cut it. Why none served is told in the log (info).
Test: test_replays.py. Docs: docs/store.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from typing import Any

from .compile import executor_of
from .errors import CollageError, FileError
from .exec.spent import phase
from .files.kinds import is_report
from .files.text import json_text, parse_json
from .plans.decision_key import decision_key
from .plans.original import Agreement, Original
from .plans.placement import Placement, SeenPlans
from .plans.placement.replay import apply_placement, check_placement
from .plans.request import Request
from .plans.whole_file import replayed_original
from .report import Report, doubt, read_report
from .report.facts import time_text_of
from .result import Result
from .store import Decisions, StoredDecision, StoreError, opened
from .store.row import now

_logger = logging.getLogger(__name__)

_NO_STORE = "there is no store"
_NEVER = "it was never compiled, or no decision for it was kept"


def replay(request: Request, placement: Placement, why: str) -> Result:
    """Return what a placement says, without measuring; `why` is told in place of figures."""
    host, external = request.targets.host, request.targets.backends
    with request.clock.phase("replay"), request.records.in_force():
        allow = request.options.placement_allow
        if placement.original:
            check_placement(request.prepared, placement, host, external=external, allow=allow)
            mod = replayed_original(request, placement)
        else:
            mod = apply_placement(request.prepared, placement, host, external=external, allow=allow)
    return Result(
        mod,
        host,
        placement.plan,
        guard=None,
        partitioned=[],
        seconds=request.clock.seconds,
        guard_skipped=why,
        makers={placement.plan: lambda: placement},
        records=request.records,
        kernels=placement.kernels,
        executor=executor_of(request.build_options, mod),
        original=request.original.agreement if request.original else None,
    )


class EarlierDecisions:
    """The decisions of earlier compiles for one request, whose model's file is `original`."""

    def __init__(self, request: Request, original: Any) -> None:
        self._request, self._original = request, original
        with phase("store"):
            self._key = decision_key(request, original)

    def result(self) -> Result | None:
        """Return what ships by the decision of an earlier compile, with its figures; None where
        none serves. StoreError for a store that the user named and that will not do."""
        with phase("store"):
            found = self._find()
        if isinstance(found, StoredDecision):
            try:
                return self._replayed(found)
            except CollageError as error:
                found = str(error)
        _logger.info("no decision of an earlier compile is used: %s", found)
        return None

    def keep(self, result: Result, is_cut: bool) -> None:
        """Keep what was decided now, unless a later compile may do better; is_cut: whether a limit
        of time ended some of it early. A store that fails is no reason to fail."""
        if why := self._keep(result, is_cut):
            _logger.info("the decision is not kept for later compiles: %s", why)

    def _keep(self, result: Result, is_cut: bool) -> str:
        """Keep it; return why it is not, "" where it is."""
        key = self._key
        if isinstance(key, str):
            return key
        if why := _why_not_kept(result, is_cut):
            return why
        row = StoredDecision(key, json_text(result.report), now(), label=result.Summary())
        try:
            with opened(self._request.options.storing.file) as store:
                if store is None:
                    return _NO_STORE
                Decisions(store).put(row)
        except StoreError as error:
            return str(error)
        return ""

    def _find(self) -> StoredDecision | str:
        """Return the decision, or why there is none that serves."""
        options, key = self._request.options, self._key
        if isinstance(key, str):
            return key
        if not options.reuse_decision or options.retry_failed:
            return "the options ask to decide anew"
        with opened(options.storing.file) as store:
            if store is None:
                return _NO_STORE
            decisions = Decisions(store)
            try:
                row = decisions.get(key)
                nearest = None if row else decisions.nearest(key)
            except StoreError as error:
                return str(error)
        if row:
            return row
        return f"other {', '.join(key.differences(nearest.key))}" if nearest else _NEVER

    def _replayed(self, row: StoredDecision) -> Result:
        """Return the result of a decision. CollageError where it cannot be replayed."""
        report = _report_of(row)
        seen = report.placements or SeenPlans()
        request = dataclasses.replace(self._request, original=_judged(report, self._original))
        result = replay(
            request,
            seen.placement(report.plan),
            f"an earlier compile decided that ({time_text_of(row.decided_at)}), and the option "
            "reuse_decision, if off, has it decided anew",
        )
        makers = {name: functools.partial(seen.placement, name) for name in seen.names()}
        result = dataclasses.replace(result, makers=makers)
        return result.told_by(report, decided_at=row.decided_at)


def _report_of(row: StoredDecision) -> Report:
    """Return the report of the earlier compile. CollageError for what is none of this version."""
    value = None
    with contextlib.suppress(ValueError):
        value = parse_json(row.report)
    if not isinstance(value, dict) or not is_report(value):
        raise FileError("the report of the earlier compile is damaged")
    return read_report(value, "the report of the earlier compile")


def _judged(report: Report, model: Any) -> Original | None:
    """Return how outputs agreed with those of the model's file when that was decided: the file, the
    module and what ran both are the same."""
    found = report.original
    if found is None:
        return None
    return Original(Agreement(found.by, found.error, found.why), model=model)


def _why_not_kept(result: Result, is_cut: bool) -> str:
    """Return why a later compile may do better; "" where it may not."""
    if is_cut:
        return "a limit of time ended it early"
    if result.guard is None:
        return result.guard_skipped or "no plan was measured end to end"
    return result.record.unverified or doubt(result.record)
