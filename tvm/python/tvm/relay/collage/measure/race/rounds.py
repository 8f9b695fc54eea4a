# SPDX-License-Identifier: Apache-2.0
"""Rounds of an interleaved comparison: who is woken when, and who need not go on.

Knows neither processes nor plans. Test: measure/race/test_rounds.py.
"""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...costs.statistics import fewest_samples, ratio_interval, relative_to_fastest

# Each time that so many rounds are done, contestants may be given up as too slow: with fewer
# nothing is sure.
ROUNDS_BEFORE_GIVING_UP = fewest_samples()
# Further rounds end at this many times those that were asked for.
MOST_FURTHER = 8


class Further(NamedTuple):
    """More rounds for those whose order is in question, after the ones that were asked for."""

    # From the samples by name of those that still run: who should go on; under two end it. Asked
    # each time that the rounds have doubled, since each look at the data is one more chance to be
    # fooled by it.
    in_question: Callable[[Mapping[str, Sequence[float]]], Collection[str]]
    seconds: float  # that further rounds may take


class EarlyEnd(NamedTuple):
    """An early end for those that are clearly slower, where being wrong at times does no harm."""

    rounds: int  # asked after each round, from so many on
    ratio: float  # who took more than that many times the fastest one's seconds in each goes


class Enough(NamedTuple):
    """An end of the rounds by time, once there are some to tell from."""

    rounds: int  # so many run whatever they take
    seconds: float  # after which none of the others begins


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoundOptions:
    """Options of rounds: how many there are, and who need not go on."""

    rounds: int = 30
    seed: int = 0  # of the order in each round
    # Who is surely (95 %) above so many times the best one's seconds goes; asked every 6 rounds.
    give_up_ratio: float | None = None
    early_end: EarlyEnd | None = None
    stays: Sequence[str] = ()  # never go for being slow
    further: Further | None = None
    enough: Enough | None = None
    seconds: float = math.inf  # after which no round begins but the first
    on_round: Callable[[int, int], None] | None = None  # (done, rounds) before the first and after


class _Rounds:
    """The contestants that still run, with the samples of all."""

    def __init__(
        self,
        names: Iterable[str],
        sample: Callable[[str], float | None],
        leave: Callable[[str, str], None],
        seed: int,
    ) -> None:
        self.samples: dict[str, list[float]] = {name: [] for name in names}
        self._sample, self._leave = sample, leave
        self._running = list(names)
        self._order = random.Random(seed)

    @property
    def running(self) -> dict[str, list[float]]:
        return {name: self.samples[name] for name in self._running}

    def run_one(self) -> None:
        """Take one sample of each in an order of chance; whoever has none failed and is out."""
        names = list(self._running)
        self._order.shuffle(names)
        for name in names:
            seconds = self._sample(name)
            if seconds is None:
                self._running.remove(name)
            else:
                self.samples[name].append(seconds)

    def keep(self, names: Collection[str], reason: str) -> None:
        """Have the others leave, which is not for having failed."""
        for name in [name for name in self._running if name not in names]:
            self._running.remove(name)
            self._leave(name, f"{reason} after {len(self.samples[name])} rounds")


def run_rounds(
    names: Sequence[str],
    sample: Callable[[str], float | None],
    leave: Callable[[str, str], None],
    options: RoundOptions,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, list[float]]:
    """Return samples by name, one a round, in rounds of random order.

    `sample(name)` gives seconds, or None when it failed: then it is out. `leave(name, reason)` is
    told of those that go without having failed: far too slow, behind by the `early_end`, or out of
    question for `further`.
    """
    state = _Rounds(names, sample, leave, seed=options.seed)
    done, goal, further = 0, options.rounds, options.further
    on_round = options.on_round or (lambda done, rounds: None)
    on_round(done, goal)
    began = clock()

    def is_over() -> bool:
        seconds, enough = clock() - began, options.enough
        is_enough = enough and done >= enough.rounds and seconds >= enough.seconds
        return bool(is_enough) or done > 0 and seconds >= options.seconds

    def run_to_goal(until: float = math.inf) -> None:
        nonlocal done
        while done < goal and clock() < until and not is_over():
            state.run_one()
            done += 1
            if options.give_up_ratio is not None and done % ROUNDS_BEFORE_GIVING_UP == 0:
                keep = _fast_enough(state.running, options.give_up_ratio)
                state.keep([*keep, *options.stays], "given up as far too slow")
            if options.early_end is not None and done >= options.early_end.rounds:
                keep = _near_the_fastest(state.running, options.early_end.ratio)
                state.keep([*keep, *options.stays], "given up as clearly slower")
            on_round(done, goal)

    run_to_goal()
    if further is None:
        return state.samples
    end = clock() + further.seconds
    while goal < MOST_FURTHER * options.rounds and clock() < end and not is_over():
        running = state.running
        going_on = further.in_question(running) if len(running) > 1 else ()
        if len(going_on) < 2:
            break
        state.keep([*going_on, *options.stays], "out of question")
        goal = min(2 * goal, MOST_FURTHER * options.rounds)
        run_to_goal(end)
    return state.samples


def _fast_enough(running: Mapping[str, Sequence[float]], ratio: float) -> list[str]:
    """Return the names of who is not surely above `ratio` times the fastest one's seconds."""
    if not running:
        return []
    relative = relative_to_fastest(running)
    best = running[min(relative, key=lambda name: relative[name])]
    return [name for name, each in running.items() if ratio_interval(each, best).low <= ratio]


def _near_the_fastest(running: Mapping[str, Sequence[float]], ratio: float) -> list[str]:
    """Return the names of those that were near the fastest in some round."""
    fastest = [min(seconds) for seconds in zip(*running.values(), strict=True)]
    return [
        name
        for name, each in running.items()
        if any(mine <= ratio * best for mine, best in zip(each, fastest, strict=True))
    ]
