# SPDX-License-Identifier: Apache-2.0
"""Nodes and candidates of graphs that are made by hand, as records of a report."""

from tvm.relay.collage.costs.cost import PartCost
from tvm.relay.collage.report.net import Net
from tvm.relay.collage.views.function_report import CostedCandidate, FunctionGraph, GraphNode


def node(index, kind="call", op="", inputs=(), *, type_="float32[4]", is_result=False, name=""):
    """A node; calls launch kernels."""
    flags = (kind == "call", False, is_result)
    return GraphNode(index, kind, op, name, type_, {}, tuple(inputs), *flags, "")


def costed(backend, nodes, seconds, status=""):
    """A candidate that was measured at so many seconds, or failed where that is None."""
    status = status or ("crashed" if seconds is None else "measured")
    return CostedCandidate(backend, "", tuple(nodes), PartCost(status, seconds, ""))


def net_of(*nodes):
    """The net of these nodes."""
    return Net(FunctionGraph(nodes=nodes))
