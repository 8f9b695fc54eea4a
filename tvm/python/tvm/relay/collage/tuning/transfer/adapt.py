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

# Steps that name one stage and nothing else that differs between kernels.
_PLAIN = {"AN", "FU", "PR", "RE", "CI", "CR", "SA"}
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
    adapted = _Adapted(source, target)
    for role in target.roles:
        if role not in source.roles:
            adapted.steps.append(["CI", target.roles.index(role)])
    for number, step in enumerate(steps):
        place = adapted.add(step, extent)
        if place is not None:
            adapted.places[number] = place
    return adapted.steps


def nearest_lengths(lengths: Sequence[int], extent: int) -> list[int]:
    """Return lengths of inner loops whose product divides `extent`, each as near as can be by its
    ratio to what it was, the innermost first, since registers and vectors are filled there."""
    found: list[int] = []
    left = extent
    for length in reversed(lengths):
        nearest = min(_divisors(left), key=lambda d: (abs(math.log(d / length)), d))
        found.append(nearest)
        left //= nearest
    return found[::-1]


class _Adapted:
    """The new steps so far, with both kernels' stages as they are after them."""

    def __init__(self, source: AnsorKernel, target: AnsorKernel) -> None:
        self.steps: list[Step] = []
        # The number that a step of the source has among the new ones.
        self.places: dict[int, int] = {}
        self._source, self._target = list(source.roles), list(target.roles)

    def add(self, step: Step, extent: Extent) -> int | None:
        """Add a step and return its number; None where the kernel has nothing that it applies
        to."""
        kind, number = step[0], step[1]
        role = self._source[number]
        if role not in self._target:
            if kind in _ADDS:
                raise Misfit(f"step {kind} needs the {role}, which this kernel has not")
            return None
        stage = self._target.index(role)
        self.steps.append([kind, stage, *self._rest(step, stage, extent)])
        if kind in _ADDS:
            what, after = _ADDS[kind]
            self._source.insert(number + after, f"{what} {role}")
            self._target.insert(stage + after, f"{what} {role}")
        return len(self.steps) - 1

    def _rest(self, step: Step, stage: int, extent: Extent) -> list[Any]:
        """Return what comes after the stage's number in the new step."""
        kind, _, *rest = step
        if kind in _PLAIN or kind in ("CHW", "RF"):
            return rest
        if kind == "SP":
            loop, _, lengths, inner_to_outer = rest
            size = extent(self.steps, stage, loop)
            if size is None:
                raise Misfit(f"step SP splits a loop of the {self._target[stage]} of unknown size")
            return [loop, size, nearest_lengths(lengths, size), inner_to_outer]
        if kind == "CA":
            return [self._stage(rest[0], kind), rest[1]]
        if kind == "CHR":
            return [rest[0], [self._stage(reader, kind) for reader in rest[1]]]
        if kind == "FSP":
            return [rest[0], self._place(rest[1], kind), *rest[2:]]
        if kind == "FFSP":
            return [rest[0], [self._place(each, kind) for each in rest[1]], *rest[2:]]
        raise Misfit(f"step {kind} is not known")

    def _stage(self, number: int, kind: str) -> int:
        role = self._source[number]
        if role not in self._target:
            raise Misfit(f"step {kind} needs the {role}, which this kernel has not")
        return self._target.index(role)

    def _place(self, number: int, kind: str) -> int:
        if number not in self.places:
            raise Misfit(f"step {kind} follows a split of padding, which this kernel has not")
        return self.places[number]


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small)]
