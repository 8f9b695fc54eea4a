# SPDX-License-Identifier: Apache-2.0
"""A backend alone: all that it takes, in as few parts as there can be, and TVM the rest.

It is a search of the pass with prices for costs, so that rules, refusals and the parts' order are
the pass's own, and no two parts can wait for each other. Test: plans/test_greedy.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import IRModule, relay
from tvm.target import Target

from ..backends.registry import require_backend
from ..backends.targets import TargetList, parse_targets
from ..compile import host_target
from ..compile.library import inline_external_functions
from ..costs.cost import Cost, CostStatus
from ..estimators import CostEstimator
from ..estimators.work import Work
from ..relay_util.external import is_external
from ..views.function_report import FunctionReport
from .run_pass import partition

# A call that is left to TVM costs more than any number of parts does.
_CALL, _PART = 1.0, 1e-6
# Nothing of the current context may change what is taken, or spare the search.
_OPTIONS = {
    "placement": "",
    "tvm_max_depth": 1,
    "tvm_regions": False,
    "region_cuts": 0,
    # Nothing ships yet: the guard compares what comes of a backend that trades accuracy.
    "accuracy_budget": 1.0,
}


def greedy_partition(
    mod: IRModule,
    backend_name: str,
    most_calls: int | None = None,
    target: tvm.target.Target | None = None,
) -> IRModule:
    """Return the module with all that the backend takes in functions ``Compiler=backend_name``.

    The functions are as relay.build wants them (global, Primitive=1, Inline=1). ``most_calls``
    limits the operators of each. ``target`` may set the backend's options. A predicate that raises
    or answers with a reason does not match, as in the pass. Precondition: weights are bound as
    constants (``relay.build_module.bind_params_by_name``). UnknownBackendError,
    BackendUnavailableError.
    """
    require_backend(backend_name)
    targets = parse_targets([host_target(), target or backend_name])
    placed, _ = take_all(relay.transform.InferType()(mod), targets, most_calls)
    return relay.transform.InferType()(inline_external_functions(placed))


def take_all(
    mod: IRModule, targets: TargetList, most_calls: int | None = None
) -> tuple[IRModule, list[FunctionReport]]:
    """Take all of a typed module for the one external target of `targets`; return it with the
    reports of the pass by function."""
    estimator = _TakesAll(most_calls)
    return partition(mod, targets, estimator, **_OPTIONS), estimator.reports


class _TakesAll(CostEstimator):
    """Prices by which the best plan leaves as few calls as can be to TVM, then has fewest parts."""

    has_transitions = False

    def __init__(self, most_calls: int | None) -> None:
        super().__init__()
        self._most_calls = most_calls

    def price_batch(
        self, signatures: Sequence[str], works: Sequence[Work], targets: Sequence[Target]
    ) -> list[Cost]:
        return [
            self._price(work.num_calls, target) for work, target in zip(works, targets, strict=True)
        ]

    def _price(self, num_calls: int, target: Target) -> Cost:
        if not is_external(target):
            return Cost.estimated(_CALL * num_calls)
        if self._most_calls is not None and num_calls > self._most_calls:
            return Cost.failed(CostStatus.UNSUPPORTED, f"more than {self._most_calls} calls")
        return Cost.estimated(_PART)
