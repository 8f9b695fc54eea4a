# SPDX-License-Identifier: Apache-2.0
"""Each backend alone is run once more with a profile, by which the search foresees costs.

The libraries are those of the first answer, and TVM's own where the others do not decide the
search. Of a backend whose profile fails nothing is known, and its costs are asked for; those of
one whose plan takes too long to build are guessed by the others.
Precondition: the prepared module is stamped (relay_util/node_spans.py), and the files tell their
kernels. Test: plans/test_profiled.py.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tvm.target import Target
from tvm_collage.words import Effort

from ..candidate.inputs import describe_inputs
from ..costs.cost import CostStatus
from ..estimators.calibration import SHIPPED, Multiples
from ..estimators.profiles import Foreseeing, Foresight, Profiles
from ..estimators.session import Session
from ..exec.pool import Job
from ..exec.resolve import path_of
from ..exec.time_limit import BUILT, FIRST_ANSWER, KERNELS, TimeLimit
from ..machine.cpu_lock import cpus_for_building
from ..measure.profiler.operator_times import OperatorTimes, profile_operators
from ..measure.profiler.plan_kernels import OperatorCall, PlanCalls, calls_with_work
from ..messages.progress import steps, waiting
from ..relay_util.external import TVM_BACKEND
from .competing import plans_alone
from .first_answer import FAR_BEHIND, FirstAnswer
from .graph_search import EndToEnd
from .graph_search.libraries import Linked
from .names import TVM_ALONE
from .request import SMALL_SECONDS, Request

_logger = logging.getLogger(__name__)

# Of the runs of one backend, and of all that a worker may take for it.
_BUDGET_SECONDS, _LIMIT_SECONDS = 1.0, 60.0
# A race that takes the profiled runs so many times as long was in a slow moment of the machine: its
# ratios hold, and its seconds do not.
_SLOW_MOMENT = 1.2
# Of the build of TVM alone: longer than a net of some hundred operators takes on two cores.
_TVM_SECONDS = 60.0
# So long are costs asked for that profiles foresee: half of what a user waits for.
ASKING_SECONDS = 30.0


class Profiled:
    """The profiles of a compile, which foresee the costs of its search.

    At first those of the libraries of the first answer, to which the search adds that of TVM's
    kernels when it is not decided without. first: the first answer, then with TVM's library as
    well. profiles: None where there is none, or no plan to beat.
    """

    def __init__(
        self,
        request: Request,
        session: Session,
        first: FirstAnswer,
        how: EndToEnd,
        multiples: Mapping[str, Multiples] = SHIPPED,
    ) -> None:
        """`how`: in which way TVM alone is built."""
        self.first = first
        self._request, self._session, self._how = request, session, how
        self._calls: list[OperatorCall] = []
        self.profiles = self._profiles(multiples)
        awaits_tvm = self.profiles is not None and self.profiles.awaited
        # What is done to foresee sharply, and is not done yet.
        self._sharpening: list[Callable[[], object]] = [self._add_tvm] if awaits_tvm else []

    def when_sharp(self, then: Callable[[], object]) -> None:
        """Have this done as well where the search is not decided by what is known."""
        self._sharpening.append(then)

    def foresee(
        self, targets: Sequence[Target], nodes: Sequence[Sequence[int]], sharply: bool
    ) -> Foresight:
        """Return what candidates will cost. Until that is asked for sharply TVM, without a profile,
        is taken to be as quick as most of the libraries at what these take, which untuned it seldom
        is: in a small net, where calling a library may take longer than computing, it has one."""
        if self.profiles is None:
            raise ValueError("no backend was profiled")
        while sharply and self._sharpening:
            with self._session.estimator.hidden():
                self._sharpening.pop(0)()
        is_rough = bool(self._sharpening)
        # The likeliest are asked for first: what is not in a while hardly pays.
        found = self.profiles.foresee(targets, nodes)
        return found._replace(is_rough=is_rough, asking_seconds=ASKING_SECONDS)

    def without_rival(self) -> Foreseeing:
        """Return the same for a search that has no plan to beat."""
        return _WithoutRival(self)

    def _profiles(self, multiples: Mapping[str, Multiples]) -> Profiles | None:
        is_final = self._request.options.searching.effort == Effort.QUICK
        if self.first.seconds < SMALL_SECONDS:
            self._build_tvm()
        # A backend's plan is called as itself, that of TVM's kernels too.
        files = self._files(plans_alone(self._request.targets))
        if not files or not self.first.best:
            return None
        self._calls = calls_with_work(self._request.prepared)
        found = self._times(files)
        if not found and TVM_ALONE not in files:
            self._build_tvm()
            found = self._times(self._files([TVM_ALONE]))
        if not found:
            return None
        raced = _raced_seconds(self.first, found)
        of_tvm = found.get(TVM_BACKEND)
        if of_tvm and _is_slow_on_one_thread(of_tvm, raced[self.first.best]):
            slow = self.first.slow_on_one_thread | {TVM_ALONE}
            self.first = dataclasses.replace(self.first, slow_on_one_thread=slow)
        return Profiles(
            {name: _as_raced(times.seconds, raced.get(name)) for name, times in found.items()},
            multiples,
            rival_seconds=raced[self.first.best],
            is_final=is_final,
            rival=self.first.best,
            awaited="" if TVM_ALONE in self.first.files else TVM_BACKEND,
            late=self._late(),
        )

    def _late(self) -> frozenset[str]:
        """Return the backends whose plans nobody waited for: others failed, and parts of them may
        still be fast."""
        rows = self.first.raced.comparisons if self.first.raced else ()
        return frozenset(row.name for row in rows if row.cost.status == CostStatus.UNKNOWN)

    def _add_tvm(self) -> None:
        """Build TVM alone, which nobody waited for, and profile its kernels."""
        self._build_tvm()
        found = self._times(self._files([TVM_ALONE]))
        seconds = {name: times.seconds for name, times in found.items()}
        if self.profiles:
            known = {**self.profiles.seconds, **seconds}
            self.profiles = dataclasses.replace(self.profiles, seconds=known, awaited="")

    def _files(self, plans: Iterable[str]) -> dict[str, Linked]:
        """Return the libraries of these plans that are there and tell their kernels."""
        known = self.first.files
        return {name: known[name] for name in plans if name in known and known[name].kernels}

    def _build_tvm(self) -> None:
        """Add the library of TVM alone to the first answer, unless it takes too long; the guard
        has it then."""
        first, request = self.first, self._request
        seconds = min(_TVM_SECONDS, request.limit.left(FIRST_ANSWER))
        is_profiled = any(file.kernels for file in first.files.values())
        if not (first.best and is_profiled) or TVM_ALONE in first.files or seconds <= 0:
            return
        folder = os.path.join(first.folder, TVM_ALONE)
        os.mkdir(folder)
        here = dataclasses.replace(self._how, limit=TimeLimit(seconds / BUILT))
        with (
            request.clock.phase("profiles"),
            steps("profiles", request.options.progress) as on_step,
            cpus_for_building(waiting(on_step, 0, 1)),
        ):
            on_step(f"building plan {TVM_ALONE}", 0, 1)
            files, _, _ = here.make_files({TVM_ALONE: request.plans.modules[TVM_ALONE]}, folder)
        self.first = dataclasses.replace(first, files={**first.files, **files})

    def _times(self, files: Mapping[str, Linked]) -> dict[str, OperatorTimes]:
        """Return the profiles of these libraries by backend, without those that fail."""
        request, found = self._request, {}
        with (
            request.clock.phase("profiles"),
            steps("profiles", request.options.progress) as on_step,
        ):
            for done, (backend, file) in enumerate(files.items()):
                left = request.limit.left(KERNELS)
                if left <= 0:
                    break
                on_step(f"profiling {backend}", done, len(files))
                told = {**dataclasses.asdict(PlanCalls(self._calls, [])), "kernels": file.kernels}
                is_small = self.first.seconds < SMALL_SECONDS
                times = _times(self._session, request, file, told, is_small=is_small, limit=left)
                if times.reason:
                    _logger.warning("no profile of %s: %s", backend, times.reason)
                else:
                    found[backend] = times
                for symbol, reason in times.closed.items():
                    _logger.info("%s: part %s is profiled as a whole: %s", backend, symbol, reason)
        return found


class _WithoutRival(NamedTuple):
    """The foresight of `profiled` for a search that has no plan to beat."""

    profiled: Profiled

    def foresee(
        self, targets: Sequence[Target], nodes: Sequence[Sequence[int]], sharply: bool
    ) -> Foresight:
        return self.profiled.foresee(targets, nodes, sharply)._replace(rival_seconds=0.0)


def _is_slow_on_one_thread(times: OperatorTimes, rival_seconds: float) -> bool:
    """Tell whether TVM alone is too slow on one thread to ship, since itself on all threads or the
    best plan is far quicker: its library for all threads, which ran on one, is no other code but
    for how loops are divided."""
    # A run of less than steps that run nothing take is no measure.
    known = [seconds for seconds in (times.whole, rival_seconds) if seconds]
    if not known or times.on_one_thread is None:
        return False
    return times.on_one_thread > FAR_BEHIND.ratio * min(known)


def _raced_seconds(first: FirstAnswer, profiled: Mapping[str, OperatorTimes]) -> dict[str, float]:
    """Return what each plan took in the race, whose rounds all plans shared: fewer seconds where
    the profiled runs, which come later, show that it was in a slow moment."""
    comparisons = first.raced.comparisons if first.raced else ()
    raced = {item.name: item.cost.seconds or 0.0 for item in comparisons if item.samples}
    # A run of less than steps that run nothing take is no measure.
    later = [raced[n] / each.whole for n, each in profiled.items() if raced.get(n) and each.whole]
    slowed = statistics.median(later) if later else 1.0
    if slowed < _SLOW_MOMENT:
        return raced
    _logger.info("the first race was in a slow moment: its plans take %.2f of its time", 1 / slowed)
    return {name: seconds / slowed for name, seconds in raced.items()}


def _as_raced(seconds: dict[int, float], raced: float | None) -> dict[int, float]:
    """Return the seconds of a profile so that they add up to what its plan took in the race."""
    total = sum(seconds.values())
    if not raced or not total:
        return seconds
    return {node: value * raced / total for node, value in seconds.items()}


def _times(
    session: Session,
    request: Request,
    file: Linked,
    plan: dict,
    *,
    is_small: bool,
    limit: float,
) -> OperatorTimes:
    """Return the profile of a library, which a worker takes within so many seconds."""
    arguments = {
        "library": file.library,
        "build": {
            "inputs": describe_inputs(request.prepared),
            "device": "llvm",
            "mod_name": request.build_options.get("mod_name", "default"),
        },
        "plan": plan,
        "weights": file.weights,
        "seed": session.estimator.options.seed,
        "budget_seconds": _BUDGET_SECONDS,
        "is_small": is_small,
    }
    call = {"function": path_of(profile_operators), "arguments": arguments}
    reply, _ = session.estimator.run_measuring(Job("call", call, min(limit, _LIMIT_SECONDS)))
    if reply.outcome != "ok":
        return OperatorTimes({}, 0.0, reply.message)
    return OperatorTimes.from_reply(reply.value)
