# SPDX-License-Identifier: Apache-2.0
"""Whole models compared on a device, as measure.compare does here. Test: rpc/test_devices.py.

All contestants run on one device, each in a process of its own there; nothing crosses the network
meanwhile but a sign of life. If the device is lost, another begins anew.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..costs.cost import Cost
from ..costs.statistics import Interval
from ..exec.pool import Job, drive
from ..exec.reply import Reply
from ..exec.resolve import path_of, resolve
from ..measure.race.comparison import Comparison, compare
from ..measure.race.interleave import Contestant
from ..measure.race.rounds import Further, Race
from .device_pool import DevicePool

# Each request has a limit of its own there, and a device that falls silent is lost long before.
_LONGEST_SECONDS = 24 * 3600.0


def compare_on_device(
    pool: DevicePool,
    contestants: Sequence[Contestant],
    reference: str | Sequence[str] | None = None,
    rounds: int = 30,
    rtol: float | None | Mapping[str, float] = 1e-4,
    *,
    truth: str = "",
    exact: Any = None,
    further: Further | None = None,
    on_round: Callable[[int, int], None] | None = None,
    on_wait: Callable[[str], None] | None = None,
    **options: Any,
) -> list[Comparison]:
    """As measure.compare; contestants are libraries (Contestant.of_library). What `further` asks is
    a functools.partial of a module's function with JSON keywords, other options are JSON values;
    on_round is told of the end alone, on_wait of nothing, and `exact`, which is of this process, is
    not asked. Raises DeviceError when no device is left, RuntimeError when the comparison itself
    fails there."""
    for contestant in contestants:
        if not {"library", "inputs"} <= set(contestant.arguments):
            raise ValueError(f"contestant {contestant.name!r} is no library")
    files = {c.arguments[name] for c in contestants for name in ("library", "inputs")}
    files |= {truth} if truth else set()
    arguments = {
        "contestants": [dataclasses.asdict(c) for c in contestants],
        "reference": reference if isinstance(reference, str) else list(reference or []),
        "rounds": rounds,
        "rtol": rtol,
        "truth": truth,
        "further": None if further is None else _further_to_json(further),
        "options": options,
    }
    call = {"function": path_of(compare_here), "arguments": arguments}
    replies: list[Reply] = []
    pool.submit(Job("call", call, _LONGEST_SECONDS, tuple(sorted(files))), replies.append)
    drive(pool)
    (reply,) = replies
    if reply.outcome != "ok":
        raise RuntimeError(f"the comparison on device {pool.info.address} fails: {reply.message}")
    comparisons = [_from_json(fields) for fields in reply.value]
    if on_round is not None:
        done = max(len(item.samples) for item in comparisons)
        on_round(done, done)
    return comparisons


def compare_here(
    contestants: list[dict[str, Any]],
    reference: str | list[str],
    rounds: int,
    rtol: float | None | dict[str, float],
    truth: str,
    further: list[Any] | None,
    options: dict[str, Any],
) -> list[dict[str, Any]]:
    """What the device's worker does: the comparisons' fields as JSON values."""
    if further is not None:
        path, keywords, seconds = further
        options["further"] = Further(functools.partial(resolve(path), **keywords), seconds)
    if options.get("race") is not None:
        options["race"] = Race(*options["race"])
    found = compare(
        [Contestant(**c) for c in contestants], reference, rounds, rtol, truth=truth, **options
    )
    return [{**dataclasses.asdict(item), "cost": item.cost.to_json()} for item in found]


def _further_to_json(further: Further) -> list[Any]:
    question = further.in_question
    if not isinstance(question, functools.partial) or question.args:
        raise ValueError("a device is told what `further` asks as a partial of a named function")
    return [path_of(question.func), dict(question.keywords), further.seconds]


def _from_json(fields: dict[str, Any]) -> Comparison:
    ratio = fields["ratio_to_best"]
    return Comparison(
        **{
            **fields,
            "cost": Cost.from_json(fields["cost"]),
            "ratio_to_best": None if ratio is None else Interval(*ratio),
            "samples": tuple(fields["samples"]),
        }
    )
