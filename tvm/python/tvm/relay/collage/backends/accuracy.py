# SPDX-License-Identifier: Apache-2.0
"""Backends that trade accuracy for speed, and the option accuracy_budget that lets them take part.

Docs: docs/accuracy.md. Test: backends/test_accuracy.py.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tvm
from tvm.target import Target

from ..errors import OptionError
from ..options.named import option
from ..relay_util.external import is_external_function
from ..relay_util.node_spans import node_of
from ..relay_util.walk import operator_calls
from .interface import KEPT, KEPT_CALLS
from .registry import backend_of, find_backend
from .target_options import options_in

_OPTION = "accuracy_budget"
_logger = logging.getLogger(__name__)


def trades_accuracy(target: Target) -> str:
    """Return the type that the target's backend computes in for less accuracy; "" when it does
    not."""
    backend = backend_of(target)
    return backend.trades_accuracy if backend else ""


def traders_in(mod: tvm.IRModule) -> dict[str, str]:
    """Return the backends with parts in a partitioned module that trade accuracy: {name: type}."""
    found = {}
    for _, function in mod.functions_items():
        if is_external_function(function):
            backend = find_backend(str(function.attrs["Compiler"]))
            bound = backend and backend.with_options(options_in(function))
            if bound and bound.trades_accuracy:
                found[bound.name] = bound.trades_accuracy
    return found


def without_traders(external: Sequence[Target]) -> tuple[Target, ...]:
    """Return the targets whose backends do not trade accuracy."""
    return tuple(target for target in external if not trades_accuracy(target))


@contextlib.contextmanager
def keeping(nodes: Iterable[int]) -> Iterator[None]:
    """Have no backend that trades accuracy do so for these nodes of the function that is
    partitioned in the block."""
    token = KEPT.set(frozenset(nodes))
    try:
        yield
    finally:
        KEPT.reset(token)


def with_kept_calls(mod: tvm.IRModule) -> tvm.IRModule:
    """`mod` with parts that say which of their calls are such nodes, for backends that keep calls.
    Calls are known by their stamps (relay_util/node_spans.py)."""
    kept, result = KEPT.get(), mod
    for var, function in mod.functions_items() if kept else ():
        if not is_external_function(function):
            continue
        backend = find_backend(str(function.attrs["Compiler"]))
        if backend is None or not (backend.trades_accuracy and backend.keeps_calls):
            continue
        calls = enumerate(operator_calls(function))
        if places := [place for place, call in calls if node_of(call) in kept]:
            if result is mod:
                result = mod.clone()
            result.update_func(var, function.with_attr(KEPT_CALLS, json.dumps(places)))
    return result


def check_budget(external: Sequence[Target], budget: float, *, is_compared: bool = True) -> None:
    """Raise OptionError for a target that trades accuracy which the budget does not allow, or that
    nobody compares: `is_compared` says whether the guard does, if it has to."""
    for target in external:
        if not (kind := trades_accuracy(target)):
            continue
        name, left_out = target.kind.name, f"leave {target.kind.name!r} out of the target list"
        trades = f"backend {name!r} trades accuracy (it computes in {kind})"
        if not budget:
            raise OptionError(
                f"{trades}: set "
                + option(_OPTION)
                + " to the largest output error max|a-b|/max|b| that you accept, e.g. 0.01, or "
                + left_out
            )
        if not is_compared:
            raise OptionError(
                f"{trades}, and only the guard compares a model's outputs: leave "
                + option("guard")
                + f" on, or {left_out}"
            )


def warn_of_made_up_inputs(mod: tvm.IRModule, has_samples: bool) -> None:
    """Warn that errors of parts which trade accuracy are those of random inputs."""
    names = sorted(traders_in(mod))
    if names and not has_samples:
        _logger.warning(
            "errors of %s are measured on random inputs, of which those of real ones may be far: "
            "give some by %s, or a few dozen by %s",
            ", ".join(names),
            option("sample_inputs"),
            option("calibration"),
        )


def limits(
    plans: Mapping[str, tvm.IRModule], budget: float, tolerance: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return how far each plan's outputs may be off: the budget where it trades accuracy, else
    tolerance.

    ({plan: limit}, {plan: what to add to the message of one that is off by more}).
    """
    traders = {name: traders_in(mod) for name, mod in plans.items()}
    return (
        {name: budget if found else tolerance for name, found in traders.items()},
        {name: _remark(found) for name, found in traders.items() if found},
    )


def _remark(found: Mapping[str, str]) -> str:
    who = ", ".join(f"{name} computes in {kind}" for name, kind in sorted(found.items()))
    return "the limit is " + option(_OPTION) + f", since {who}"
