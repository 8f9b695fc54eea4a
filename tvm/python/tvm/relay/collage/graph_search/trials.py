# SPDX-License-Identifier: Apache-2.0
"""Whole plans built and measured a batch at a time, always beside the same plan.

What a plan takes is its ratio to that plan, round by round, times what that plan took at first: so
plans of different batches, and of a search that was killed and goes on, compare.
Test: graph_search/test_trials.py.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tvm

from ..backends import accuracy
from ..costs.cost import Cost, CostStatus
from ..costs.tolerance import output_tolerance
from ..exec.arrays import save_arrays
from ..exec.launch import make_scratch
from ..exec.machine_fault import machine_errors
from ..machine.compiler import require_compiler
from ..machine.cpu_lock import cpus_for_building
from ..progress import OnStep
from ..timing.comparison import Comparison, compare, paired_ratio
from ..timing.interleave import Contestant
from .libraries import GuardUnavailable, build_all, check_functions, link_all, make_inputs

# Enough for an interval; the guard measures the best again, with more.
_ROUNDS = 8
# A plan this many times slower than the best of its batch need not take all of them.
_GIVE_UP_RATIO = 1.3
_REFERENCE = "the plan of the search by operators"


class PlanTrials:
    """Measures plans beside `reference`; `open_trials` makes one.

    base: seconds that the reference takes, 0 until it was first measured.
    """

    def __init__(
        self,
        reference: tvm.IRModule,
        build: Callable[[tvm.IRModule], Any],
        folder: str,
        inputs_file: str,
        *,
        base: float = 0.0,
        seed: int = 0,
        accuracy_budget: float = 0.0,
        imports: Sequence[str] = (),
        mod_name: str = "default",
        compiler: str = "",
        comparer: Callable[..., list[Comparison]] | None = None,
        on_step: OnStep | None = None,
    ) -> None:
        self.base = base
        self._reference, self._build, self._folder = reference, build, folder
        self._inputs_file, self._seed, self._budget = inputs_file, seed, accuracy_budget
        self._imports, self._mod_name, self._compiler = imports, mod_name, compiler
        self._compare = comparer or compare
        self._on_step = on_step or (lambda text, done, total: None)
        self._file = ""

    def measure(self, modules: Mapping[str, tvm.IRModule]) -> dict[str, Cost]:
        """What each module takes, or how it fails. GuardUnavailable when the reference fails."""
        on_wait = lambda text: self._on_step(text, 0, len(modules))  # noqa: E731
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            with cpus_for_building(on_wait):
                self._link_reference()
                built, failures = build_all(
                    modules,
                    self._build,
                    lambda name, done: self._on_step("building plans", done, len(modules)),
                )
                files, unlinked = link_all(built, folder, self._compiler)
            del built  # a model's weights take memory
            costs = {item.name: item.cost for item in (*failures, *unlinked)}
            plans = {_REFERENCE: self._reference, **{name: modules[name] for name in files}}
            tolerance = output_tolerance(self._reference)
            limits, traders = accuracy.limits(plans, self._budget, tolerance)
            if _REFERENCE in traders:  # what the others differ from is itself off
                limits = dict.fromkeys(plans, self._budget)
            self._on_step("measuring", len(modules), len(modules))
            found = self._compare(
                [
                    Contestant.of_library(name, file, self._inputs_file, mod_name=self._mod_name)
                    for name, file in {_REFERENCE: self._file, **files}.items()
                ],
                [_REFERENCE],
                _ROUNDS,
                limits,
                seed=self._seed,
                imports=self._imports,
                give_up_ratio=_GIVE_UP_RATIO,
                on_wait=on_wait,
            )
        return {**costs, **self._relative(found)}

    def _link_reference(self) -> None:
        """The reference's file, which serves all batches."""
        if self._file:
            return
        built, failures = build_all({_REFERENCE: self._reference}, self._build, lambda *_: None)
        files, unlinked = link_all(built, self._folder, self._compiler)
        for item in (*failures, *unlinked):
            raise GuardUnavailable(item.Summary())
        self._file = files[_REFERENCE]

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
                cost = Cost(CostStatus.MEASURED, ratio.value * self.base, low, high, cost.rounds)
            costs[item.name] = cost
        return costs


@contextlib.contextmanager
def open_trials(
    reference: tvm.IRModule,
    build: Callable[[tvm.IRModule], Any],
    samples: Mapping[str, np.ndarray] | None = None,
    **options: Any,
) -> Iterator[PlanTrials]:
    """PlanTrials beside `reference`, a module for the host target, with files for the block.

    Further arguments are `guard`'s of these names: build, samples, seed, accuracy_budget, imports,
    mod_name, compiler, comparer, on_step. GuardUnavailable where whole plans cannot be measured.
    """
    check_functions(reference)
    inputs = make_inputs(reference, options.get("seed", 0), samples)
    if not options.get("compiler"):
        require_compiler()
    with make_scratch() as folder:
        inputs_file = os.path.join(folder, "inputs.npz")
        with machine_errors("the inputs of whole plans cannot be written"):
            save_arrays(inputs_file, inputs)
        yield PlanTrials(reference, build, folder, inputs_file, **options)
