# SPDX-License-Identifier: Apache-2.0
"""Which of some kernels candidates have, kept in the store beside costs: a build that finds all its
costs there starts no worker to list kernels. Test: tuner/test_kept_tasks.py.

Key: that of the candidate's cost, with the tuner's kind, the version of lists and the kernels that
were asked for in place of tuning records; the store counts why a list was missing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from ..costs.candidate import CandidateModule
from ..costs.cost import Cost, CostStatus
from ..costs.failure import failed_cost
from ..costs.protocols import Stored
from ..exec.reply import Reply
from ..external import TASK_LIST

# Another where step.list_tasks finds other tasks in the same candidate than before.
_VERSION = 1


class Costs(Protocol):
    """Who asks the store: measured.MeasuredCostEstimator."""

    def look_up(self, trials: Sequence[Stored]) -> list[Cost | None]: ...

    def keep(self, trial: Stored, cost: Cost) -> None: ...


@dataclasses.dataclass(frozen=True)
class TaskList:
    """A candidate's list, as the store keeps it: it stands where a candidate would. As a cost it is
    unknown, and its message has the tasks."""

    candidate: CandidateModule
    asked: str

    backend = TASK_LIST
    reads_weights = False

    @property
    def hash(self) -> str:
        """Not the candidate's own: a cost that is missing is compared with costs, not with this."""
        return hashlib.sha256(f"tasks of {self.candidate.hash}".encode()).hexdigest()[:16]

    @property
    def target(self) -> str:
        return self.candidate.target

    @property
    def label(self) -> str:
        return self.candidate.label

    def options_text(self) -> str:
        return json.dumps({**self.candidate.build_options, "tasks": self.asked}, sort_keys=True)

    def Summary(self) -> str:
        """One line for logs."""
        return f"tasks of {self.candidate.Summary()}"


class KeptTasks:
    """Lists of which of these workloads candidates (made without records) have."""

    def __init__(self, costs: Costs, kind: str, workloads: Iterable[str]) -> None:
        self._costs, self._workloads = costs, frozenset(workloads)
        digest = hashlib.sha256(json.dumps(sorted(self._workloads)).encode()).hexdigest()[:16]
        self._asked = f"{kind} {_VERSION} {digest}"

    def look_up(self, candidates: Sequence[CandidateModule]) -> list[list[dict[str, Any]] | None]:
        """The tasks of each, as step.list_tasks gives them; None where they have to be listed. What
        could not be listed has none."""
        found = self._costs.look_up([TaskList(each, self._asked) for each in candidates])
        return [None if cost is None else _tasks_in(cost) for cost in found]

    def keep(self, candidate: CandidateModule, reply: Reply) -> None:
        """What a worker replied, unless it is no doing of the candidate's."""
        if reply.fault or reply.outcome == "lost":
            return
        if reply.outcome == "ok":
            mine = [task for task in reply.value if task["workload"] in self._workloads]
            names = {task["workload"]: task["name"] for task in mine}
            cost = Cost(CostStatus.UNKNOWN, message=json.dumps(names))
        else:
            cost = failed_cost(reply, "list", CostStatus.COMPILE_FAILED)
        self._costs.keep(TaskList(candidate, self._asked), cost)


def _tasks_in(cost: Cost) -> list[dict[str, Any]]:
    if cost.is_failure:
        return []
    return [{"workload": key, "name": name} for key, name in json.loads(cost.message).items()]
