# SPDX-License-Identifier: Apache-2.0
"""Handles on objects of the C++ library; kinds, types and sets of nodes as plain values.
Test: views/test_views.py."""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
import typing
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from tvm._ffi import get_global_func
from tvm.runtime import Object

from ..files.records import read_json


class Fact(NamedTuple):
    """A property of a View that C++ tells."""

    meaning: str


def fact(meaning: str) -> Any:
    """Return what stands for a property of a View, of the type that it is annotated with."""
    return Fact(meaning)


class View(Object):
    """A handle on an object of the C++ library, whose fields are fetched at their first use."""

    __slots__ = ("__dict__",)

    RECORD: ClassVar[type]  # the facts that C++ tells of such an object (border.schema.json)

    def __init_subclass__(cls) -> None:
        kinds = typing.get_type_hints(cls)
        facts = {name: fact for name, fact in vars(cls).items() if isinstance(fact, Fact)}
        fields = [(name, kinds[name]) for name in facts]
        record = f"{cls.__name__}Fields"
        cls.RECORD = dataclasses.make_dataclass(record, [*fields, ("summary", str)], frozen=True)
        for name, fact in facts.items():
            setattr(cls, name, property(operator.attrgetter(f"_fields.{name}"), doc=fact.meaning))

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
