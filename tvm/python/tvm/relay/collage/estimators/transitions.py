# SPDX-License-Identifier: Apache-2.0
"""Costs of the layout transforms between parts. Test: estimators/test_transitions.py."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from tvm import relay
from tvm.target import Target

from ..candidate.candidate import CandidateModule, candidate_module
from ..costs.cost import Cost
from ..exec.time_limit import TRANSITIONS
from ..relay_util.external import TRANSITION
from .row import build_options
from .session import Session

# Under a limit so many are measured at once: builds overlap, and the time is looked at in between.
_AT_ONCE = 8

_logger = logging.getLogger(__name__)


def measure_transitions(
    session: Session, types: Sequence[relay.TensorType], target: Target
) -> list[float]:
    """Return the seconds of one layout transform of each tensor type (rank 4 or 5) on the host.

    NCHW[D]xc with the widest block that divides the channels stands for whatever layout TVM picks.
    A transform that cannot be measured, or that the limit leaves no time for, counts as free; that
    favours mixed plans, and the guard decides. The largest, which cost most, come first.
    """
    candidates = transition_candidates(types, target)
    order = sorted(range(len(types)), key=lambda k: -math.prod(map(int, types[k].shape)))
    at_once = _AT_ONCE if session.limit.is_set else max(1, len(types))
    seconds = [0.0] * len(types)
    unknown = 0
    for first in range(0, len(types), at_once):
        has_time = session.limit.left(TRANSITIONS) > 0
        ask = session.estimator.estimate if has_time else session.estimator.known
        asked = order[first : first + at_once]
        for k, cost in zip(asked, ask([candidates[k] for k in asked]), strict=True):
            unknown += cost is None
            seconds[k] = _seconds(cost)
    if unknown:
        _logger.warning("the time limit leaves no time for %d layout transforms", unknown)
    return seconds


def _seconds(cost: Cost | None) -> float:
    return (cost.seconds or 0.0) if cost is not None and cost.is_usable else 0.0


def transition_candidates(
    types: Sequence[relay.TensorType], target: Target
) -> list[CandidateModule]:
    """Return what is measured for a layout transform of each tensor type."""
    keywords = build_options()
    return [
        candidate_module(
            _transform_of(tensor),
            TRANSITION,
            str(target),
            build_options=keywords,
            label=f"transform {tensor}",
        )
        for tensor in types
    ]


def _transform_of(tensor: relay.TensorType) -> relay.Function:
    """fn(x) -> x in a blocked layout, then another element-wise kernel would follow."""
    plain = "NCHW" if len(tensor.shape) == 4 else "NCDHW"
    channels = int(tensor.shape[1])
    block = max(size for size in (16, 8, 4, 2, 1) if channels % size == 0)
    value = relay.var("x", tensor)
    body = relay.layout_transform(value, plain, f"{plain}{block}c")
    return relay.Function([value], body)
