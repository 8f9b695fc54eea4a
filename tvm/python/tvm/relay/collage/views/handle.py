# SPDX-License-Identifier: Apache-2.0
"""Handles on objects of the C++ library; kinds, types and sets of nodes as plain values.
Test: views/test_views.py."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterable
from typing import Any, ClassVar

from tvm._ffi import get_global_func
from tvm.runtime import Object

from ..files.records import read_json


class View(Object):
    """A handle on an object of the C++ library, whose fields are fetched at their first use."""

    __slots__ = ("__dict__",)

    RECORD: ClassVar[type]  # what C++ tells of such an object (border.schema.json)

    @functools.cached_property
    def _fields(self) -> Any:
        return read_json(self.RECORD, call(f"{type(self).__name__}Fields", self))

    def __getattr__(self, name: str) -> Any:
        # TVM's would ask the C++ object's reflection, which these have none of.
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def Summary(self) -> str:
        """Return one line for logs and tables."""
        return self._fields.summary

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.Summary()})"


def call(name: str, *args: Any) -> Any:
    return get_global_func(f"collage.view.{name}")(*args)


def ints(indices: Iterable[int]) -> list[int]:
    return [int(index) for index in indices]


class OpKind(enum.IntEnum):
    """The kind of an operator as TVM fuses; the numbers are those of ``tvm.relay.op.OpPattern``."""

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
        """Return the runs shortened, "{0,3..7,9}"; count and ends alone when that would be long."""
        return str(call("IndexSetSummary", sorted(self)))

    __repr__ = Summary
