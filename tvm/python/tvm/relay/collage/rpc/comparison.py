# SPDX-License-Identifier: Apache-2.0
"""Whole models compared on a device, as measure.compare does here. Test: rpc/test_devices.py.

All contestants run on one device, each in a process of its own there; nothing crosses the network
meanwhile but a sign of life. If the device is lost, another begins anew.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

from ..costs.cost import Cost
from ..costs.statistics import Interval
from ..exec.pool import Job, drive
from ..exec.reply import Reply
from ..exec.resolve import call_of, path_of, resolve
from ..measure.race.comparison import Comparison, RightOutputs, compared
from ..measure.race.race import Contestant, RaceOptions
from ..measure.race.rounds import EarlyEnd, Enough, Further
from .device_pool import DevicePool

# Each request has a limit of its own there, and a device that falls silent is lost long before.
_LONGEST_SECONDS = 24 * 3600.0


def compare_on_device(
    pool: DevicePool, contestants: Sequence[Contestant], right: RightOutputs, options: RaceOptions
) -> list[Comparison]:
    """Compare as measure.compare does; contestants are libraries (Contestant.of_library).

    What `further` asks is a functools.partial of a module's function with JSON keywords; on_round
    is told of the end alone, on_wait of nothing, spares and `exact`, which are of this process, are
    not asked. DeviceError when no device is left, RuntimeError when the comparison itself fails
    there.
    """
    for contestant in contestants:
        if not {"library", "inputs"} <= set(contestant.arguments):
            raise ValueError(f"contestant {contestant.name!r} is no library")
    files = {c.arguments[name] for c in contestants for name in ("library", "inputs")}
    files |= {right.truth} if right.truth else set()
    call = call_of(
        compare_here,
        contestants=[dataclasses.asdict(c) for c in contestants],
        right={**vars(right), "references": list(right.references), "exact": None},
        further=_further_to_json(options.further),
        options=_options_to_json(options),
    )
    replies: list[Reply] = []
    pool.submit(Job("call", call, _LONGEST_SECONDS, tuple(sorted(files))), replies.append)
    drive(pool)
    (reply,) = replies
    if reply.outcome != "ok":
        raise RuntimeError(f"the comparison on device {pool.info.address} fails: {reply.message}")
    comparisons = [_from_json(fields) for fields in reply.value]
    if options.on_round is not None:
        done = max(len(item.samples) for item in comparisons)
        options.on_round(done, done)
    return comparisons


def compare_here(
    contestants: list[dict[str, Any]],
    right: dict[str, Any],
    further: list[Any] | None,
    options: dict[str, Any],
) -> list[dict[str, Any]]:
    """Compare for a device's worker: the comparisons' fields as JSON values."""
    if further is not None:
        path, keywords, seconds = further
        options["further"] = Further(functools.partial(resolve(path), **keywords), seconds)
    for name, kind in (("early_end", EarlyEnd), ("enough", Enough)):
        if options[name] is not None:
            options[name] = kind(*options[name])
    options["seconds"] = math.inf if options["seconds"] is None else options["seconds"]
    found = compared(
        [Contestant(**c) for c in contestants], RightOutputs(**right), RaceOptions(**options)
    )
    return [{**dataclasses.asdict(item), "cost": item.cost.to_json()} for item in found]


# What is of the process that asks.
_NOT_SENT = {"further", "spares", "on_round", "on_wait"}


def _options_to_json(options: RaceOptions) -> dict[str, Any]:
    fields = {name: value for name, value in vars(options).items() if name not in _NOT_SENT}
    lists = {name: list(fields[name]) for name in ("stays", "imports")}
    # JSON has no infinity.
    return fields | lists | {"seconds": None if math.isinf(options.seconds) else options.seconds}


def _further_to_json(further: Further | None) -> list[Any] | None:
    if further is None:
        return None
    question = further.in_question
    if not isinstance(question, functools.partial) or question.args:
        raise ValueError("a device is told what `further` asks as a partial of a named function")
    return [path_of(question.func), dict(question.keywords), further.seconds]


def _from_json(fields: dict[str, Any]) -> Comparison:
    ratio = fields["ratio_to_best"]
    fields["cost"] = Cost.from_json(fields["cost"])
    fields["ratio_to_best"] = None if ratio is None else Interval(*ratio)
    fields["samples"] = tuple(fields["samples"])
    return Comparison(**fields)
