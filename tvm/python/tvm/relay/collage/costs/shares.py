# SPDX-License-Identifier: Apache-2.0
"""Times of a library's kernels, shared out among the operators that they compute.

A library joins operators into kernels as it likes, and its profile names a kernel by one of them,
or by some. What the others took is inside that time. Assumption: a kernel is named by the last
operator that it computes, or by the one that takes most of its time. Where a library names it by
the first one, a convolution, what follows is cheap, and its small share is the next kernel's. A
wrong share moves seconds between neighbours, and never changes the sum. Nothing here knows TVM.
Test: costs/test_shares.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

# An operator of less than this share of the most work in its kernel is as if it were free.
_FEW = 0.3


@dataclasses.dataclass(frozen=True)
class OperatorCall:
    """A call of an operator in a graph (border.schema.json)."""

    node: int  # its place in the graph: those that it reads have smaller ones
    inputs: list[int]  # the calls whose results it reads
    work: float  # an estimate, operations and bytes


@dataclasses.dataclass(frozen=True)
class KernelTime:
    """The time of a kernel."""

    nodes: tuple[int, ...]  # the calls that it is named by; at least one
    seconds: float


def share_out(calls: Sequence[OperatorCall], times: Iterable[KernelTime]) -> dict[int, float]:
    """Return the seconds of each call, of a piece that is run as a whole, by its node.

    `calls` in the order of their nodes. A call that names no kernel belongs to the nearest later
    kernel: one that reads its result, directly or by other such calls. Where none does, it belongs
    to the nearest earlier one, and where it has no such neighbours at all, to the next one in
    order. Kernels that are named by the same call are as one. Calls of a kernel share its time by
    their work, but for those of far less than the most: what is fused into a convolution takes next
    to nothing there, and alone it is cheap. The shares add up to the times; there are none without
    any time. Precondition: kernels are named by calls that are among these.
    """
    times = list(times)
    kernels = _joined(time.nodes for time in times)
    if not kernels:
        return {}
    found = _kernels_of_calls(calls, kernels)
    seconds = dict.fromkeys(kernels.values(), 0.0)
    for time in times:
        seconds[kernels[time.nodes[0]]] += time.seconds
    members: dict[int, list[OperatorCall]] = {kernel: [] for kernel in seconds}
    for call in calls:
        members[found[call.node]].append(call)
    shares = {}
    for kernel, of_kernel in members.items():
        most = max((call.work for call in of_kernel), default=0.0)
        work = {c.node: c.work if c.work >= _FEW * most else 0.0 for c in of_kernel}
        total = sum(work.values())
        for node, own in work.items():
            part = own / total if total > 0 else 1 / len(of_kernel)
            shares[node] = seconds[kernel] * part
    return {call.node: shares[call.node] for call in calls}


def _joined(names: Iterable[Sequence[int]]) -> dict[int, int]:
    """Return for each call that names a kernel the last call that names it, or one that has a name
    in common with it."""
    kernels: dict[int, int] = {}
    for nodes in names:
        same = {kernels[node] for node in nodes if node in kernels}
        last = max([*nodes, *same])
        kernels.update(dict.fromkeys(nodes, last))
        kernels.update({node: last for node, kernel in kernels.items() if kernel in same})
    return kernels


def _kernels_of_calls(calls: Sequence[OperatorCall], named: Mapping[int, int]) -> dict[int, int]:
    """Return for each call the kernel that computes it, as _joined tells kernels."""
    readers: dict[int, list[int]] = {call.node: [] for call in calls}
    for call in calls:
        for source in call.inputs:
            if source in readers:
                readers[source].append(call.node)
    kernels = dict(named)
    for call in reversed(calls):
        later = [kernels[reader] for reader in readers[call.node] if reader in kernels]
        if call.node not in kernels and later:
            kernels[call.node] = min(later)
    for call in calls:
        earlier = [kernels[source] for source in call.inputs if source in kernels]
        if call.node not in kernels and earlier:
            kernels[call.node] = max(earlier)
    nearest = kernels[max(kernels)]
    for call in reversed(calls):
        nearest = kernels.setdefault(call.node, nearest)
    return kernels
