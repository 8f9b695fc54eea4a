# SPDX-License-Identifier: Apache-2.0
"""Graph-level search: whole plans of a module, tried end to end, of which the best join the guard.

It asks Search (genomes.py) for genomes, makes plans of them (space.py), has them measured (what the
caller gives: trials.py) and tells. What a plan took is kept in the store, beside the costs of
candidates, as it is known, so a search that was killed goes on where it was. The same seed, store
and trials give the same search.

Key in the store: the module without the values of weights, the plan's parts, and all that its build
depends on: host target, options, tuning records, kernels, versions of backends, the plan beside
which it was measured, samples and accuracy budget. Machine and TVM are in the key of every row.
Test: plans/graph_search/test_search.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from ...costs.cost import Cost, CostStatus
from ...options import GraphSearchOptions
from ...relay_util.external import WHOLE_PLAN
from ...store import StoredCosts
from .genomes import Genome, Search
from .libraries import GuardUnavailable
from .space import Parts, PlanSpace

# So many times in a row only plans that are known already: the search ends.
_MOST_REPEATS = 50


@dataclasses.dataclass(frozen=True)
class PlanRow:
    """A plan, as the store keeps its cost: it stands where a candidate would."""

    hash: str
    label: str
    target: str
    options: str

    backend = WHOLE_PLAN
    needs_caches = False  # all that its network touches is its own

    def options_text(self) -> str:
        return self.options

    def Summary(self) -> str:
        """Return one line for logs."""
        return f"plan {self.hash[:8]} of {self.label}"


class KnownPlans:
    """The times of plans of one module, by the keys of PlanSpace; without a store it knows none.

    module: what tells the module from others. options: what its builds depend on. is_quiet: asked
    where a plan was measured beside other programs, which serves only while there are such.
    """

    def __init__(
        self,
        store: StoredCosts | None,
        module: str,
        target: str,
        options: Mapping[str, Any],
        is_quiet: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store, self._module, self._target = store, module, target
        self._is_quiet = is_quiet
        self._options = json.dumps(options, sort_keys=True)

    def look_up(self, key: str) -> Cost | None:
        """Return the cost of a plan, None where it has to be measured."""
        if self._store is None:
            return None
        return self._store.look_up([self._row(key, "")], self._is_quiet)[0]

    def keep(self, key: str, label: str, cost: Cost) -> None:
        """Commit a cost, unless it is the machine's fault, or a wrong result: that depends on the
        values of weights as well."""
        unkept = (CostStatus.MACHINE_FAULT, CostStatus.WRONG_RESULT)
        if self._store and cost.status not in unkept:
            self._store.keep(self._row(key, label), cost)

    def _row(self, key: str, label: str) -> PlanRow:
        text = f"{self._module} {key}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return PlanRow(digest, label, self._target, options=self._options)


@dataclasses.dataclass(frozen=True)
class PlanTrial:
    """A plan that was tried."""

    name: str  # "trial-1" for the first
    key: str  # of its parts
    label: str  # its parts by backend
    cost: Cost  # what it took, or how it failed
    seconds: float  # since the search began
    best_seconds: float | None  # what the best plan so far takes, None before one ran
    is_stored: bool  # whether an earlier search measured it


@dataclasses.dataclass(frozen=True)
class GraphSearch:
    """The record of a search of whole plans."""

    strategy: str
    genes: int = 0  # groups of operators that it chose for
    trials: tuple[PlanTrial, ...] = ()
    base: float | None = None  # what the op-level plan takes, which all were measured beside
    ended: str = ""  # why it stopped
    # parts by function of the best plans that ran, by their keys, the best first
    best: Mapping[str, Parts] = dataclasses.field(default_factory=dict, repr=False)

    def placed(self) -> dict[str, Parts]:
        """Return the parts by function of the plans that ran, by the names of their trials."""
        return {trial.name: self.best[trial.key] for trial in self.trials if trial.key in self.best}

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values: `trials` in the order in which they were tried; times in
        seconds."""
        return {
            "strategy": self.strategy,
            "genes": self.genes,
            "op_level_seconds": self.base,
            "ended": self.ended,
            "trials": [
                {
                    "name": trial.name,
                    "plan": trial.label,
                    "status": trial.cost.status,
                    "seconds": trial.cost.seconds,
                    "message": trial.cost.message,
                    "flags": list(trial.cost.flags),
                    "after_seconds": trial.seconds,
                    "best_seconds": trial.best_seconds,
                    "is_stored": trial.is_stored,
                }
                for trial in self.trials
            ],
        }


def search_plans(
    space: PlanSpace,
    measure: Callable[[Mapping[str, Parts]], Mapping[str, Cost]],
    known: KnownPlans,
    options: GraphSearchOptions,
    *,
    clock: Callable[[], float] = time.monotonic,
    on_trials: Callable[[int], None] | None = None,
) -> GraphSearch:
    """Try plans as the options say.

    `measure` answers for plans by key. The first seed of the space is the plan that the others are
    measured beside; of it the answer is what it takes. GuardUnavailable where even the first plans
    cannot be measured; what was found before stands.
    """
    began = clock()
    search = Search(
        space.choices,
        space.seeds(),
        options.strategy,
        population=options.population,
        seed=options.seed,
    )
    costs: dict[str, Cost] = {}
    parts_of: dict[str, Parts] = {}
    history: list[PlanTrial] = []

    def is_over() -> bool:
        return clock() - began >= options.seconds

    def next_plans(count: int) -> dict[str, list[Genome]]:
        """Genomes of plans that are new, by key; those of known plans are told at once."""
        found: dict[str, list[Genome]] = {}
        for _ in range(_MOST_REPEATS):
            genomes = search.ask(count - len(found))
            for genome in genomes:
                parts = space.parts_of(genome)
                key = space.key_of(parts)
                if key in costs:
                    search.tell({genome: costs[key].seconds})
                else:
                    parts_of[key] = parts
                    found.setdefault(key, []).append(genome)
            if not genomes or len(found) >= count or is_over():
                break
        return found

    ended = "all trials were made"
    while len(history) < options.trials:
        if is_over():
            ended = "its time was over"
            break
        batch = next_plans(min(options.population, options.trials - len(history)))
        if not batch:
            ended = "its time was over" if is_over() else "it found no other plan"
            break
        stored = {key: cost for key in batch if (cost := known.look_up(key)) is not None}
        new = {key: parts_of[key] for key in batch if key not in stored}
        try:
            measured = measure(new) if new else {}
        except GuardUnavailable as error:
            if not history:
                raise
            ended = f"whole plans could no longer be measured: {error}"
            break
        for key, genomes in batch.items():
            cost = costs[key] = stored.get(key) or measured[key]
            label = space.label_of(parts_of[key])
            if key in measured:
                known.keep(key, label, cost)
            search.tell(dict.fromkeys(genomes, cost.seconds))
            best = min((c.seconds for c in costs.values() if c.seconds is not None), default=None)
            name = f"trial-{len(history) + 1}"
            history.append(
                PlanTrial(
                    name,
                    key,
                    label,
                    cost=cost,
                    seconds=clock() - began,
                    best_seconds=best,
                    is_stored=key in stored,
                )
            )
        if on_trials is not None:
            on_trials(len(history))
    ran = {key: cost.seconds for key, cost in costs.items() if cost.seconds is not None}
    order = sorted(ran, key=lambda key: ran[key])
    base = history[0].cost.seconds if history else None
    return GraphSearch(
        options.strategy,
        len(space.genes),
        tuple(history),
        base=base,
        ended=ended,
        best={k: parts_of[k] for k in order},
    )
