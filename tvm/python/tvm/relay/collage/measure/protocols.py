# SPDX-License-Identifier: Apache-2.0
"""The two sides of measuring: who asks for costs, and who keeps them.

Test: measure/test_measured.py, store/test_stored_costs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..candidate.candidate import CandidateModule
from ..costs.cost import Cost


class Stored(Protocol):
    """A thing whose costs are kept: a CandidateModule, a KernelTrial, a whole plan."""

    @property
    def backend(self) -> str: ...
    @property
    def hash(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def needs_caches(self) -> bool:
        """Return whether what its network touches between two runs of it decides what it costs."""
        ...

    def options_text(self) -> str: ...
    def Summary(self) -> str: ...


class BatchEstimator(Protocol):
    """Whatever answers a cost for each candidate of a batch, in order."""

    def estimate(self, candidates: Sequence[CandidateModule]) -> list[Cost]: ...


class KeptCosts(Protocol):
    """Costs that outlive the estimator: store.StoredCosts."""

    def look_up(
        self, candidates: Sequence[Stored], is_quiet: Callable[[], bool]
    ) -> list[Cost | None]: ...

    def keep(self, candidate: Stored, cost: Cost) -> None: ...

    def close(self) -> None: ...

    def Summary(self) -> str: ...
