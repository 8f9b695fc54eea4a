# SPDX-License-Identifier: Apache-2.0
"""What of the machine, of this installation and of the way of measuring decides a cost: parts of a
store's key. Test: store/test_key.py.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from ..costs.options import MEASURING_VERSION, MeasureOptions
from ..machine.environment import cpu_model, thread_text, tvm_build

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
        return cls(
            "cpu", cpu_model(), thread_text(), tvm_build(), measuring_text(options or _DEFAULTS)
        )

    @classmethod
    def of_device(cls, cpu: str, threads: str, options: MeasureOptions) -> Environment:
        """A device elsewhere, of this software: what it says of itself, in the words of here."""
        return cls("cpu", cpu, threads, tvm_build(), measuring_text(options))


_DEFAULTS = MeasureOptions()


def measuring_text(options: MeasureOptions) -> str:
    """The way of measuring: its version, then decisive options that are not at their defaults."""
    chosen = {
        name: getattr(options, name)
        for name in _DECISIVE
        if getattr(options, name) != getattr(_DEFAULTS, name)
    }
    text = str(MEASURING_VERSION)
    return f"{text} {json.dumps(chosen, sort_keys=True)}" if chosen else text
