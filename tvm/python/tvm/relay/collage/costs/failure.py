# SPDX-License-Identifier: Apache-2.0
"""The failed cost that a worker's reply stands for, and when to stop measuring.

Test: measure/test_measured.py, exec/test_machine_fault.py.
"""

from __future__ import annotations

from ..errors import MachineError
from ..exec.machine_fault import ADVICE, PASSING
from ..exec.reply import Reply
from .cost import Cost, CostStatus

# Exceptions that say more than that a step failed.
_TELLING = {
    "Unsupported": CostStatus.UNSUPPORTED,
    "WrongResult": CostStatus.WRONG_RESULT,
}

# So many candidates in a row that have lasting faults of the machine: the next would have them too.
MOST_IN_A_ROW = 3


def failed_cost(reply: Reply, step: str, raised: CostStatus) -> Cost:
    """Return the cost for a reply whose outcome is not "ok"; `step` begins the message, `raised` is
    the status when the step ended by an exception."""
    if reply.fault:
        status = CostStatus.MACHINE_FAULT
    elif reply.outcome == "timeout":
        status = CostStatus.TIMEOUT
    elif reply.outcome in ("died", "lost"):
        status = CostStatus.CRASHED
    else:
        status = _TELLING.get(reply.type, raised)
    return Cost.failed(status, f"{step}: {reply.message}")


class FaultCount:
    """Faults of the machine in a row. MachineError when to go on measuring is of no use."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def add(self, reply: Reply, cost: Cost) -> None:
        """Count a candidate's last reply with the cost that it stands for."""
        if cost.status != CostStatus.MACHINE_FAULT or reply.fault in PASSING:
            self._in_a_row = 0
            return
        self._in_a_row += 1
        if self._in_a_row >= MOST_IN_A_ROW:
            raise MachineError(
                f"{self._in_a_row} candidates in a row could not be measured by no fault of theirs "
                f"({cost.message}): "
                + ADVICE[reply.fault]
                + ", and run again; costs known by now are kept"
            )
