# SPDX-License-Identifier: Apache-2.0
"""The first answer: each backend alone, and the model's file, built and raced before any search.

From then on there is a plan that ships if somebody interrupts the compile or its time is over. The
guard takes the files over, and whoever was far behind runs in no further race.
Precondition: plans are measured on this machine. Test: plans/test_first_answer.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Iterator, Mapping, Sequence

import tvm

from ..costs.cost import Cost, CostStatus, format_seconds
from ..costs.kernel import as_built
from ..errors import OptionError
from ..estimators.session import default_workers
from ..exec.time_limit import FIRST_ANSWER
from ..machine.cpu_lock import cpus_for_building
from ..measure.race.comparison import ORIGINAL, Comparison
from ..measure.race.race import RaceOptions
from ..messages.progress import best_so_far, steps, waiting
from ..relay_util.walk import operator_calls
from .graph_search import EndToEnd, GuardResult, GuardUnavailable, choose
from .graph_search.decide import Limits, simplest_first
from .graph_search.guard import (
    CLEARLY_SLOWER,
    TIMED_SECONDS,
    Libraries,
    raced_plans,
    why_unverified,
    with_equals,
)
from .graph_search.libraries import Linked, Scratch
from .names import TVM_ALONE
from .request import Request

# Few rounds will do: the guard compares again what is near the best.
ROUNDS = 4
# Whoever is slower than that leaves after two rounds of them.
FAR_BEHIND = CLEARLY_SLOWER._replace(rounds=2)
# Seconds for the builds once a plan is there. One that is given up is built again by the guard, and
# has no profile, by which its costs are foreseen better than by those of others.
_PATIENCE = 15.0

# Whoever takes more than so many times the fastest one's time on all threads is not the fastest on
# one: of two threads one gains half at most where both are needed.
_FAR_ON_ALL_THREADS = 1.8

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class FirstAnswer:
    """The plans that were built before the search, with what their race told."""

    modules: Mapping[str, tvm.IRModule] = dataclasses.field(default_factory=dict)  # by plan
    files: Mapping[str, Linked] = dataclasses.field(default_factory=dict)  # of those that build
    # None where no plan ran, or nobody knows whose outputs are right
    raced: GuardResult | None = None
    folder: str = ""  # where the files are
    # Plans that were not raced and cannot ship, by what was learnt since (unraced.py).
    slow: Mapping[str, Comparison] = dataclasses.field(default_factory=dict)
    # Plans that profiles show to be far slower on one thread than on all, or than the best one.
    slow_on_one_thread: frozenset[str] = frozenset()

    @property
    def best(self) -> str:
        """Return the plan that ships if nothing better is found; "" for none."""
        return self.raced.winner if self.raced else ""

    @property
    def seconds(self) -> float:
        """Return what one run of the best plan takes."""
        return self.raced.of(self.best).cost.seconds or 0.0 if self.raced else 0.0

    def without(self, slow: Mapping[str, Comparison]) -> FirstAnswer:
        """Return it with further plans that cannot ship, as they are told of."""
        return dataclasses.replace(self, slow={**self.slow, **slow})

    def Summary(self) -> str:
        return f"{self.best}, {format_seconds(self.seconds)}" if self.best else "none"

    def plan_of(self, module: tvm.IRModule) -> str:
        """Return the plan whose file a build of the module would give again; "" for none."""
        wanted = as_built(module)
        equal = (n for n in self.files if tvm.ir.structural_equal(self._as_built[n], wanted))
        return next(equal, "")

    def file_of(self, module: tvm.IRModule) -> Linked | None:
        """Return the file that a build of the module would give again; None for none."""
        return self.files.get(self.plan_of(module))

    def never_on_one_thread(self) -> set[str]:
        """Return the plans that cannot be the best on one thread: they take far longer on all, or
        profiles show it."""
        raced = self.raced.comparisons if self.raced else ()
        ratios = {item.name: item.ratio_to_best for item in raced}
        far = {name for name, r in ratios.items() if r and r.value > _FAR_ON_ALL_THREADS}
        return {*far, *self.slow, *self.slow_on_one_thread}

    def far_behind(self, modules: Mapping[str, tvm.IRModule]) -> dict[str, Comparison]:
        """Return those of the plans that were too slow to ship and are the same still, as they are
        told of: without samples, since rounds of two races are no pairs."""
        found = {name: item for name, item in self.slow.items() if name in modules}
        for item in self.raced.comparisons if self.raced else ():
            ratio = item.ratio_to_best
            # Equal plans share the first one's record.
            if item.same_as or ratio is None or not self._is_far_behind(item):
                continue
            if item.name in modules and self.plan_of(modules[item.name]) == item.name:
                text = f"{ratio.value:.2f} times {self.best} in the first race, so it ran no more"
                cost = item.cost.with_remark(text)
                found[item.name] = dataclasses.replace(
                    item, cost=cost, samples=(), ratio_to_best=None
                )
        return found

    def _is_far_behind(self, item: Comparison) -> bool:
        best = self.raced.of(self.best).samples if self.raced else ()
        pairs = list(zip(item.samples, best, strict=False))
        is_sure = len(pairs) >= FAR_BEHIND.rounds and item.cost.is_usable
        return is_sure and all(own > FAR_BEHIND.ratio * other for own, other in pairs)

    @functools.cached_property
    def _as_built(self) -> dict[str, tvm.IRModule]:
        return {name: as_built(self.modules[name]) for name in self.files}


@contextlib.contextmanager
def first_answer(request: Request, how: EndToEnd) -> Iterator[FirstAnswer]:
    """Yield the first answer of the request's plans, whose files are there for the block, in which
    progress tells of the best one; an empty one where no plans are to be compared here."""
    found = FirstAnswer()
    options = request.options
    is_wanted = options.guard and request.targets.external and not options.devices.tracker
    with contextlib.ExitStack() as held:
        if is_wanted and request.limit.left(FIRST_ANSWER) > 0:
            try:
                with (
                    request.clock.phase("first answer"),
                    steps("first answer", options.progress, is_open=True) as on_step,
                ):
                    found = _found(request, dataclasses.replace(how, on_step=on_step), held)
            except GuardUnavailable as error:
                _logger.info("there is no first answer: %s", error)
        if found.best:
            _logger.info("best so far: %s", found.Summary())
            held.enter_context(best_so_far(found.best, found.seconds, found.Summary()))
        yield found


def ship_best(request: Request, first: FirstAnswer, why: str) -> tuple[str, GuardResult, str]:
    """Have the best plan so far ship, as it was raced; return it with its race, and why."""
    if first.raced is None:
        raise ValueError("no plan ran whole and right before the search")
    request.plans.use_usual_kernels()
    _logger.warning("%s: the best plan so far ships, %s", why, first.Summary())
    return first.best, first.raced, why


def _found(request: Request, how: EndToEnd, held: contextlib.ExitStack) -> FirstAnswer:
    """Build and race; `held` keeps the files. GuardUnavailable where no inputs can be made up."""
    plans, on_step = request.plans, how.on_step
    same_as = plans.same_as()
    modules = {name: module for name, module in plans.modules.items() if name not in same_as}
    scratch = held.enter_context(how.opened(modules[TVM_ALONE]))
    count = len(modules)

    # Nobody waits for plans of which TVM has to compile the most.
    operators = {name: len(operator_calls(module["main"])) for name, module in modules.items()}
    unawaited = [name for name in modules if 2 * operators[name] > operators[TVM_ALONE]]
    if len(unawaited) == len(modules):
        unawaited = [TVM_ALONE]

    def on_plan(name: str, done: int) -> None:
        if name not in unawaited:
            on_step(f"building plan {name}", done, count)

    with cpus_for_building(waiting(on_step, 0, count)):
        files, failures = how.make_side_by_side(
            modules,
            scratch.folder,
            on_plan,
            at_once=default_workers(),
            patience=_PATIENCE,
            unawaited=unawaited,
        )
    failures += [Comparison(name, cost) for name, cost in plans.failed.items()]
    known = {*files, *(item.name for item in failures)}
    cost = Cost.failed(CostStatus.UNKNOWN, "its build takes longer than those of others")
    failures += [Comparison(name, cost) for name in modules if name not in known]
    built = FirstAnswer(modules, files, folder=scratch.folder)
    if not files:
        _logger.info("there is no first answer: no plan was built in its time")
        return built
    race = RaceOptions(
        rounds=ROUNDS,
        early_end=FAR_BEHIND,
        seconds=max(0.0, request.limit.left(FIRST_ANSWER)),
        timed_seconds=TIMED_SECONDS,
        on_round=lambda done, goal: on_step("measuring", done, goal),
        on_wait=waiting(on_step, 0, ROUNDS),
    )
    comparisons = raced_plans(modules, files, how, scratch=scratch, reference=TVM_ALONE, race=race)
    limits = Limits(request.options.guarding.memory_mb, request.options.guarding.library_mb)
    raced = _judged(comparisons, limits, modules, how=how, scratch=scratch, failures=failures)
    if raced is None:
        return built
    rows = with_equals(raced.comparisons, same_as)
    found = dataclasses.replace(built, raced=dataclasses.replace(raced, comparisons=rows))
    on_step(f"best so far: {found.Summary()}", ROUNDS, ROUNDS)
    return found


def _judged(
    comparisons: list[Comparison],
    limits: Limits,
    modules: Mapping[str, tvm.IRModule],
    *,
    how: EndToEnd,
    scratch: Scratch,
    failures: Sequence[Comparison],
) -> GuardResult | None:
    """Return the race as a guard's result; None where no plan ran that may ship, or where plans
    differ and neither the original nor TVM says who is right."""
    by = {item.reference for item in comparisons if item.cost.is_usable}
    is_any_wrong = any(item.cost.status == CostStatus.WRONG_RESULT for item in comparisons)
    if is_any_wrong and not by & {ORIGINAL, TVM_ALONE}:
        _logger.info("there is no first answer: plans differ, and nobody knows who is right")
        return None
    try:
        kept = limits.keep(comparisons)
        winner = choose(kept, simplest_first(modules))
    except (OptionError, RuntimeError) as error:
        _logger.info("there is no first answer: %s", error)
        return None
    rows = [*kept, *failures]
    used = {item.name: item for item in rows}[winner].reference
    wanted = ORIGINAL if how.truth else TVM_ALONE
    unverified = why_unverified(rows, winner, used, wanted=wanted, advice="")
    built = {item.name for item in comparisons}
    libraries = Libraries(
        {name: modules[name] for name in built},
        {name: name for name in built},
        how,
        kept=(winner, None),
    )
    return GuardResult(rows, winner, libraries, reference=used, unverified=unverified)
