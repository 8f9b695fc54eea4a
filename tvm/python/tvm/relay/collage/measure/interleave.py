# SPDX-License-Identifier: Apache-2.0
"""Compare contestants end to end: each in its own process, woken one at a time, in an order drawn
anew each round. Test: test_measure_interleave.py.

Two runtimes in one process share caches, pools and spinning threads; contestants measured one
after the other see different machines. Interleaved rounds give paired samples, which
statistics.ratio_interval compares.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import statistics as _stdlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .contestant import library_contestant
from .cost import Cost
from .failure import failed_cost
from .process import Reply, WorkerOptions, WorkerProcess, WorkerStartError
from .resolve import path_of
from .rounds import Further, run_rounds
from .scratch import ScratchFolder
from .statistics import CONFIDENCE, Interval, ratio_interval, relative_to_fastest

_logger = logging.getLogger(__name__)

# Timed runs of one wake; one more goes before them and is discarded, since the caches hold another
# contestant's data.
RUNS_PER_WAKE = 3
# A request may take this many times what its runs took at the opening, over the limit given.
_SLOWER_THAN_FIRST = 5.0


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A name and a factory ("module:function" with JSON keyword arguments) that its own process
    calls to get an object with run() and outputs(); see contestant.Runnable.

    environment: variables of its process over the driver's, set before anything is imported.
    """

    name: str
    factory: str
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of_library(
        cls,
        name: str,
        library: str,
        inputs: str,
        device: str = "llvm",
        mod_name: str = "default",
        **keywords: Any,
    ) -> Contestant:
        """A library file of the graph executor on the inputs in an .npz file (arrays by name)."""
        arguments = {"library": library, "inputs": inputs, "device": device, "mod_name": mod_name}
        return cls(name, path_of(library_contestant), arguments, **keywords)


@dataclasses.dataclass
class Samples:
    """What one contestant did: seconds of each round, outputs of one run, or how it failed.

    Whoever fails or leaves is gone for good, so the seconds are those of the first rounds. `left`
    is why it did without having failed.
    """

    name: str
    seconds: list[float] = dataclasses.field(default_factory=list)
    outputs: list[np.ndarray] = dataclasses.field(default_factory=list, repr=False)
    failure: Cost | None = None
    left: str = ""

    def cost(self) -> Cost:
        """Median with its interval over the rounds, or the failure."""
        if self.failure is not None:
            return self.failure
        cost = Cost.measured(self.seconds, by_quartile=False)
        text = "; ".join(text for text in (cost.message, self.left) if text)
        return dataclasses.replace(cost, message=text)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One contestant beside the others.

    ratio_to_best: median of its seconds over the best one's, round by round, with a 95 % interval
    (1 for the best itself), None when it failed. output_error: max|a-b| / max|b| over its outputs a
    against the outputs b of the contestant `reference`; both None when either has none. `samples`
    are in the order of rounds, from the first one on.
    """

    name: str
    cost: Cost
    ratio_to_best: Interval | None = None
    output_error: float | None = None
    samples: tuple[float, ...] = dataclasses.field(default=(), repr=False)
    reference: str | None = None

    def Summary(self) -> str:
        text = f"{self.name}: {self.cost.Summary()}"
        if self.ratio_to_best is not None:
            text += "; {:.3f} [{:.3f}, {:.3f}] of the best".format(*self.ratio_to_best)
        return text


def compare(
    contestants: Sequence[Contestant],
    reference: str | Sequence[str] | None = None,
    rounds: int = 30,
    rtol: float | None = 1e-4,
    **options: Any,
) -> list[Comparison]:
    """Measure interleaved and compare; the best first, failures last.

    reference: the contestant whose outputs are right, or several by preference, of which the first
    that has outputs counts; another whose output error is above rtol gets the status wrong_result
    and is not timed. If every reference failed, outputs are not compared. ValueError for a
    reference that does not take part. Options: measure_interleaved's.
    """
    references = [reference] if isinstance(reference, str) else list(reference or [])
    for name in references:
        if name not in [c.name for c in contestants]:
            raise ValueError(f"the reference {name!r} is none of the contestants")

    def judge(results: Mapping[str, Samples]) -> dict[str, Cost]:
        return _wrong_results(_output_errors(results, references)[1], rtol)

    results = measure_interleaved(contestants, rounds, judge=judge, **options)
    source, errors = _output_errors(results, references)
    costs = {name: result.cost() for name, result in results.items()}
    usable = [name for name, cost in costs.items() if cost.is_usable]
    usable = best_first({name: results[name].seconds for name in usable})
    ratios = {
        name: paired_ratio(results[name].seconds, results[usable[0]].seconds) for name in usable
    }
    order = usable + [name for name in costs if name not in usable]
    return [
        Comparison(
            name,
            costs[name],
            ratios.get(name),
            errors[name],
            tuple(results[name].seconds),
            source if errors[name] is not None else None,
        )
        for name in order
    ]


def best_first(samples: Mapping[str, Sequence[float]]) -> list[str]:
    """Names by seconds relative to the fastest of each round. Whoever left after a few rounds is
    behind all that stayed: figures of different rounds do not compare."""
    order: list[str] = []
    for count in sorted({len(seconds) for seconds in samples.values()}, reverse=True):
        group = {name: each for name, each in samples.items() if len(each) == count}
        relative = relative_to_fastest(group)
        order += sorted(group, key=lambda name: relative[name])
    return order


def _output_errors(
    results: Mapping[str, Samples], references: Sequence[str]
) -> tuple[str | None, dict[str, float | None]]:
    """The first reference that has outputs, and everybody's error against them."""
    source = next((name for name in references if results[name].outputs), None)
    truth = results[source].outputs if source is not None else []
    return source, {
        name: output_error(r.outputs, truth) if truth and r.outputs else None
        for name, r in results.items()
    }


def _wrong_results(errors: Mapping[str, float | None], rtol: float | None) -> dict[str, Cost]:
    """The failures of those whose error is above rtol, or no number."""
    return {
        name: Cost.failed(
            "wrong_result",
            f"its output is off by {error:.3g} of the largest value (limit {rtol:g})",
        )
        for name, error in errors.items()
        if error is not None and rtol is not None and not error <= rtol
    }


def paired_ratio(
    numerator: Sequence[float], denominator: Sequence[float], confidence: float = CONFIDENCE
) -> Interval:
    """ratio_interval over the rounds that both ran: one of them may have left after a few."""
    count = min(len(numerator), len(denominator))
    return ratio_interval(numerator[:count], denominator[:count], confidence)


def measure_interleaved(
    contestants: Sequence[Contestant],
    rounds: int = 30,
    *,
    seed: int = 0,
    open_timeout: float = 300.0,
    run_timeout: float = 60.0,
    sample_seconds: float = 2e-3,
    give_up_ratio: float | None = None,
    further: Further | None = None,
    judge: Callable[[Mapping[str, Samples]], Mapping[str, Cost]] | None = None,
    imports: Sequence[str] = (),
    on_round: Callable[[int, int], None] | None = None,
) -> dict[str, Samples]:
    """One sample a round of each contestant, in rounds of random order; by name.

    A contestant that fails, hangs or dies stops there with its failure; the others go on. Whom
    `judge` fails, when all have given their outputs, is not timed. rounds.run_rounds says what
    give_up_ratio, further and on_round mean. While one runs the others sleep in a read.
    run_timeout: seconds that a request may take besides five times what its runs took at the
    opening. imports: modules that every process imports, for the backends that they register.
    ValueError for two contestants of one name.
    """
    results = {c.name: Samples(c.name) for c in contestants}
    if len(results) != len(contestants) or rounds < 1:
        raise ValueError("contestants need names of their own, and at least 1 round")
    workers: dict[str, WorkerProcess] = {}
    numbers: dict[str, int] = {}
    run_seconds: dict[str, float] = {}

    def limit(name: str, runs: int) -> float:
        return run_timeout + _SLOWER_THAN_FIRST * runs * run_seconds[name]

    def ask(name: str, command: str, arguments: dict[str, Any], seconds: float) -> Any:
        """The value of a request, or None after noting the failure."""
        try:
            reply = workers[name].call(command, arguments, seconds)
        except WorkerStartError as error:
            reply = Reply("died", message=str(error))
        if reply.outcome == "ok":
            return reply.value
        failure = failed_cost(reply, command, "run_failed")
        results[name].failure = failure
        _logger.warning("%s fails: %s", name, failure.Summary())
        workers.pop(name).kill()
        return None

    def sample(name: str) -> float | None:
        """The median of one wake, or None when it failed."""
        wake = {"runs": RUNS_PER_WAKE + 1, "number": numbers[name]}
        seconds = ask(name, "time", wake, limit(name, wake["runs"] * wake["number"]))
        if seconds is None:
            return None
        results[name].seconds.append(_stdlib.median(seconds[1:]))
        return results[name].seconds[-1]

    def leave(name: str, reason: str) -> None:
        results[name].left = reason
        workers.pop(name).kill()

    try:
        with ScratchFolder() as folder:
            for contestant in contestants:
                options = WorkerOptions(imports, contestant.environment)
                workers[contestant.name] = WorkerProcess(options)
            for name in list(workers):  # all start at the same time
                ask(name, "ping", {}, run_timeout)
            for i, contestant in enumerate(contestants):
                name = contestant.name
                if name not in workers:
                    continue
                request = {"factory": contestant.factory, "arguments": dict(contestant.arguments)}
                opened = ask(name, "open", request, open_timeout)
                if opened is None:
                    continue
                run_seconds[name] = opened["seconds"]
                numbers[name] = max(1, math.ceil(sample_seconds / max(opened["seconds"], 1e-7)))
                file = os.path.join(folder, f"outputs_{i}.npz")
                ask(name, "outputs", {"file": file}, limit(name, 1))
                if name in workers:
                    with np.load(file, allow_pickle=False) as outputs:
                        results[name].outputs = [outputs[key] for key in outputs.files]
        for name, failure in (judge(results) if judge is not None else {}).items():
            if name in workers:
                results[name].failure = failure
                workers.pop(name).kill()
        run_rounds(
            list(workers),
            sample,
            rounds,
            leave=leave,
            seed=seed,
            give_up_ratio=give_up_ratio,
            further=further,
            on_round=on_round,
        )
    finally:
        for worker in workers.values():
            worker.kill()
    return results


def output_error(outputs: Sequence[np.ndarray], truth: Sequence[np.ndarray]) -> float:
    """max|a-b| / max|b|, the worst over the outputs; infinite for other counts, shapes or for NaN
    where the truth has none."""
    if len(outputs) != len(truth):
        return math.inf
    worst = 0.0
    for a, b in zip(outputs, truth, strict=True):
        if a.shape != b.shape:
            return math.inf
        if not b.size:
            continue
        a, b = a.astype("float64"), b.astype("float64")
        nothing = np.isnan(a) & np.isnan(b)
        a, b = np.where(nothing, 0.0, a), np.where(nothing, 0.0, b)
        same = a == b  # infinities of one sign are equal, their difference is no number
        difference = float(np.max(np.abs(np.where(same, 0.0, a) - np.where(same, 0.0, b))))
        if math.isnan(difference):
            return math.inf
        scale = float(np.max(np.abs(np.where(np.isfinite(b), b, 0.0))))
        worst = max(worst, difference / scale if scale > 0 else (math.inf if difference else 0.0))
    return worst
