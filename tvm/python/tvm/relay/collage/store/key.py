# SPDX-License-Identifier: Apache-2.0
"""The store's key: all that decides what a candidate costs. Test: store/test_key.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..costs.protocols import Stored
from .environment import Environment


class CostKey(NamedTuple):
    """What must be equal for a cost to be used again; meanings in schema.CREATE."""

    candidate: str
    backend: str
    backend_version: str
    target: str
    device: str
    cpu: str
    threads: str
    options: str
    tvm: str
    measuring: str

    def differences(self, other: CostKey) -> list[str]:
        """Names of the parts that differ."""
        return [name for name in self._fields if getattr(self, name) != getattr(other, name)]


class CandidateKeys:
    """Keys of one search's candidates.

    `version_of(backend name)` is the backend's version, None when it has none.
    """

    def __init__(self, environment: Environment, version_of: Callable[[str], str | None]) -> None:
        self._environment, self._version_of = environment, version_of
        self._versions: dict[str, str | None] = {}

    def of(self, candidate: Stored) -> CostKey | None:
        """None for a backend without a version: its costs could outlive the code that they were
        measured with, so they are neither looked up nor kept."""
        backend = candidate.backend
        if backend not in self._versions:
            self._versions[backend] = self._version_of(backend)
        version = self._versions[backend]
        if version is None:
            return None
        return CostKey(
            candidate=candidate.hash,
            backend=backend,
            backend_version=version,
            target=candidate.target,
            options=candidate.options_text(),
            **self._environment._asdict(),
        )
