# SPDX-License-Identifier: Apache-2.0
"""Seconds below which no candidate can be measured, from the peaks that this machine was measured
at. Test: estimators/test_bounds.py.

Two kernels are measured as candidates are, stored and on devices alike: one that does next to
nothing, whose time is a start, and one of multiply-adds that stay in registers, whose rate is the
peak of arithmetic. A candidate takes at least a start, and its least work (C++'s LeastWorkOf) at
the peak, each with the slack that an unlucky measurement of these two may need.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from tvm import relay
from tvm.target import Target

from ..backends.accuracy import trades_accuracy
from ..backends.own_cost import has_own_costs
from ..candidate.candidate import CandidateModule, candidate_module
from ..relay_util.external import TVM_BACKEND
from .row import build_options
from .session import Session
from .work import Machine, Work

# A start may be this much quicker, arithmetic this much faster than what was measured: twice, since
# LLVM uses half of the widest vectors, and twice again for a lucky candidate.
SLACK = 4.0

# Enough multiply-adds for each element that neither memory nor a start counts, and few enough that
# a core works on several elements at a time.
_DEPTH = 24
_SHAPE = (64, 4096)

_logger = logging.getLogger(__name__)


def least_seconds(
    session: Session, works: Sequence[Work], targets: Sequence[Target], host: Target
) -> list[float]:
    """Return the seconds that no candidate of that work at least, on that target, can be measured
    below; 0.0 where nothing is certain, this machine's peaks could not be measured well, or the
    option cost_bounds is off."""
    peaks = machine_peaks(session, host) if session.options.measuring.cost_bounds else None
    if peaks is None:
        return [0.0] * len(works)
    peaks_of = {target: _peaks_of(target, peaks) for target in set(targets)}
    return [
        machine.seconds(work) if work.num_calls and machine else 0.0
        for work, machine in zip(works, map(peaks_of.get, targets), strict=True)
    ]


def machine_peaks(session: Session, host: Target) -> Machine | None:
    """Return the Machine that nothing here is faster than, slack included; None where it is not
    known.

    A host target that names no CPU has narrow vectors, whose peak other backends pass; then only
    a start is certain.
    """
    costs = session.estimator.estimate(peak_candidates(host))
    if any(not cost.is_usable or cost.is_noisy or cost.is_busy for cost in costs):
        _logger.info("no bounds of costs: %s", [cost.Summary() for cost in costs])
        return None
    start, arithmetic = (cost.seconds or math.inf for cost in costs)
    operations = 2.0 * _DEPTH * _SHAPE[0] * _SHAPE[1]
    gflops = SLACK * operations / arithmetic / 1e9 if host.mcpu else math.inf
    return Machine(gflops=gflops, launch_seconds=start / SLACK)


def _peaks_of(target: Target, peaks: Machine) -> Machine | None:
    """Return what of the peaks holds for the target: a backend that computes in a coarser type has
    others, one with costs of its own none."""
    if has_own_costs(target):
        return None
    return peaks._replace(gflops=math.inf) if trades_accuracy(target) else peaks


def peak_candidates(host: Target) -> list[CandidateModule]:
    """Return what is measured for the peaks: a start, then arithmetic."""
    small = relay.var("x", shape=(16,))
    value = large = relay.var("x", shape=_SHAPE)
    for _ in range(_DEPTH):
        value = value * large + large  # constants TVM would reorder without end
    functions = {
        "a start": relay.Function([small], relay.nn.relu(small)),
        "peak of arithmetic": relay.Function([large], value),
    }
    return [
        candidate_module(
            function, TVM_BACKEND, str(host), build_options=build_options(), label=label
        )
        for label, function in functions.items()
    ]
