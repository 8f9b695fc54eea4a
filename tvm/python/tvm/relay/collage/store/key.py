# SPDX-License-Identifier: Apache-2.0
"""The store's key: all that decides what a candidate costs, of the candidate, its backend, the
machine, this installation and the way of measuring. Test: store/test_key.py.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import NamedTuple

from tvm_collage.words import CostKey

from ..backends import find_backend
from ..machine.environment import cpu_model, thread_text, tvm_build
from ..measure.options import MEASURING_VERSION, MeasureOptions
from ..measure.protocols import Stored
from ..process_wide.logs import warn_once
from ..relay_util.external import TRANSITION, TVM_BACKEND, WHOLE_PLAN

# Options of measuring that change what is measured. How long it takes is a row's allowed_seconds,
# since a careful measurement also serves who asks for less. imports are none: what those modules
# register is told by its backend's name and version.
_DECISIVE = (
    "builder",
    "build_step",
    "reference_step",
    "measure_step",
    "seed",
    "memory_limit_bytes",
    "sample_seconds",
    "network_bytes",
)


class Environment(NamedTuple):
    """Key parts that are the same for all candidates of a search; meanings in schema.CREATE."""

    device: str
    cpu: str
    threads: str
    tvm: str
    measuring: str

    @classmethod
    def here(cls, options: MeasureOptions | None = None) -> Environment:
        """This machine, as the worker processes see it."""
        return cls.of_device(cpu_model(), thread_text(), options or _DEFAULTS)

    @classmethod
    def of_device(cls, cpu: str, threads: str, options: MeasureOptions) -> Environment:
        """Describe a device elsewhere, of this software, by what it says of itself."""
        return cls("cpu", cpu, threads, tvm_build(), measuring_text(options))


_DEFAULTS = MeasureOptions()


def measuring_text(options: MeasureOptions) -> str:
    """Describe the way of measuring: its version, then decisive options that are no defaults."""
    chosen = {
        name: getattr(options, name)
        for name in _DECISIVE
        if getattr(options, name) != getattr(_DEFAULTS, name)
    }
    text = str(MEASURING_VERSION)
    return f"{text} {json.dumps(chosen, sort_keys=True)}" if chosen else text


class CandidateKeys:
    """Keys of one search's candidates.

    `version_of(backend name)` is the backend's version, None when it has none. alone: the way of
    measuring what touches nothing but its inputs and outputs, which is the same in every network.
    """

    def __init__(
        self, environment: Environment, version_of: Callable[[str], str | None], alone: str
    ) -> None:
        self._environment, self._version_of = environment, version_of
        self._alone = environment._replace(measuring=alone)
        self._versions: dict[str, str | None] = {}

    def of(self, candidate: Stored) -> CostKey | None:
        """Return the key; None for a backend without a version: its costs could outlive the code
        that they were measured with, so they are neither looked up nor kept."""
        backend = candidate.backend
        if backend not in self._versions:
            self._versions[backend] = self._version_of(backend)
        version = self._versions[backend]
        if version is None:
            return None
        environment = self._environment if candidate.needs_caches else self._alone
        return CostKey(
            candidate=candidate.hash,
            backend=backend,
            backend_version=version,
            target=candidate.target,
            options=candidate.options_text(),
            **environment._asdict(),
        )


def default_text(measuring: str) -> str:
    """Describe the way of measuring by default, in the network that a row was measured for."""
    chosen = measuring.partition(" ")[2]
    try:
        network_bytes = json.loads(chosen or "{}").get("network_bytes", _DEFAULTS.network_bytes)
        return measuring_text(dataclasses.replace(_DEFAULTS, network_bytes=network_bytes))
    except (ValueError, TypeError, AttributeError):
        return measuring_text(_DEFAULTS)  # of another version, which no search here can use


def alone_text(options: MeasureOptions) -> str:
    """Describe the way of measuring what touches nothing but its inputs and outputs."""
    return measuring_text(dataclasses.replace(options, network_bytes=_DEFAULTS.network_bytes))


def stored_version(backend: str) -> str | None:
    """Return the version that keys a backend's stored costs; None when they cannot be stored.

    TVM's own candidates are keyed by TVM's build; a whole plan says itself whose versions it has.
    """
    if backend in (TVM_BACKEND, TRANSITION, WHOLE_PLAN):
        return ""
    found = find_backend(backend)
    # What is defined in a script fails in workers: true now, wrong once it has a module of its own.
    if found is None or type(found).__module__ == "__main__":
        return None
    try:
        return found.version() or None
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a backend's own code; it costs its rows alone
        warn_once(f"backend {backend!r} has no version, so its costs are not stored: {error}")
        return None
