# SPDX-License-Identifier: Apache-2.0
"""Times of whole plans, in the store beside the costs of candidates: so a search that was killed
goes on where it was. Test: plans/graph_search/test_search.py.

Key: the module without the values of weights, the plan's parts, and all that its build depends on:
host target, options, tuning records, kernels, versions of backends, the plan beside which it was
measured, samples and accuracy budget. Machine and TVM are in the key of every row.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from ...costs.cost import Cost, CostStatus
from ...relay_util.external import WHOLE_PLAN
from ...store import StoredCosts


@dataclasses.dataclass(frozen=True)
class PlanRow:
    """A plan, as the store keeps its cost: it stands where a candidate would."""

    hash: str
    label: str
    target: str
    options: str

    backend = WHOLE_PLAN
    needs_caches = False  # all that its network touches is its own

    def options_text(self) -> str:
        return self.options

    def Summary(self) -> str:
        """Return one line for logs."""
        return f"plan {self.hash[:8]} of {self.label}"


class KnownPlans:
    """The times of plans of one module, by the keys of PlanSpace; without a store it knows none.

    module: what tells the module from others. options: what its builds depend on. is_quiet: asked
    where a plan was measured beside other programs, which serves only while there are such.
    """

    def __init__(
        self,
        store: StoredCosts | None,
        module: str,
        target: str,
        options: Mapping[str, Any],
        is_quiet: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store, self._module, self._target = store, module, target
        self._is_quiet = is_quiet
        self._options = json.dumps(options, sort_keys=True)

    def look_up(self, key: str) -> Cost | None:
        """Return the cost of a plan, None where it has to be measured."""
        if self._store is None:
            return None
        return self._store.look_up([self._row(key, "")], self._is_quiet)[0]

    def keep(self, key: str, label: str, cost: Cost) -> None:
        """Commit a cost, unless it is the machine's fault, or a wrong result: that depends on the
        values of weights as well."""
        unkept = (CostStatus.MACHINE_FAULT, CostStatus.WRONG_RESULT)
        if self._store and cost.status not in unkept:
            self._store.keep(self._row(key, label), cost)

    def _row(self, key: str, label: str) -> PlanRow:
        text = f"{self._module} {key}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return PlanRow(digest, label, self._target, self._options)
