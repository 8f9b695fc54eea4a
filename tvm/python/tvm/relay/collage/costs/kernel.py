# SPDX-License-Identifier: Apache-2.0
"""Steps of a part that its backend can run by several kernels, and which of these was fastest.

Choices travel as an attribute of the part's function: into candidates, what ships and workers
alike, so that what is measured runs the kernels that are deployed. Test: costs/test_kernel.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tvm
from tvm import relay

from ..files.records import described
from ..relay_util.external import is_external_function
from ..relay_util.walk import elements_of, nodes_of, tensors_of
from .cost import Cost, PartCost, format_seconds
from .statistics import Interval

# The attribute of a part's function: JSON of {key of a step: [kernel, times for people]}; the
# kernel is "" where the usual one was fastest, which its place in the part may make another.
KERNELS = "collage_kernels"
# A kernel replaces the usual one where it takes less than this share of its time. Below that it is
# chance which of two is faster, and a plan should not depend on chance.
_SHARE = 0.98

Run = Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class KernelStep:
    """A step of a part that its backend can run by several kernels."""

    backend: str
    text: str  # all that decides how long it takes, in the backend's own words
    label: str  # for people
    kernels: tuple[str, ...]  # names, first the one that runs unless another is chosen
    # elements of its tensors; a part without a tensor of each size cannot have the step
    sizes: frozenset[int] = frozenset()
    budget_seconds: float = 0.25  # of timing all kernels; those that are far slower drop out before
    further_seconds: float = 0.0  # of more rounds for those that may be faster than the usual one
    work: float = 0.0  # of all such steps of a part, by which trials are ordered
    # the text of a step of parts that are not timed, which run by the kernel on which all steps
    # agree that stand for it; "" for none
    stands_for: str = ""
    # whether it is timed by the kernels chosen for the other steps, which its text names
    is_last: bool = False

    @property
    def key(self) -> str:
        """16 hex digits, equal for equal steps."""
        return kernel_key(self.text)


def kernel_key(text: str) -> str:
    """Return the key of the step of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class KernelRuns(NamedTuple):
    """Runs of a step by one of its kernels."""

    open: Callable[[], Run]  # makes one on weights of its own, which its first run may pack
    weight_bytes: int  # of these weights; 0: one copy will do
    arrays: Sequence[tvm.nd.NDArray]  # what each of them reads and writes beside


@dataclasses.dataclass(frozen=True)
class KernelTrial:
    """One kernel of a step, as the store keeps its cost: it stands where a candidate would."""

    step: KernelStep
    kernel: str

    target = ""  # no compiler of TVM's has a hand in it
    needs_caches = True

    @property
    def backend(self) -> str:
        return self.step.backend

    @property
    def hash(self) -> str:
        return self.step.key

    @property
    def label(self) -> str:
        return self.Summary()

    def options_text(self) -> str:
        return json.dumps({"kernel": self.kernel})

    def Summary(self) -> str:
        """Return one line for logs."""
        return f"{self.backend}: {self.step.label} by {self.kernel}"


@dataclasses.dataclass(frozen=True)
class TriedKernel:
    """A kernel of a step, and what it took."""

    name: str = described("as the backend calls it")
    cost: PartCost = described("of the step alone")

    def Summary(self) -> str:
        """e.g. "matmul brg:avx512_core 1.2 ms"."""
        seconds = self.cost.seconds
        return f"{self.name} {self.cost.status if seconds is None else format_seconds(seconds)}"


@dataclasses.dataclass(frozen=True)
class KernelChoice:
    """The kernel by which a step runs."""

    backend: str = described("whose step it is")
    step: str = described("hash of all that decides how long it takes", pattern="^[0-9a-f]{16}$")
    label: str = described("the step, for people")
    sizes: tuple[int, ...] = described("elements of its tensors, sorted", minimum=0)
    kernel: str = described("the one that runs")
    tried: tuple[TriedKernel, ...] = described("all that were measured, first the usual one")

    @property
    def is_usual(self) -> bool:
        """Return whether it runs without being chosen."""
        return bool(self.tried) and self.kernel == self.tried[0].name

    def times(self) -> str:
        """Return the times that it was chosen by, for people; "" where nobody says."""
        return ", ".join(tried.Summary() for tried in self.tried)

    def Summary(self) -> str:
        return f"{self.backend}: {self.label} by {self.kernel} ({self.times() or 'no times'})"


def choose(step: KernelStep, costs: Mapping[str, Cost]) -> KernelChoice:
    """Choose the usual kernel of a step, or the fastest where that is surely faster."""
    usual = step.kernels[0]
    working = [name for name in step.kernels if costs[name].is_usable]
    if usual in working:
        working = [name for name in working if _is_surely_faster(costs[name], costs[usual])]
    best = min(working, key=lambda name: costs[name].seconds or 0.0, default=usual)
    tried = tuple(TriedKernel(name, costs[name].of_part()) for name in step.kernels)
    return KernelChoice(
        step.backend,
        step.key,
        step.label,
        sizes=tuple(sorted(step.sizes)),
        kernel=best,
        tried=tried,
    )


def of_others(steps: Sequence[KernelStep], choices: Sequence[KernelChoice]) -> list[KernelChoice]:
    """Return the choices for parts that were not timed, by those of the steps that stand for
    theirs, in the same order: none where these disagree, or agree on the usual kernel."""
    found: dict[tuple[str, str], list[KernelChoice]] = {}
    for step, choice in zip(steps, choices, strict=True):
        if step.stands_for:
            found.setdefault((step.backend, step.stands_for), []).append(choice)
    return [
        dataclasses.replace(group[0], step=kernel_key(text), label=text, sizes=())
        for (_, text), group in found.items()
        if len({choice.kernel for choice in group}) == 1 and not group[0].is_usual
    ]


def _is_surely_faster(cost: Cost, usual: Cost) -> bool:
    """Return whether it is faster by a share that counts, and by more than either is uncertain."""
    if cost.high is None or usual.low is None or cost.high >= usual.low:
        return False
    return (cost.seconds or 0.0) < _SHARE * (usual.seconds or 0.0)


def is_undecided(ratio: Interval) -> bool:
    """Return whether more samples may choose a kernel of this ratio to the usual one's time."""
    return ratio.low < _SHARE and ratio.high >= 1


def for_candidates(choices: Iterable[KernelChoice]) -> tuple[KernelChoice, ...]:
    """Return the choices that change what runs, without the times: a candidate's key should not
    depend on more than its kernels."""
    return tuple(dataclasses.replace(choice, tried=()) for choice in choices if not choice.is_usual)


def choices_of(function: relay.Function, choices: Sequence[KernelChoice]) -> list[KernelChoice]:
    """Return the choices that steps of a part (typed) may have; perhaps more, never fewer."""
    mine = [c for c in choices if c.backend == str(function.attrs["Compiler"])]
    if not mine:
        return []
    sizes = _tensor_sizes(function)
    return [choice for choice in mine if sizes.issuperset(choice.sizes)]


def with_kernels(mod: tvm.IRModule, choices: Sequence[KernelChoice]) -> tvm.IRModule:
    """`mod` (typed) with parts that say by which kernels their steps run."""
    result = mod
    for var, function in mod.functions_items() if choices else ():
        if not is_external_function(function):
            continue
        saying = part_with_kernels(function, choices)
        if saying is not function:
            if result is mod:
                result = mod.clone()
            result.update_func(var, saying)
    return result


def part_with_kernels(function: relay.Function, choices: Sequence[KernelChoice]) -> Any:
    """Return a part (typed) that says by which kernels its steps run."""
    mine = choices_of(function, choices)
    chosen = {c.step: ["" if c.is_usual else c.kernel, c.times()] for c in mine}
    if not chosen:
        return function
    return function.with_attr(KERNELS, json.dumps(chosen, sort_keys=True))


def as_built(mod: tvm.IRModule) -> tvm.IRModule:
    """Return `mod` as far as its build depends on it: of parts that say by which kernels their
    steps run, those that are not the usual ones alone, and no times."""
    result = mod.clone()
    for var, function in mod.functions_items():
        names = kernels_in(function)
        if names:
            other = {step: name for step, (name, _) in names.items() if name}
            bare = function.without_attr(KERNELS)
            result.update_func(var, bare.with_attr(KERNELS, str(other)) if other else bare)
    return result


def kernels_in(function: relay.Function) -> dict[str, tuple[str, str]]:
    """Read from the function of a part: (kernel, times for people) by the key of the step."""
    text = function.attrs.get(KERNELS) if function.attrs else None
    return {key: tuple(pair) for key, pair in json.loads(str(text)).items()} if text else {}


def _tensor_sizes(function: relay.Function) -> set[int | None]:
    """Return the elements of the tensors that a part reads, makes or holds, and 1."""
    values = nodes_of(function, tvm.relay.Call, tvm.relay.Var, tvm.relay.Constant)
    return {1, *(elements_of(each) for value in values for each in tensors_of(value.checked_type))}
