# SPDX-License-Identifier: Apache-2.0
"""Kinds, types and sets of nodes, as plain values. Test: views/test_views.py."""

from __future__ import annotations

import dataclasses
import enum

from .handle import call


class OpKind(enum.IntEnum):
    """What TVM can fuse; the numbers are those of ``tvm.relay.op.OpPattern``."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


@dataclasses.dataclass(frozen=True)
class TensorType:
    """A tensor's type; a dimension that is not known at compile time is None."""

    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        dims = ", ".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"{self.dtype}[{dims}]"


class IndexSet(frozenset):
    """Node indexes of one graph, as C++ keeps them in a bitset; a frozenset in Python."""

    def Summary(self) -> str:
        """Runs shortened, "{0,3..7,9}"; count and ends alone when that would be long."""
        return str(call("IndexSetSummary", sorted(self)))

    __repr__ = Summary
