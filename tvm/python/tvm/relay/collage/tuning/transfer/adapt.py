# SPDX-License-Identifier: Apache-2.0
"""A schedule of one kernel as the schedule of another of its class (paper, section 4).

Ansor's record is a list of steps that name stages by number and say lengths of inner loops. For the
other kernel, stages are found by their role; steps on padding that it does not have are left out,
padding that only it has is inlined; a length that does not divide the loop becomes the divisor
nearest to it. Assumed: kernels of one class have the same loops in the same order, so the
numbers of loops stay. A step that has no meaning there makes the schedule a Misfit.
Test: tuning/transfer/test_adapt.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..ansor_kernel import AnsorKernel

Step = list[Any]
# Iterations of a loop, after these steps: (steps, stage, loop); None where they are not known.
Extent = Callable[[Sequence[Step], int, int], int | None]

# Stages that a step adds: what they are to the stage that it names, and where they go.
_ADDS = {"CHW": ("cache of", 0), "RF": ("partial", 0), "CHR": ("copy of", 1)}


class Misfit(Exception):
    """A schedule that has no meaning for another kernel; the message says which step, and why."""


def adapt(
    steps: Sequence[Step], source: AnsorKernel, target: AnsorKernel, extent: Extent
) -> list[Step]:
    """Return steps for `target` that do to it what `steps` do to `source`. Misfit."""
    if source.kind != target.kind:
        raise Misfit(f"{source.name} and {target.name} are of different classes")
    if not isinstance(steps, list):
        raise Misfit(f"{steps} are no steps")
    adapted = _Adapted(source, target)
    for role in target.roles:
        if role not in source.roles:
            adapted.steps.append(["CI", target.roles.index(role)])
    for number, step in enumerate(steps):
        adapted.add(number, step, extent)
    return adapted.steps


def nearest_lengths(lengths: Sequence[int], extent: int) -> list[int]:
    """Return lengths of inner loops whose product divides `extent`, each as near as can be by its
    ratio to what it was, the innermost first, since registers and vectors are filled there."""
    found: list[int] = []
    left = extent
    for length in reversed(lengths):
        small = [d for d in range(1, math.isqrt(left) + 1) if left % d == 0]
        divisors = small + [left // d for d in small]
        nearest = min(divisors, key=lambda d: (abs(math.log(d / length)), d))
        found.append(nearest)
        left //= nearest
    return found[::-1]


class _Adapted:
    """The new steps so far, with both kernels' stages as they are after them."""

    def __init__(self, source: AnsorKernel, target: AnsorKernel) -> None:
        self.steps: list[Step] = []
        # The number that a step of the source has among the new ones.
        self._places: dict[int, int] = {}
        self._source, self._target = list(source.roles), list(target.roles)

    def add(self, number: int, step: Step, extent: Extent) -> None:
        """Add the source's step of this number, unless nothing of the kernel is what it names."""
        match step:
            case [str(kind), int(named), *rest] if 0 <= named < len(self._source):
                role = self._source[named]
            case _:
                raise Misfit(f"{step} is no step of this kernel")
        if role not in self._target and kind not in _ADDS:
            return
        stage = self._stage(named, kind)
        rest = self._rest(kind, rest, stage, extent=extent)
        self._places[number] = len(self.steps)
        self.steps.append([kind, stage, *rest])
        if kind in _ADDS:
            what, after = _ADDS[kind]
            self._source.insert(named + after, f"{what} {role}")
            self._target.insert(stage + after, f"{what} {role}")

    def _rest(self, kind: str, rest: Step, stage: int, extent: Extent) -> list[Any]:
        """Return what comes after the stage's number in the new step."""
        match kind, *rest:
            case (("AN" | "FU" | "PR" | "RE" | "CI" | "CR" | "SA" | "CHW" | "RF"), *_):
                return rest  # nothing else in these differs between kernels
            case "SP", int(loop), _, [*lengths], inner_to_outer if _are_numbers(lengths, least=1):
                size = extent(self.steps, stage, loop)
                if size is None:
                    role = self._target[stage]
                    raise Misfit(f"step SP splits a loop of the {role} of unknown size")
                return [loop, size, nearest_lengths(lengths, size), inner_to_outer]
            case "CA", int(at), loop:
                return [self._stage(at, kind), loop]
            case "CHR", scope, [*readers] if _are_numbers(readers):
                return [scope, [self._stage(reader, kind) for reader in readers]]
            case "FSP", loop, int(split), *more:
                return [loop, self._place(split, kind), *more]
            case "FFSP", loop, [*splits], *more if _are_numbers(splits):
                return [loop, [self._place(each, kind) for each in splits], *more]
        raise Misfit(f"step {kind} is not known, or not with {rest}")

    def _stage(self, number: int, kind: str) -> int:
        role = self._source[number] if 0 <= number < len(self._source) else f"stage {number}"
        if role not in self._target:
            raise Misfit(f"step {kind} needs the {role}, which this kernel has not")
        return self._target.index(role)

    def _place(self, number: int, kind: str) -> int:
        if number not in self._places:
            raise Misfit(f"step {kind} follows a split of padding, which this kernel has not")
        return self._places[number]


def _are_numbers(values: Sequence[object], least: int = 0) -> bool:
    return all(isinstance(value, int) and value >= least for value in values)
