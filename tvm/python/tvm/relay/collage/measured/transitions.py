# SPDX-License-Identifier: Apache-2.0
"""What the layout transforms between parts cost. Test: measured/test_transitions.py."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relay
from tvm.target import Target

from ..costs.candidate import CandidateModule, candidate_module
from ..external import TRANSITION
from .row import build_options
from .session import Session


def measure_transitions(
    session: Session, types: Sequence[relay.TensorType], target: Target
) -> list[float]:
    """Seconds of one layout transform of each tensor type (rank 4 or 5) on the host target.

    NCHW[D]xc with the widest block that divides the channels stands for whatever layout TVM picks.
    A transform that cannot be measured counts as free; that favours mixed plans, and the guard
    decides.
    """
    costs = session.estimator.estimate(transition_candidates(types, target))
    return [(cost.seconds or 0.0) if cost.is_usable else 0.0 for cost in costs]


def transition_candidates(
    types: Sequence[relay.TensorType], target: Target
) -> list[CandidateModule]:
    """What is measured for a layout transform of each tensor type."""
    keywords = build_options()
    return [
        candidate_module(
            _transform_of(tensor), TRANSITION, str(target), keywords, f"transform {tensor}"
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
