# SPDX-License-Identifier: Apache-2.0
"""The guard: whole plans are built and measured interleaved, and only the fastest ships.

Every plan runs in a process of its own; outputs are compared with TVM's. Test: test_guard.py.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm

from ..measure import Comparison, Contestant, Cost, compare
from ..measure.inputs import describe_inputs, random_tensor
from .guard_progress import OnStep

# Outputs may differ from TVM's by this share of the largest value (fp32, before any arg-max).
OUTPUT_TOLERANCE = 1e-4
# A simpler plan may ship although its median is this much longer than the best one's: on a noisy
# machine, intervals alone would let a much slower plan pass for equal.
_CLOSE = 1.01


@dataclasses.dataclass(frozen=True)
class GuardResult:
    """What each plan did, best first, and which one ships.

    ``libraries``: built library by plan name; a plan that failed to build has none.
    """

    comparisons: list[Comparison]
    winner: str
    libraries: Mapping[str, Any] = dataclasses.field(repr=False)

    def of(self, name: str) -> Comparison:
        """The comparison of one plan. KeyError for a name that took no part."""
        return {item.name: item for item in self.comparisons}[name]


def guard(
    plans: Mapping[str, tvm.IRModule],
    reference: str,
    build,
    *,
    rounds: int = 30,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> GuardResult:
    """Build and measure ``plans`` (name -> module for the host target), simplest first.

    ``build(module)`` returns a library of the graph executor; ``reference`` is the plan whose
    outputs are right; ``on_step`` is told of each plan to build and of each round. Raises
    RuntimeError when no plan ran.
    """
    on_step = on_step or (lambda text, done, total: None)
    steps = len(plans) + rounds
    libraries, failures = _build_all(
        plans, build, lambda name, done: on_step(f"building plan {name}", done, steps)
    )
    comparisons = []
    if libraries:
        with tempfile.TemporaryDirectory(prefix="collage-guard-") as folder:
            inputs = _write_inputs(plans[reference], os.path.join(folder, "inputs.npz"), seed)
            contestants = []
            for index, (name, library) in enumerate(libraries.items()):
                path = os.path.join(folder, f"plan_{index}.so")
                library.export_library(path)
                contestants.append(Contestant.of_library(name, path, inputs))
            comparisons = compare(
                contestants,
                reference if reference in libraries else None,
                rounds,
                OUTPUT_TOLERANCE,
                seed=seed,
                on_round=lambda done, _: on_step("measuring", len(plans) + done, steps),
            )
    comparisons = [*comparisons, *failures]
    return GuardResult(comparisons, choose(comparisons, list(plans)), libraries)


def choose(comparisons: list[Comparison], simplest_first: list[str]) -> str:
    """The plan to ship: the simplest of those that the best one beats by 1 % at most, within noise.

    RuntimeError, with each plan's reason, when none ran.
    """
    usable = {item.name: item for item in comparisons if item.cost.is_usable}
    for name in simplest_first:
        if name in usable and _is_as_good(usable[name].ratio_to_best):
            return name
    reasons = "; ".join(f"{item.name}: {item.cost.Summary()}" for item in comparisons)
    raise RuntimeError(f"no plan of the model could be built and run ({reasons})")


def _is_as_good(ratio_to_best):
    return ratio_to_best.low <= 1.0 and ratio_to_best.value <= _CLOSE


def _build_all(plans, build, on_plan):
    """Libraries by plan, and a failed comparison for each plan that does not build."""
    libraries, failures = {}, []
    for done, (name, module) in enumerate(plans.items()):
        on_plan(name, done)
        try:
            libraries[name] = build(module)
        except Exception as error:  # noqa: BLE001 - a plan that does not build loses, no more
            text = str(error).strip().splitlines()[-1] if str(error).strip() else repr(error)
            failures.append(Comparison(name, Cost.failed("compile_failed", text)))
    return libraries, failures


def _write_inputs(mod, path, seed):
    """Normal random inputs of the module's main in an .npz file; returns its path."""
    generator = np.random.default_rng(seed)
    np.savez(path, **{row["name"]: random_tensor(row, generator) for row in describe_inputs(mod)})
    return path
