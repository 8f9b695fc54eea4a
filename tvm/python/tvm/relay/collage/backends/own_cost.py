# SPDX-License-Identifier: Apache-2.0
"""Costs by a backend's own function, in place of measuring.
Test: backends/test_target_options.py."""

import dataclasses
from typing import cast

import tvm

from ..costs.cost import Cost, CostStatus
from .interface import Backend
from .registry import backend_of, find_backend


def has_own_costs(target: tvm.target.Target) -> bool:
    """Return whether the target's backend has a cost function, which may answer anything."""
    backend = find_backend(target.kind.name)
    return backend is not None and type(backend).cost is not Backend.cost


def own_cost(candidate: tvm.IRModule, target: tvm.target.Target) -> Cost | None:
    """Return what the target's backend says that the candidate costs; None: measure it.

    What its function raises, or gives that is no cost, fails the candidate as unsupported.
    """
    if not has_own_costs(target):
        return None
    try:
        answer = cast(Backend, backend_of(target)).cost(candidate)
        if answer is None:
            return None
        cost = answer if isinstance(answer, Cost) else Cost.estimated(float(answer))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the user's function: failures are data
        name = target.kind.name
        reason = f"backend {name}: its cost function: {type(error).__name__}: {error}"
        return Cost.failed(CostStatus.UNSUPPORTED, reason)
    # Nothing was run by us, whatever the function did.
    is_measured = cost.status == CostStatus.MEASURED
    return dataclasses.replace(cost, status=CostStatus.ESTIMATED) if is_measured else cost
