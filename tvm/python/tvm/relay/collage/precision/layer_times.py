# SPDX-License-Identifier: Apache-2.0
"""Seconds of each layer in several precisions: profiles of the backends alone on the float model
beside those on the quantised one.

The layers of both are the same in the same order, however much passes have rewritten around them.
Time of other operators is that of the layer before them. These figures order the choices that are
tried; what ships is timed whole. Test: precision/test_layer_times.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relay

from ..backends import find_backend
from ..backends.accuracy import traders_in
from ..errors import PlacementError
from ..estimators.calibration import CAUTIOUS
from ..estimators.profiles import Profiles
from ..relay_util.node_spans import node_of
from ..relay_util.walk import elements_of, operator_calls
from ..report.net import is_layer
from ..result import Result
from .layers import INT8

# A part of several layers, in seconds, and how many borders it has.
_A_PART, _BORDERS = 5e-4, 2
# Seconds to convert one, in MobileNetV2 on an AMD EPYC (c015958c): it only orders what is built.
_AN_ELEMENT = 1.3e-10


def layers_of(mod: tvm.IRModule) -> list[Any]:
    """Return the calls of a module's main that are convolutions or products, in their order."""
    return [call for call in operator_calls(mod["main"]) if is_layer(call.op.name)]


def layers_in_order(mod: tvm.IRModule) -> list[str]:
    """Return what the model's file calls the layers of an imported module, in their order."""
    spans = [call.span for call in layers_of(mod)]
    return [span.source_name.name if span is not None else "" for span in spans]


def nodes_kept(order: Sequence[str], precisions: Mapping[str, str], mod: tvm.IRModule) -> list[int]:
    """Return the nodes of a prepared module that are layers in float32: all layers, where they are
    not those of `order`."""
    calls = layers_of(mod)
    names = order if len(order) == len(calls) else [""] * len(calls)
    kept = [call for call, name in zip(calls, names, strict=True) if name not in precisions]
    return [node for node in map(node_of, kept) if node is not None]


def precisions_of(found: Result, order: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the precision of each layer that is not in float32, by who runs it: a layer that was
    chosen for 8 bits has these in the model itself, and others what the backend of their part
    trades accuracy for, unless it keeps what was not chosen. Those that were chosen, where nobody
    knows which node is which layer."""
    graphs = [row.graph for row in found.partitioned if not row.skipped]
    nodes = [n for graph in graphs for n in graph.nodes if is_layer(n.op)]
    try:
        placed = found.placement.functions
    except PlacementError:
        placed = ()
    if len(graphs) != 1 or len(placed) != 1 or len(nodes) != len(order):
        return dict(chosen)
    parts = [(find_backend(part.backend), part.nodes) for part in placed[0].parts]
    backend_of = {node: backend for backend, of in parts if backend for node in of}

    def traded(name: str, node: Any) -> str:
        backend = backend_of.get(node.index)
        is_kept = chosen and name not in chosen and backend and backend.keeps_calls
        return "" if backend is None or is_kept else backend.trades(node.op)

    ran = {name: traded(name, node) for name, node in zip(order, nodes, strict=True)}
    return {**{n: p for n, p in ran.items() if p}, **{n: p for n, p in chosen.items() if p == INT8}}


def conversion_seconds(mod: tvm.IRModule) -> list[float]:
    """Return what it takes to convert what is passed from each layer of a module to the next, as a
    backend that keeps calls does inside its parts."""
    layers = layers_of(relay.transform.InferType()(mod))
    return [_AN_ELEMENT * (elements_of(call.args[0].checked_type) or 0) for call in layers[1:]]


def border_seconds(found: Result) -> float:
    """Return what a change from or to a backend that trades accuracy takes, by what parts take
    longer than their operators do inside a whole net; 0 where nobody knows."""
    multiples = found.profiles.multiples if found.profiles else {}
    known = [multiples.get(name, CAUTIOUS) for name in traders_in(found.mod)] if multiples else []
    return max((0.0, *(each.foreseen(_A_PART)[1] - _A_PART for each in known))) / _BORDERS


def saved_by_layer(
    names: Sequence[str], plain: Result, other: Result, among: Collection[str] = ()
) -> dict[str, float] | None:
    """Return the seconds that each layer takes less in another form of the model, as the backends
    `among` run both, where these have a profile; None where the profiles do not tell."""
    before, after = (seconds_of_layers(each, among) for each in (plain, other))
    if before is None or after is None or not len(before) == len(after) == len(names):
        return None
    return {name: a - b for name, a, b in zip(names, before, after, strict=True)}


def seconds_of_layers(found: Result, among: Collection[str] = ()) -> list[float] | None:
    """Return the seconds of each layer, with what follows it, on the backend that is the fastest
    alone, of those `among` where these have a profile; None without any."""
    graphs = [row.graph for row in found.partitioned if not row.skipped]
    if found.profiles is None or len(graphs) != 1:
        return None
    seconds = _fastest(found.profiles, among)
    return grouped((n.op, seconds.get(n.index, 0.0)) for n in graphs[0].nodes if n.op)


def grouped(calls: Iterable[tuple[str, float]]) -> list[float]:
    """Return the seconds by layer of calls in their order, each an operator and its seconds; what
    is before the first layer belongs to it."""
    totals: list[float] = []
    waiting = 0.0
    for op, seconds in calls:
        if is_layer(op):
            totals.append(waiting)
            waiting = 0.0
        if totals:
            totals[-1] += seconds
        else:
            waiting += seconds
    return totals


def _fastest(profiles: Profiles, among: Collection[str]) -> Mapping[int, float]:
    alone = {name: profiles.alone(name) for name in profiles.seconds}
    known = {name: seconds for name, seconds in alone.items() if seconds > 0}
    known = {name: seconds for name, seconds in known.items() if name in among} or known
    return profiles.seconds[min(known, key=lambda name: known[name])] if known else {}
