# SPDX-License-Identifier: Apache-2.0
"""What the demo expects of each model; a broken expectation is one line of text.

That what ships is as fast as the best backend alone is expected too. An interval too wide to tell
is no fault: then there are more rounds, and a line says so if they do not tell either.

Test: demos/test_demo.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm.relay.collage.measure import Interval

# Largest difference of outputs, as a share of the reference's largest value, before any arg-max.
OUTPUT_TOLERANCE = 1e-4
# What ships is fast enough when it is at least this many times as fast as the best backend alone.
LOWEST_RATIO = 0.97
FINAL = "final"
FAST_ENOUGH, SLOWER, UNDECIDED = "fast enough", "slower", "undecided"


def broken_expectations(model: dict[str, Any], judge_speed: bool = True) -> list[str]:
    """Lines for what is not as it should be in a model's record (see demo.py's JSON)."""
    lines = []
    if model["text"] != model["reference_text"]:
        lines.append(
            f"output reads {model['text']!r}, not {model['reference_text']!r} "
            f"as of {model['reference']}"
        )
    for plan in model["plans"]:
        lines += _wrong_output(plan, model["reference"])
    final = _final(model)
    if final is None or final["status"] != "measured":
        lines.append("the final plan was not measured")
    elif judge_speed:
        lines += _too_slow(final)
    return [f"{model['name']}: {line}" for line in lines]


def undecided(model: dict[str, Any]) -> str:
    """A line where the measurements do not tell whether what ships is fast enough beside the best
    backend alone; "" where they do."""
    final = _final(model)
    if final is None or _speed(final["ratio_to_best_single"]) != UNDECIDED:
        return ""
    return (
        f"Whether that is at least {LOWEST_RATIO} x as fast as the best backend alone is undecided:"
        f" {ratio_text(final)}. A quiet machine, or more --rounds, would tell."
    )


def in_question(
    samples: Mapping[str, Sequence[float]], ships: str, singles: Collection[str]
) -> list[str]:
    """What ships and the best backend alone while their samples, by name and round, leave it
    undecided whether what ships is at least LOWEST_RATIO times as fast; [] when it is decided, or
    one of them takes no part any more."""
    from tvm.relay.collage.measure.race.comparison import best_first, paired_ratio

    alone = {name: samples[name] for name in singles if name in samples}
    if ships not in samples or not alone:
        return []
    best = best_first(alone)[0]
    verdict = verdict_of(paired_ratio(samples[best], samples[ships]))
    return [ships, best] if verdict == UNDECIDED else []


def ratio_text(plan: Mapping[str, Any]) -> str:
    """Say how many times as fast a plan of a record is as the best backend alone."""
    from tvm.relay.collage.costs.compared import Ratio

    return Ratio(**plan["ratio_to_best_single"]).Summary(unit="x")


def verdict_of(ratio: Interval) -> str:
    """FAST_ENOUGH or SLOWER where the whole interval is; a bound that is not known is infinite."""
    if ratio.low >= LOWEST_RATIO:
        return FAST_ENOUGH
    return SLOWER if ratio.high < LOWEST_RATIO else UNDECIDED


def _final(model: dict[str, Any]) -> dict[str, Any] | None:
    return next((plan for plan in model["plans"] if plan["name"] == FINAL), None)


def _speed(ratio: Mapping[str, Any] | None) -> str | None:
    """The verdict of a ratio in a record; None without one."""
    from tvm.relay.collage.measure import Interval

    return None if ratio is None else verdict_of(Interval.from_json(ratio))


def _wrong_output(plan: dict[str, Any], reference: str) -> list[str]:
    if plan["status"] != "measured":
        return [f"plan {plan['name']} failed: {plan['status']}: {plan['message']}"]
    error = plan["output_error"]
    if error is None:
        return [f"outputs of plan {plan['name']} were not compared with those of {reference}"]
    if not error <= OUTPUT_TOLERANCE:
        return [
            f"outputs of plan {plan['name']} differ from those of {reference} by {error:.2g} of "
            f"the largest value (at most {OUTPUT_TOLERANCE:g})"
        ]
    return []


def _too_slow(final: dict[str, Any]) -> list[str]:
    verdict = _speed(final["ratio_to_best_single"])
    if verdict is None:
        return ["the final plan could not be compared with a single backend"]
    if verdict == SLOWER:
        return [
            f"the final plan is {ratio_text(final)} as fast as the best backend alone; the whole "
            f"interval is below {LOWEST_RATIO}"
        ]
    return []
