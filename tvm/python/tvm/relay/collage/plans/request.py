# SPDX-License-Identifier: Apache-2.0
"""The records that the phases of one `optimize` read and hand on. Test: test_optimizer.py."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import Any

import tvm

from ..backends.accuracy import traders_in
from ..backends.targets import TargetList
from ..costs.cost import CostStatus
from ..estimators.profiles import Profiles
from ..exec.spent import phase
from ..exec.time_limit import NO_LIMIT, TimeLimit
from ..options import CollageOptions
from ..tuning import TuningRecords
from ..views.function_report import FunctionReport
from .competing import Plans
from .graph_search.space import Replans
from .original import Original

# Of one run: up to that waking threads may take more than it saves.
SMALL_SECONDS = 2e-3


class Phases:
    """Seconds by phase, without those of other phases inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._told = 0.0  # seconds of all phases that have ended

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began, told = time.perf_counter(), self._told
        try:
            with phase(name):
                yield
        finally:
            spent = time.perf_counter() - began - (self._told - told)
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
            self._told += spent


@dataclasses.dataclass(frozen=True)
class Request:
    """The input of all phases of one call: a module to place, and how it is to be built."""

    prepared: tvm.IRModule
    targets: TargetList
    options: CollageOptions
    build_options: dict[str, Any]
    samples: Mapping[str, Any]  # inputs by name
    executor: str
    records: TuningRecords  # the tuning records that the user gave
    plans: Plans  # those that compete, to which the phases add
    clock: Phases  # where the phases write their seconds
    limit: TimeLimit = NO_LIMIT  # by when the phases have to end
    # how the module agrees with the model's file, None where none was named
    original: Original | None = None
    folder: str = ""  # for files that several phases read; "" before there are any


@dataclasses.dataclass(frozen=True)
class OpLevel:
    """The outcome of the op-level search."""

    partitioned: tvm.IRModule  # the module with its parts
    records: TuningRecords  # those that the user gave, and those that tuning found
    reports: list[FunctionReport] = dataclasses.field(default_factory=list)
    replans: Replans = dataclasses.field(default_factory=dict)
    counts: dict[str, Any] = dataclasses.field(default_factory=dict)
    # how many trials of other kernels' schedules came to what
    transfers: Mapping[str, int] = dataclasses.field(default_factory=dict)
    profiles: Profiles | None = None  # by which costs were foreseen
    is_cut: bool = False  # whether the limit of time ended it before all was asked

    def is_beaten(self) -> bool:
        """Return whether the search ended since no plan of it can beat the first answer: then parts
        of its plan were never measured, and it competes with none."""
        searched = [report for report in self.reports if not report.skipped]
        return bool(searched) and all(report.is_beaten for report in searched)

    def is_small(self) -> bool:
        """Return whether it may spend more time on waking threads than they save."""
        return 0 < sum(report.seconds for report in self.reports) < SMALL_SECONDS

    def ships_unmeasured(self) -> bool:
        """Return whether it may ship though nobody ran it whole: each of its parts was measured,
        and none trades accuracy, since nobody compared what comes of it."""
        parts = [part for report in self.reports for part in report.parts if part.is_kernel]
        is_measured = all(part.cost.status == CostStatus.MEASURED for part in parts)
        return is_measured and not traders_in(self.partitioned)
