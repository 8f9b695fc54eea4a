# SPDX-License-Identifier: Apache-2.0
"""The failed cost that a worker's reply stands for. Test: test_measure_estimator.py."""

from __future__ import annotations

from .cost import MACHINE_FAULT, Cost
from .reply import Reply

# Exceptions that say more than that a step failed.
_TELLING = {"Unsupported": "unsupported", "WrongResult": "wrong_result"}


def failed_cost(reply: Reply, step: str, raised: str) -> Cost:
    """For a reply whose outcome is not "ok"; `step` begins the message, `raised` is the status when
    the step ended by an exception."""
    if reply.fault:
        status = MACHINE_FAULT
    elif reply.outcome == "timeout":
        status = "timeout"
    elif reply.outcome in ("died", "lost"):
        status = "crashed"
    else:
        status = _TELLING.get(reply.type, raised)
    return Cost.failed(status, f"{step}: {reply.message}")
