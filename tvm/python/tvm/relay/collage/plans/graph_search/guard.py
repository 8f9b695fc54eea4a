# SPDX-License-Identifier: Apache-2.0
"""The guard: whole plans are built and measured interleaved, and only the fastest ships.

Every plan runs in a process of its own; outputs are compared with those of the model's original
file, or with TVM's where there is none.
Test: plans/graph_search/test_guard.py.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tvm

from ...backends import accuracy
from ...costs.cost import Cost, CostStatus
from ...errors import OriginalError
from ...machine.cpu_lock import cpus_for_building
from ...measure.race.comparison import ORIGINAL, Comparison
from ...measure.race.race import RaceOptions
from ...measure.race.rounds import ROUNDS_BEFORE_GIVING_UP, EarlyEnd, Enough, Further
from ...messages.progress import waiting
from ...options import CollageOptions, GuardOptions
from ..sample_inputs import ADVICE
from .decide import Limits, in_question, may_ship, simplest_first
from .libraries import EndToEnd, GuardUnavailable, Linked, Scratch

_logger = logging.getLogger(__name__)

# A plan that is surely (95 %) so many times slower than the best runs in no more rounds: it cannot
# ship, and slow plans take most of a round. Six rounds tell how slow it is well enough to read.
GIVE_UP_RATIO = 1.05
# One that takes so many times the best one's seconds in each round leaves sooner.
CLEARLY_SLOWER = EarlyEnd(3, 1.25)
# Long runs are timed for so long in a wake, at least once: they tell more in other rounds.
TIMED_SECONDS = 0.06

# Failures of a plan that builds, which other inputs may not cause.
_RAN_BADLY = (CostStatus.CRASHED, CostStatus.RUN_FAILED, CostStatus.TIMEOUT)
# Those of them that more time would not spare.
_FAILED_ON_INPUTS = {CostStatus.CRASHED, CostStatus.RUN_FAILED}


@dataclasses.dataclass(frozen=True)
class GuardResult:
    """The record of each plan, best first, and which one ships."""

    # a plan that is equal to another has its figures and library, and its name in ``same_as``
    comparisons: list[Comparison]
    winner: str
    # by name of a plan that builds; all but the winner's are built each time that they are asked
    # for, since a model's weights take memory
    libraries: Mapping[str, Any] = dataclasses.field(repr=False)
    # the plan whose outputs the winner's were compared with, itself when no other ran, or ORIGINAL
    reference: str | None = None
    # why that is less than outputs compared with those of the wanted reference, else empty
    unverified: str = ""

    def of(self, name: str) -> Comparison:
        """Return the comparison of one plan. KeyError for a name that took no part."""
        return {item.name: item for item in self.comparisons}[name]


_DEFAULTS = CollageOptions().guarding


def guard(
    plans: Mapping[str, tvm.IRModule],
    reference: str,
    how: EndToEnd,
    options: GuardOptions = _DEFAULTS,
    *,
    failed: Mapping[str, Cost] | None = None,
    same_as: Mapping[str, str] | None = None,
) -> GuardResult:
    """Build and measure ``plans`` (name -> module for the host target).

    ``reference`` is the plan whose outputs are right where ``how`` has no truth (the next simplest
    that runs stands in for it); ``failed`` are plans that could not be made, for the report;
    ``same_as`` maps plans to equal ones, which are built and measured for them. A plan that trades
    accuracy is nobody's reference. What ``how`` knows of an earlier race is not done again.
    Raises what ``how.opened`` raises, OptionError when all that run are over the limits,
    OriginalError when no plan is right and the reference's outputs differ from the truth, or any
    plan's where the import was not compared with it, and GuardUnavailable when no plan builds or
    runs.
    """
    same_as, on_step = same_as or {}, how.on_step
    plans = {name: module for name, module in plans.items() if name not in same_as}
    # The reference says what is right where nobody else does.
    is_judge = () if how.truth else (reference,)
    behind = {n: each for n, each in how.far_behind.items() if n in plans and n not in is_judge}
    raced = {name: module for name, module in plans.items() if name not in behind}
    order = simplest_first(plans)
    with how.opened(plans[reference]) as scratch, how.workers_ahead(len(raced)) as workers:
        with cpus_for_building(waiting(on_step, 0, len(raced))):
            files, failures, libraries = how.make_files(
                raced,
                scratch.folder,
                lambda name, done: on_step(f"building plan {name}", done, len(raced)),
            )
        failures += [Comparison(name, cost) for name, cost in (failed or {}).items()]
        if not libraries:
            reasons = _reasons(failures)
            raise GuardUnavailable(f"no plan builds for the {how.executor} executor ({reasons})")
        race = RaceOptions(
            rounds=options.rounds,
            enough=Enough(ROUNDS_BEFORE_GIVING_UP, options.seconds),
            give_up_ratio=GIVE_UP_RATIO,
            early_end=CLEARLY_SLOWER,
            timed_seconds=TIMED_SECONDS,
            further=Further(functools.partial(in_question, simplest_first=order), options.seconds),
            on_round=lambda done, goal: on_step("measuring", done, goal),
            on_wait=waiting(on_step, 0, options.rounds),
            spares=workers,
        )
        # The reference says how exact outputs have to be, also where it is far behind.
        known = {reference: plans[reference], **raced}
        judged = raced_plans(known, files, how, scratch=scratch, reference=reference, race=race)
    comparisons = Limits(options.memory_mb, options.library_mb).keep(judged) + failures
    # What nothing is known of may be why a plan does not run.
    advice = ADVICE if scratch.has_made_up else ""
    try:
        winner = choose(comparisons, order)
    except RuntimeError as error:
        is_wrong = {c.name for c in comparisons if c.cost.status == CostStatus.WRONG_RESULT}
        if how.truth and is_wrong and (reference in is_wrong or not how.trusts_import):
            raise OriginalError(f"outputs differ from those of the original: {error}") from error
        ran = {item.name: item.cost.status for item in comparisons if item.name in libraries}
        if how.truth and set(ran.values()) <= _FAILED_ON_INPUTS:
            raise OriginalError(f"the original runs on these inputs: {error}") from error
        slow = [name for name, status in ran.items() if status == CostStatus.TIMEOUT]
        text = "; ".join(filter(None, (str(error), advice)))
        raise GuardUnavailable(text, set(ran) - set(slow)) from error
    comparisons += behind.values()
    libraries |= dict.fromkeys(behind)
    library = None if how.ship else libraries[winner]  # None of a fork's
    own = {name: name for name in libraries}
    own |= {name: other for name, other in same_as.items() if other in libraries}
    kept = Libraries({name: plans[name] for name in libraries}, own, how, kept=(winner, library))
    used = {item.name: item for item in comparisons}[winner].reference
    wanted = ORIGINAL if how.truth else reference
    unverified = why_unverified(comparisons, winner, used, wanted=wanted, advice=advice)
    if unverified:
        _logger.warning("plan %s ships, but %s", winner, unverified)
    return GuardResult(
        with_equals(comparisons, same_as), winner, kept, reference=used, unverified=unverified
    )


def raced_plans(
    plans: Mapping[str, tvm.IRModule],
    files: Mapping[str, Linked],
    how: EndToEnd,
    *,
    scratch: Scratch,
    reference: str,
    race: RaceOptions,
) -> list[Comparison]:
    """Return the comparisons of the plans that have files, best first: whose outputs are wrong, by
    the truth or by those of the reference or of the next simplest, has failed."""
    errors, remarks = accuracy.limits(plans, how.accuracy_budget, how.tolerance(plans[reference]))
    references = [reference, *(name for name in simplest_first(plans) if name != reference)]
    comparisons = how.compare(
        files,
        scratch,
        [name for name in references if name in files and name not in remarks],
        {name: errors[name] for name in files},
        race,
        trusted=reference,
    )
    judged = [of_trader(item, remarks.get(item.name)) for item in comparisons]
    sizes = {name: file.size() for name, file in files.items()}
    return [dataclasses.replace(item, library_bytes=sizes[item.name]) for item in judged]


def with_equals(comparisons: Iterable[Comparison], same_as: Mapping[str, str]) -> list[Comparison]:
    """Return comparisons with further plans, each equal to the plan that it maps to and shown
    behind it."""
    rows = []
    for item in comparisons:
        equals = [name for name, other in same_as.items() if other == item.name]
        rows += [item, *(dataclasses.replace(item, name=n, same_as=item.name) for n in equals)]
    return rows


def of_trader(item: Comparison, remark: str | None) -> Comparison:
    """Say what the limit of a plan that trades accuracy is; with nothing to compare, it fails."""
    if remark is None or (item.cost.is_usable and item.reference is not None):
        return item
    if item.cost.is_usable:
        text = "no plan gave outputs to compare its own with, and " + remark
        return Comparison(item.name, Cost.failed(CostStatus.UNSUPPORTED, text))
    if item.cost.status != CostStatus.WRONG_RESULT:
        return item
    cost = dataclasses.replace(item.cost, message=item.cost.message + "; " + remark)
    return dataclasses.replace(item, cost=cost)


def choose(comparisons: list[Comparison], simplest_first: list[str]) -> str:
    """Choose the plan to ship: the simplest one that the best one does not beat; decide.py says
    when.

    The comparisons are best first. RuntimeError, with each plan's reason, when none ran.
    """
    usable = {item.name: item for item in comparisons if item.cost.is_usable}
    best = next(iter(usable.values()), None)
    for name in simplest_first:
        if best is not None and name in usable and may_ship(usable[name].samples, best.samples):
            return name
    raise RuntimeError(f"no plan of the model could be built and run ({_reasons(comparisons)})")


def _reasons(comparisons: Iterable[Comparison]) -> str:
    plans: dict[str, list[str]] = {}
    for item in comparisons:
        plans.setdefault(item.cost.Summary(), []).append(item.name)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in plans.items())


def why_unverified(
    comparisons: Iterable[Comparison], winner: str, used: str | None, wanted: str, advice: str
) -> str:
    """Return what the winner's outputs lack of a comparison with those of the wanted reference;
    with `advice` if that was built, but does not run."""
    if used == wanted:
        return ""
    agree = [item.name for item in comparisons if item.cost.is_usable and item.reference == used]
    others = [name for name in agree if used is not None and name != winner]
    cost = {item.name: item for item in comparisons}[wanted].cost
    reason = cost.Summary()
    if advice and cost.status in _RAN_BADLY:
        reason += f"; {advice}"
    against = f"only those of {', '.join(others)}" if others else "nothing"
    return f"its outputs were compared with {against}: plan {wanted} gave none ({reason})"


class Libraries(Mapping):
    """Libraries by plan, of equal plans the same: one is kept, once it is there, the others are
    built again; in the guard's PassContext."""

    def __init__(
        self,
        modules: Mapping[str, tvm.IRModule],
        own: Mapping[str, str],
        how: EndToEnd,
        kept: tuple[str, Any],
    ) -> None:
        self._modules, self._own, (self._kept, self._library) = modules, own, kept
        self._build, self._telling = how.ship or how.build, how.telling
        self._context = tvm.transform.PassContext.current()

    def __getitem__(self, plan: str) -> Any:
        name = self._own[plan]
        if name == self._kept and self._library is not None:
            return self._library
        with self._context, self._telling(name):
            library = self._build(self._modules[name])
        if name == self._kept:
            self._library = library
        return library

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)
