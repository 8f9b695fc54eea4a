# SPDX-License-Identifier: Apache-2.0
"""Measured == deployed: the kernels of a placement's parts, each built alone as it is measured,
beside those of the network that ships; what differs is named by its cause.

Precondition: the placement is for this module, on this machine.
Test: measure/profiler/test_compiled_kernels.py.
Docs: docs/measuring.md.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tvm

from ...backends.accuracy import keeping, with_kept_calls
from ...candidate.candidate import CandidateModule, deployable_module, deployed_candidate
from ...compile import build_library, host_target, prepare
from ...costs.kernel import KernelChoice, with_kernels
from ...estimators.row import build_options, tuning_records
from ...measure.builder import build_module
from ...measure.options import MeasureOptions
from ...measure.profiler.compiled_kernels import CompiledKernel, kernels_of
from ...relay_util.external import TVM_BACKEND
from ...relay_util.node_spans import stamp_nodes
from . import PlacedPart, Placement
from .replay import apply_placement, part_modules, parts_of

# Cause -> what TVM's passes do to the kernels of its own parts. Anything else is "unexplained".
CAUSES = {
    "border": "a layout transform at the border of parts is a kernel here and not there",
    "fused transform": "a layout transform at the border is fused into the kernel here or there",
    "layout": "the same operators on the same values in another layout",
    "tuple": "the kernel is passed all fields of a tuple of which it reads one",
    "fusion": "FuseOps groups the operators of neighbouring parts into other kernels",
}
UNEXPLAINED = "unexplained"
_TRANSFORM = "layout_transform"
# SimplifyExpr divides by a root as a product with its reciprocal, where both are in one body.
_SIMPLIFIED = {"sqrt": "rsqrt", "divide": "multiply"}
_RESHAPES = ("reshape", "squeeze", "expand_dims", "nn.batch_flatten")


class PartCandidate(NamedTuple):
    """A part, its module with its own weights, and what is measured for it."""

    part: PlacedPart
    mod: tvm.IRModule
    candidate: CandidateModule


@dataclasses.dataclass(frozen=True)
class KernelDifference:
    """Kernels of the network that stand for other ones of the parts alone; either may be none."""

    cause: str
    network: tuple[CompiledKernel, ...]
    alone: tuple[CompiledKernel, ...]

    def Summary(self) -> str:
        sides = ("; ".join(k.Summary() for k in side) or "-" for side in (self.network, self.alone))
        return f"{self.cause}: in the network {next(sides)}; alone {next(sides)}"


@dataclasses.dataclass(frozen=True)
class KernelComparison:
    """same: calls of equal kernels, in the network and alone; the rest is `differences`."""

    same: tuple[tuple[CompiledKernel, CompiledKernel], ...]
    differences: tuple[KernelDifference, ...]

    def counts(self) -> dict[str, int]:
        """Differences by cause, the causes that occur."""
        return dict(Counter(item.cause for item in self.differences))

    def unexplained(self) -> list[KernelDifference]:
        return [item for item in self.differences if item.cause == UNEXPLAINED]

    def Summary(self) -> str:
        """One line: how many calls are equal, and how many differences have which cause."""
        counts = "".join(f", {count} {cause}" for cause, count in sorted(self.counts().items()))
        return f"{len(self.same)} kernels as measured{counts}"


def compare_kernels(
    mod: tvm.IRModule,
    placement: Placement,
    params: dict[str, Any] | None = None,
    host: tvm.target.Target | None = None,
    *,
    own_weights: bool = False,
) -> KernelComparison:
    """Build the network that the placement makes of `mod`, and each of its parts alone as the
    workers build it; compare their kernels. `host`: the host target, this machine's by default.

    Parts alone get random weights, as they do for measuring, and only the weights' types are
    compared; with `own_weights` they get the network's, and the (packed) values are compared too.
    PlacementError when the placement is not for this module.
    """
    host = tvm.target.Target(host or host_target())
    made = placement.made_with
    prepared = stamp_nodes(
        prepare(mod, params, host, opt_level=made.opt_level, is_simplified=made.is_simplified)
    )
    used = {p.backend for f in placement.functions for p in f.parts if p.is_compiled}
    deployed = apply_placement(prepared, placement, host, external=used - {host.kind.name})
    network = kernels_of(build_library(deployed, host, opt_level=None))
    with keeping(placement.kept):
        alone = _kernels_alone(prepared, placement, host, own_weights=own_weights)
    return match_kernels(network, alone, own_weights)


def match_kernels(
    network: Sequence[CompiledKernel], alone: Sequence[CompiledKernel], compare_values: bool = False
) -> KernelComparison:
    """Pair the calls of both sides, and name the cause of what has no equal."""
    left, right, same = _take_equal(network, alone, compare_values)
    differences = [
        *_take(left, right, "tuple", key=_results, is_caused=_reads_fields),
        *_take(
            left,
            right,
            "fused transform",
            key=_computes,
            is_caused=lambda a, b: _moves(a) != _moves(b),
        ),
        *_take(left, right, "layout", key=_computes, is_caused=lambda a, b: a.types != b.types),
        *_take_borders(left, right),
        *_take_moved_fields(left),
    ]
    if left or right:
        cause = "fusion" if _is_regrouped(left, right) else UNEXPLAINED
        differences.append(KernelDifference(cause, tuple(left), tuple(right)))
    return KernelComparison(tuple(same), tuple(differences))


def part_candidates(
    prepared: tvm.IRModule,
    parts_by_function: Mapping[str, Sequence[PlacedPart]],
    host: tvm.target.Target,
    kernels: Sequence[KernelChoice] = (),
) -> list[PartCandidate]:
    """Return what is measured for each part that launches a kernel, in the current PassContext;
    `kernels` are those that steps of the parts run by."""
    modules, records = part_modules(prepared, parts_by_function), tuning_records(str(host))
    found = []
    for name, parts in parts_by_function.items():
        for part, mod in zip(parts, modules[name], strict=True):
            if not part.is_compiled and part.backend != host.kind.name:
                continue  # the host's: no kernel runs
            backend = part.backend if part.is_primitive else TVM_BACKEND
            candidate = deployed_candidate(
                with_kernels(with_kept_calls(deployable_module(mod)), kernels),
                backend,
                str(host),
                build_options=build_options(),
                label=part.label,
                tuning=records,
            )
            found.append(PartCandidate(part, mod, candidate))
    return found


def _kernels_alone(
    prepared: tvm.IRModule, placement: Placement, host: tvm.target.Target, own_weights: bool
) -> list[CompiledKernel]:
    """Kernels of all parts that a backend runs; equal candidates are built once."""
    options, kernels = MeasureOptions(), placement.kernels
    built: dict[Any, list[CompiledKernel]] = {}
    found: list[CompiledKernel] = []
    for _, mod, candidate in part_candidates(prepared, parts_of(placement), host, kernels=kernels):
        key = len(built) if own_weights else candidate.key()
        if key not in built:
            if own_weights:
                mod = with_kernels(with_kept_calls(deployable_module(mod)), kernels)
            else:
                mod = candidate.instantiate(options.seed)
            built[key] = kernels_of(build_module(mod, candidate, options.builder))
        found += built[key]
    return found


def _take_equal(
    network: Sequence[CompiledKernel], alone: Sequence[CompiledKernel], compare_values: bool
) -> tuple[list[CompiledKernel], list[CompiledKernel], list[tuple[CompiledKernel, CompiledKernel]]]:
    """Return what has no equal on the other side, of either, and the pairs that are equal."""

    def key(kernel: CompiledKernel) -> tuple:
        values = kernel.values if compare_values else ""
        return kernel.backend, kernel.code, kernel.weights, values

    waiting = defaultdict(list)
    for kernel in alone:
        waiting[key(kernel)].append(kernel)
    left, same = [], []
    for kernel in network:
        if waiting[key(kernel)]:
            same.append((kernel, waiting[key(kernel)].pop(0)))
        else:
            left.append(kernel)
    return left, [kernel for kernels in waiting.values() for kernel in kernels], same


def _take(
    left: list[CompiledKernel],
    right: list[CompiledKernel],
    cause: str,
    key: Callable[[CompiledKernel], Any],
    is_caused: Callable[[CompiledKernel, CompiledKernel], bool],
) -> list[KernelDifference]:
    """Pairs of TVM's kernels that agree in `key` and differ as the cause says."""
    by_key = defaultdict(list)
    for kernel in right:
        by_key[key(kernel)].append(kernel)
    found = []
    for kernel in list(left):
        other = next((o for o in by_key[key(kernel)] if is_caused(kernel, o)), None)
        if kernel.backend != TVM_BACKEND or _is_transform(kernel) or other is None:
            continue
        by_key[key(kernel)].remove(other)
        left.remove(kernel)
        right.remove(other)
        found.append(KernelDifference(cause, (kernel,), (other,)))
    return found


def _take_borders(
    left: list[CompiledKernel], right: list[CompiledKernel]
) -> list[KernelDifference]:
    taken = [[kernel for kernel in side if _is_transform(kernel)] for side in (left, right)]
    for side in (left, right):
        side[:] = [kernel for kernel in side if not _is_transform(kernel)]
    found = [KernelDifference("border", (kernel,), ()) for kernel in taken[0]]
    return found + [KernelDifference("border", (), (kernel,)) for kernel in taken[1]]


def _take_moved_fields(left: list[CompiledKernel]) -> list[KernelDifference]:
    """Another shape, which is no kernel elsewhere, of one field of a tuple."""
    moved = [k for k in left if set(k.ops) <= set(_RESHAPES) and k.types.index("->") > 1]
    left[:] = [kernel for kernel in left if kernel not in moved]
    return [KernelDifference("tuple", (kernel,), ()) for kernel in moved]


def _is_transform(kernel: CompiledKernel) -> bool:
    return kernel.ops == (_TRANSFORM,)


def _compute(kernel: CompiledKernel) -> tuple[str, ...]:
    return tuple(op for op in kernel.ops if op != _TRANSFORM)


def _moves(kernel: CompiledKernel) -> int:
    return kernel.ops.count(_TRANSFORM)


def _computes(kernel: CompiledKernel) -> tuple:
    """Equal for kernels that differ in layouts alone: operators, and the size of each value."""
    return _compute(kernel), tuple(sorted(map(_size, kernel.types)))


def _results(kernel: CompiledKernel) -> tuple:
    return kernel.ops, kernel.types[kernel.types.index("->") :]


def _reads_fields(network: CompiledKernel, alone: CompiledKernel) -> bool:
    """Does the network's kernel take what the other does, and more?"""
    return Counter(alone.types) < Counter(network.types)


def _is_regrouped(network: Sequence[CompiledKernel], alone: Sequence[CompiledKernel]) -> bool:
    """Do both sides compute the same in TVM's kernels, grouped otherwise? Ops that only give a
    tensor another shape are counted in neither, since alone they are no kernel."""

    def operators(kernels: Sequence[CompiledKernel]) -> list[str]:
        ops = [op for kernel in kernels for op in _compute(kernel) if op not in _RESHAPES]
        return sorted(_SIMPLIFIED.get(op, op) for op in ops)

    is_tvm = all(kernel.backend == TVM_BACKEND for kernel in (*network, *alone))
    alike = [{(k.ops, k.types) for k in side} for side in (network, alone)]
    sizes = [{_size(k.types[-1]) for k in side} for side in (network, alone)]
    is_same_work = operators(network) == operators(alone) and sizes[0] & sizes[1]
    return bool(is_tvm and is_same_work and not alike[0] & alike[1])


def _size(tensor: str) -> int:
    """Elements of a type such as float32[1,3,8,8]; -1 for the arrow between inputs and outputs."""
    dims = re.search(r"\[(.*)\]", tensor)
    return math.prod(int(dim) for dim in dims[1].split(",") if dim) if dims else -1
