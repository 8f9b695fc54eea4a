# SPDX-License-Identifier: Apache-2.0
"""Backends and what they could run. Test: views/test_views.py."""

from __future__ import annotations

import dataclasses

import tvm
from tvm._ffi import register_object

from ..costs.cost import PartCost
from .graph import SubGraph
from .handle import View, call


@dataclasses.dataclass(frozen=True)
class SpecFields:
    """Facts of a PartitionSpec, as C++ tells them; its properties say what each is."""

    name: str
    is_external: bool
    rule: str
    summary: str


@dataclasses.dataclass(frozen=True)
class CandidateFields:
    """Facts of a CandidatePartition, as C++ tells them; its properties say what each is."""

    backend: str
    rule: str
    is_primitive: bool
    is_joinable: bool
    is_free: bool
    cost: PartCost
    summary: str


@register_object("collage.PartitionSpec")
class PartitionSpec(View):
    """A backend and the rule that says what it can run."""

    __slots__ = ()
    RECORD = SpecFields

    @property
    def name(self) -> str:
        """Return the target kind's name; the host's own spec, which covers what launches no kernel,
        is "host"."""
        return self._fields.name

    @property
    def is_external(self) -> bool:
        """Return whether it compiles its parts itself, as functions with a `Compiler` attribute."""
        return self._fields.is_external

    @property
    def rule(self) -> str:
        """Return the rule with its sub-rules on one line."""
        return self._fields.rule

    @property
    def target(self) -> tvm.target.Target:
        """Return the target whose parts it describes."""
        return call("TargetOf", self)


@register_object("collage.CandidatePartition")
class CandidatePartition(View):
    """A sub-graph that one backend could run, and the rule that found it."""

    __slots__ = ()
    RECORD = CandidateFields

    @property
    def sub_graph(self) -> SubGraph:
        """Return the nodes."""
        return call("SubGraphOf", self)

    @property
    def spec(self) -> PartitionSpec:
        """Return the backend that would run it."""
        return call("SpecOf", self)

    @property
    def backend(self) -> str:
        """Return the backend's name."""
        return self._fields.backend

    @property
    def rule(self) -> str:
        """Return the names of the rules that made it, outermost first."""
        return self._fields.rule

    @property
    def is_primitive(self) -> bool:
        """Return whether it becomes a function for the backend's own compiler."""
        return self._fields.is_primitive

    @property
    def is_joinable(self) -> bool:
        """Return whether, once chosen, it becomes one function with the chosen ones that it
        touches."""
        return self._fields.is_joinable

    @property
    def is_free(self) -> bool:
        """Return whether nothing inside launches a kernel, so that the host runs it for nothing."""
        return self._fields.is_free

    @property
    def cost(self) -> PartCost:
        """Return what it was measured or estimated at; status "unknown" when nobody was asked."""
        return self._fields.cost

    def module(self) -> tvm.IRModule:
        """Return the module that is measured for it: @main computes the candidate as it is
        deployed."""
        return call("Module", self)
