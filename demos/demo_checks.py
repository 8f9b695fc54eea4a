# SPDX-License-Identifier: Apache-2.0
"""What the demo expects of each model; a broken expectation is one line of text.

Test: demos/test_demo.py.
"""

from __future__ import annotations

from typing import Any

# Largest difference of outputs, as a share of the reference's largest value, before any arg-max.
OUTPUT_TOLERANCE = 1e-4
# 95 % sure that the shipped plan is no slower than 1 / 0.97 of the best backend alone.
LOWEST_RATIO = 0.97
FINAL = "final"


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
    final = next((plan for plan in model["plans"] if plan["name"] == FINAL), None)
    if final is None or final["status"] != "measured":
        lines.append("the final plan was not measured")
    elif judge_speed:
        lines += _too_slow(final)
    return [f"{model['name']}: {line}" for line in lines]


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
    ratio = final["ratio_to_best_single"]
    if ratio is None:
        return ["the final plan could not be compared with a single backend"]
    if ratio["high"] is None:
        return ["the final plan had too few rounds beside the best backend alone to be sure"]
    if ratio["low"] < LOWEST_RATIO:
        return [
            "the final plan is {value:.3f} [{low:.3f}, {high:.3f}] times as fast as the best "
            "backend alone; the interval must not go below {limit}".format(
                **ratio, limit=LOWEST_RATIO
            )
        ]
    return []
