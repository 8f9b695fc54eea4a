# SPDX-License-Identifier: Apache-2.0
"""Backends and what they could run. Test: views/test_views.py."""

from __future__ import annotations

import tvm
from tvm._ffi import register_object

from ..costs.cost import PartCost
from .graph import SubGraph
from .handle import View, call, fact


@register_object("collage.PartitionSpec")
class PartitionSpec(View):
    """A backend and the rule that says what it can run."""

    __slots__ = ()

    name: str = fact("the target kind's name; the host's spec of what launches no kernel is 'host'")
    is_external: bool = fact(
        "whether it compiles its parts itself, as functions with a `Compiler` attribute"
    )
    rule: str = fact("the rule with its sub-rules on one line")

    @property
    def target(self) -> tvm.target.Target:
        """Return the target whose parts it describes."""
        return call("TargetOf", self)


@register_object("collage.CandidatePartition")
class CandidatePartition(View):
    """A sub-graph that one backend could run, and the rule that found it."""

    __slots__ = ()

    backend: str = fact("the backend's name")
    rule: str = fact("the names of the rules that made it, outermost first")
    is_primitive: bool = fact("whether it becomes a function for the backend's own compiler")
    is_joinable: bool = fact(
        "whether, once chosen, it becomes one function with the chosen ones that it touches"
    )
    is_free: bool = fact(
        "whether nothing inside launches a kernel, so that the host runs it for nothing"
    )
    cost: PartCost = fact(
        "what it was measured or estimated at; status 'unknown' when nobody was asked"
    )

    @property
    def sub_graph(self) -> SubGraph:
        """Return the nodes."""
        return call("SubGraphOf", self)

    @property
    def spec(self) -> PartitionSpec:
        """Return the backend that would run it."""
        return call("SpecOf", self)

    def module(self) -> tvm.IRModule:
        """Return the module that is measured for it: @main computes the candidate as it is
        deployed."""
        return call("Module", self)
