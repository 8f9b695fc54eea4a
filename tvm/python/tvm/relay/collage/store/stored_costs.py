# SPDX-License-Identifier: Apache-2.0
"""A search's use of the store: look-ups before measuring, each cost kept as it is known.

Key: key.CostKey. A hit is a row with that key that was measured with as much care as is asked for
now; a miss's reason is counted in `miss_reasons`. Whatever happens to the file meanwhile, the
search goes on: costs that cannot be written wait for a later write.
Test: store/test_stored_costs.py.
"""

from __future__ import annotations

import collections
import logging
import time
from collections.abc import Callable, Sequence

from ..costs.cost import Cost, CostStatus
from ..exec.spent import phase
from ..measure.options import MeasureOptions
from ..measure.protocols import Stored
from .database import CostStore
from .errors import StoreError
from .key import CandidateKeys, CostKey, Environment, alone_text
from .row import StoredCost, now

_logger = logging.getLogger(__name__)

NEVER = "never measured"
LESS_CARE = "measured with less time"
RETRY = "failed or noisy, to retry"
MEASURED_BUSY = "measured on a busy machine, which is quiet now"
NO_VERSION = "its backend has no version"
OUT_OF_REACH = "store out of reach"
# After a fault the file is tried again when this has passed, and when the search ends.
REST_SECONDS = 60.0


class StoredCosts:
    """The store of `MeasuredCostEstimator(store=...)`.

    `version_of(backend name)` is the backend's version, None when it has none: then its costs are
    measured each time.
    """

    def __init__(
        self,
        store: CostStore,
        options: MeasureOptions,
        version_of: Callable[[str], str | None],
        *,
        retry_failed: bool = False,
        environment: Environment | None = None,
    ) -> None:
        self.miss_reasons: collections.Counter[str] = collections.Counter()
        self.known_failures = 0
        self._store, self._options = store, options
        self._retry_failed = retry_failed
        here = environment or Environment.here(options)
        self._keys = CandidateKeys(here, version_of, alone_text(options))
        self._waiting: dict[CostKey, StoredCost] = {}
        self._has_warned = False
        self._rest_until = 0.0
        if store.is_read_only:
            _logger.warning(
                "cost store %s is read-only: costs are looked up there, new ones are not kept",
                store.path,
            )

    def look_up(
        self, candidates: Sequence[Stored], is_quiet: Callable[[], bool] = lambda: False
    ) -> list[Cost | None]:
        """Return the cost of each candidate, None where it has to be measured.

        `is_quiet()`, asked where a cost came from a busy machine: whether it can be had better now.
        """
        with phase("store"):
            answers = [self._find(candidate, is_quiet) for candidate in candidates]
        for candidate, answer in zip(candidates, answers, strict=True):
            if isinstance(answer, str):
                self.miss_reasons[answer] += 1
                _logger.debug("%s is not in the store: %s", candidate.Summary(), answer)
            else:
                self.known_failures += answer.is_failure
        return [None if isinstance(answer, str) else answer for answer in answers]

    def keep(self, candidate: Stored, cost: Cost) -> None:
        """Commit a cost. Never raises: what cannot be written is written with a later one."""
        key = self._keys.of(candidate)
        if key is None or self._store.is_read_only:
            return
        allowed = (
            self._limit() if cost.status == CostStatus.TIMEOUT else self._options.budget_seconds
        )
        self._waiting[key] = StoredCost(
            key, cost, now(), label=candidate.label, allowed_seconds=allowed
        )
        if not self._is_resting:
            with phase("store"):
                self._write()

    def close(self) -> None:
        """Write what waits, or say what is not kept, and close the file."""
        if self._waiting and not self._write():
            _logger.error(
                "cost store %s: %d measured costs could not be kept and will be measured again",
                self._store.path,
                len(self._waiting),
            )
        self._store.close()

    def Summary(self) -> str:
        """Say why costs had to be measured: "missed 3: 2 never measured, 1 other threads"."""
        reasons = ", ".join(f"{n} {reason}" for reason, n in self.miss_reasons.most_common())
        text = f"missed {self.miss_reasons.total()}: {reasons}" if reasons else "missed none"
        return f"{text}; {self.known_failures} known failures" if self.known_failures else text

    def _find(self, candidate: Stored, is_quiet: Callable[[], bool]) -> Cost | str:
        """Return the stored cost, or why there is none that serves."""
        key = self._keys.of(candidate)
        if key is None:
            return NO_VERSION
        if self._is_resting:
            return OUT_OF_REACH
        try:
            row = self._store.get(key)
            if row is not None:
                return self._why_not(row, is_quiet) or row.cost
            nearest = self._store.nearest(key)
        except StoreError as error:
            self._rest(error)
            return OUT_OF_REACH
        if nearest is None:
            return NEVER
        return "other " + ", ".join(key.differences(nearest.key))

    def _why_not(self, row: StoredCost, is_quiet: Callable[[], bool]) -> str | None:
        """Return why a row with the right key is no answer, None when it is one."""
        if self._retry_failed and (row.cost.is_failure or row.cost.is_noisy):
            return RETRY
        if row.cost.is_busy and is_quiet():
            return MEASURED_BUSY
        if row.cost.status == CostStatus.TIMEOUT:
            return None if row.allowed_seconds >= self._limit() else LESS_CARE
        is_narrow = row.cost.spread <= self._options.interval_width
        is_enough = row.allowed_seconds >= self._options.budget_seconds
        return None if row.cost.is_failure or is_narrow or is_enough else LESS_CARE

    def _limit(self) -> float:
        return max(self._options.build_timeout, self._options.run_timeout)

    def _write(self) -> bool:
        """Write what waits; whether all of it is written."""
        try:
            for key, row in list(self._waiting.items()):
                self._store.put(row)
                del self._waiting[key]
        except StoreError as error:
            self._rest(error)
            return False
        return True

    @property
    def _is_resting(self) -> bool:
        return time.monotonic() < self._rest_until

    def _rest(self, error: StoreError) -> None:
        """Leave the file alone for a while: to ask may take as long as another process holds it."""
        self._rest_until = time.monotonic() + REST_SECONDS
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("%s; the search goes on, costs are kept in memory meanwhile", error)
