# SPDX-License-Identifier: Apache-2.0
"""The decision which plan ships, given what each did: the fastest, or a simpler one that it does
not beat.

A plan's samples are paired by round with the best one's, so a slow spell that hit both cancels out.

| against each other plan                        | verdict |
|---|---|
| surely slower (99.99 %), and by more than 1 %  | slower  |
| surely (95 %) at most 2 % slower               | as good |
| at most 1 % slower, in 15 rounds or more       | as good |
| anything else                                  | open    |

While a plan is open that would ship if it were as good, there are more rounds. When these end, an
open plan counts as good up to 2 %. Rounds that only tell plans apart within 1 % would cost more
than that is worth, so the third row ends them: the simplest ships.

Assumptions. Rounds are independent draws; a process keeps what it drew at its start (addresses of
its memory), so equal plans differ by up to 1 % however often they run. The verdict "slower" takes
the higher confidence since one of several plans, looked at several times, gives it by chance more
often than one looked at once. Docs: docs/measuring.md. Test: plans/graph_search/test_decide.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tvm

from ...costs.cost import Cost, CostStatus
from ...costs.statistics import fewest_samples
from ...errors import OptionError
from ...measure.race.comparison import Comparison, paired_ratio
from ...options.named import joined, option
from ...relay_util.external import is_external_function

# Less than this is no difference: what processes of one library differ by.
NO_DIFFERENCE = 1.01
# A plan whose ratio is above this never ships in the place of the best.
MOST_SLOWER = 1.02
_SURELY_SLOWER = 0.9999
_SURELY_CLOSE = 0.95
# The fewest rounds in which a plan can be surely slower, and the guard's first look at them.
ROUNDS_TO_TELL = fewest_samples(_SURELY_SLOWER)

SLOWER, AS_GOOD, OPEN = "slower", "as good", "open"


def verdict(plan: Sequence[float], best: Sequence[float]) -> str:
    """SLOWER, AS_GOOD or OPEN against the best plan or another, from the seconds of both in the
    rounds that both ran."""
    value, low, _ = paired_ratio(plan, best, _SURELY_SLOWER)
    if low > 1 and value > NO_DIFFERENCE:
        return SLOWER
    is_enough = min(len(plan), len(best)) >= ROUNDS_TO_TELL
    if is_enough and value <= NO_DIFFERENCE:
        return AS_GOOD
    return AS_GOOD if paired_ratio(plan, best, _SURELY_CLOSE).high <= MOST_SLOWER else OPEN


def may_ship(plan: Sequence[float], best: Sequence[float]) -> bool:
    """Return whether the plan may ship for being simpler, when there are no more rounds."""
    return verdict(plan, best) != SLOWER and paired_ratio(plan, best).value <= MOST_SLOWER


class Limits(NamedTuple):
    """Limits of what a plan that ships may take, in megabytes; 0 is no limit."""

    memory_mb: int = 0
    library_mb: int = 0

    def keep(self, comparisons: Sequence[Comparison]) -> list[Comparison]:
        """Return the comparisons, best first, of which those over a limit have failed.

        OptionError when plans ran and each of them is over one.
        """
        judged = [self._judged(item) for item in comparisons]
        kept = [item for item in judged if item.cost.is_usable]
        if not kept and any(item.cost.is_usable for item in comparisons):
            reasons = joined("; ", (f"{item.name}: " + item.cost.message for item in judged))
            raise OptionError(
                "no plan of the model is within its limits: " + reasons + "; raise them"
            )
        return kept + [item for item in judged if not item.cost.is_usable]

    def _judged(self, item: Comparison) -> Comparison:
        taken = (
            ("it takes {} MB of memory", item.memory_bytes, "guard_memory_mb", self.memory_mb),
            ("its library has {} MB", item.library_bytes, "guard_library_mb", self.library_mb),
        )
        texts = [
            f"{text.format(round(size / 1e6))}, more than " + option(name) + f" allows ({limit})"
            for text, size, name, limit in taken
            if limit and size > 1e6 * limit
        ]
        if not texts or not item.cost.is_usable:
            return item
        cost = Cost.failed(CostStatus.UNSUPPORTED, joined("; ", texts))
        return dataclasses.replace(item, cost=cost, ratio_to_best=None)


def in_question(samples: Mapping[str, Sequence[float]], simplest_first: Sequence[str]) -> list[str]:
    """Return plans that may yet ship and need more rounds to be told apart; [] when it is decided.

    Samples of plans that still run, all over the same rounds.
    """
    if not set(samples) <= set(simplest_first):
        raise ValueError(f"plans {sorted(samples)} are none of {list(simplest_first)}")
    slower = {name for name in samples if SLOWER in _verdicts(name, samples)}
    for name in simplest_first:
        if name in samples and name not in slower:
            if OPEN in _verdicts(name, samples):
                return [each for each in samples if each not in slower]
            return []  # it ships: every simpler one is slower
    return []


def _verdicts(name: str, samples: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the verdicts of a plan against each other one: which is the best may itself be
    noise."""
    return [verdict(samples[name], samples[other]) for other in samples if other != name]


def simplest_first(modules: Mapping[str, Any]) -> list[str]:
    """Return the names of plans by backends, then parts on them, then as they were given."""
    return sorted(modules, key=lambda name: _complexity(modules[name]))


def _complexity(mod: tvm.IRModule) -> tuple[int, int]:
    backends = [
        str(function.attrs["Compiler"])
        for _, function in mod.functions_items()
        if is_external_function(function)
    ]
    return len(set(backends)), len(backends)
