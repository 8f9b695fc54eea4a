# SPDX-License-Identifier: Apache-2.0
"""Whole plans built and measured a batch at a time, always beside the same plan.

What a plan takes is its ratio to that plan, round by round, times what that plan took at first: so
plans of different batches, and of a search that was killed and goes on, compare.
Test: plans/graph_search/test_trials.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import tvm

from ...backends import accuracy
from ...costs.cost import Cost
from ...exec.pool import SpareWorkers
from ...machine.cpu_lock import OnWait, cpus_for_building
from ...measure.race.comparison import Comparison, paired_ratio
from ...measure.race.race import RaceOptions
from ...measure.race.rounds import EarlyEnd
from .libraries import EndToEnd, GuardUnavailable, Linked, Scratch

# The fewest rounds for an interval, of one timed run each; the guard measures the best again, with
# more.
_ROUNDS, _RUNS = 6, 1
# A plan that took this many times what the best of its batch did, each time, leaves after so many.
_EARLY_END = EarlyEnd(3, 1.25)
_REFERENCE = "the op-level plan"


class PlanTrials:
    """Measures plans beside `reference`; `open_trials` makes one.

    base: seconds that the reference takes, 0 until it was first measured. spares: processes that
    serve all batches, where this machine measures.
    """

    def __init__(
        self,
        reference: tvm.IRModule,
        how: EndToEnd,
        scratch: Scratch,
        base: float,
        spares: SpareWorkers | None = None,
    ) -> None:
        self.base = base
        self._reference, self._how, self._scratch = reference, how, scratch
        self._spares = spares
        self._file: Linked | None = None

    def measure(
        self, modules: Mapping[str, tvm.IRModule], on_wait: OnWait | None = None
    ) -> dict[str, Cost]:
        """Measure what each module takes, or how it fails; `on_wait` is told of waiting for the
        CPUs. GuardUnavailable when the reference fails."""
        with tempfile.TemporaryDirectory(dir=self._scratch.folder) as folder:
            with cpus_for_building(on_wait):
                reference = self._link_reference()
                # Libraries are let go at once: a model's weights take memory.
                files, failures = self._how.make_files(modules, folder, may_fork=False)[:2]
            plans = {_REFERENCE: self._reference, **{name: modules[name] for name in files}}
            budget, tolerance = self._how.accuracy_budget, self._how.tolerance(self._reference)
            limits, traders = accuracy.limits(plans, budget, tolerance)
            if _REFERENCE in traders:  # what the others differ from is itself off
                limits = dict.fromkeys(plans, budget)
            found = self._how.compare(
                {_REFERENCE: reference, **files},
                self._scratch,
                [_REFERENCE],
                limits,
                RaceOptions(
                    rounds=_ROUNDS,
                    runs=_RUNS,
                    early_end=_EARLY_END,
                    stays=[_REFERENCE],
                    on_wait=on_wait,
                    spares=self._spares,
                ),
                trusted=_REFERENCE,
            )
        return {**{item.name: item.cost for item in failures}, **self._relative(found)}

    def _link_reference(self) -> Linked:
        """Return the reference's file, which serves all batches."""
        if self._file is None:
            files, failures, _ = self._how.make_files(
                {_REFERENCE: self._reference}, self._scratch.folder, may_fork=False
            )
            for item in failures:
                raise GuardUnavailable(item.Summary())
            self._file = files[_REFERENCE]
        return self._file

    def _relative(self, found: Sequence[Comparison]) -> dict[str, Cost]:
        [beside] = [item for item in found if item.name == _REFERENCE]
        if not beside.cost.is_usable:
            raise GuardUnavailable(beside.Summary())
        self.base = self.base or beside.cost.seconds or 0.0
        costs = {}
        for item in found:
            if item is beside:
                continue
            cost = item.cost
            if cost.is_usable:
                ratio = paired_ratio(item.samples, beside.samples)
                bounds = [ratio.low, ratio.high] if ratio.is_bounded else [None, None]
                low, high = (value and value * self.base for value in bounds)
                seconds = ratio.value * self.base
                # What others took of the CPUs stays with it.
                cost = dataclasses.replace(cost, seconds=seconds, low=low, high=high, median=None)
            costs[item.name] = cost
        return costs


@contextlib.contextmanager
def open_trials(reference: tvm.IRModule, how: EndToEnd, base: float = 0.0) -> Iterator[PlanTrials]:
    """PlanTrials beside `reference`, a module for the host target, with files for the block; what
    `how.opened` raises."""
    with how.opened(reference) as scratch, SpareWorkers() as spares:
        yield PlanTrials(reference, how, scratch, base=base, spares=spares if how.is_here else None)
