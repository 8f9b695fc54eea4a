# SPDX-License-Identifier: Apache-2.0
"""A batch of the pass's candidates answered by the measuring workers.

Precondition: candidates carry their weights as constants. Test: estimators/test_session.py.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence

import tvm
from tvm.target import Target

from ..backends.own_cost import own_cost
from ..costs.cost import Cost, CostStatus
from ..exec.spent import phase
from .row import Row, build_options, tuning_records, written_down
from .session import Session, own_backend_modules
from .tuned import tune_rows
from .work import roofline_remark

_logger = logging.getLogger(__name__)


def measure_batch(
    session: Session,
    mods: Sequence[tvm.IRModule],
    targets: Sequence[Target],
    labels: Sequence[str],
) -> list[Cost]:
    """Return the Cost of each module's @main on its target (labels are for people).

    Equal candidates are measured once, those that their backend has a cost for not at all. What
    cannot even be written down as a candidate is unsupported, with the reason. Messages say which
    times are far from the machine's peaks.
    """
    rows = [Row(*row) for row in zip(mods, targets, labels, strict=True)]
    given = ((k, own_cost(row.mod, row.target)) for k, row in enumerate(rows) if row.external)
    costs = {k: cost for k, cost in given if cost is not None}
    candidates = {}
    todo = {k: row for k, row in enumerate(rows) if k not in costs}
    externals = [row.target for row in todo.values() if row.external]
    session.estimator.require(own_backend_modules(externals))
    tune_rows(session, list(todo.values()))
    keywords = build_options()
    records = functools.cache(functools.partial(tuning_records, run=session.tuning_run))
    for index, row in todo.items():
        with phase("candidate text"):
            built = written_down(session, row, keywords, records_for=records)
        if isinstance(built, str):
            _logger.warning("a candidate that cannot be measured is left out: %s", built)
            costs[index] = Cost.failed(CostStatus.UNSUPPORTED, built)
        else:
            candidates[index] = built
    answers = session.estimator.estimate(list(candidates.values()))
    costs.update(zip(candidates, answers, strict=True))
    return [_with_roofline(row, costs[k]) for k, row in enumerate(rows)]


def _with_roofline(row: Row, cost: Cost) -> Cost:
    if cost.status != CostStatus.MEASURED:
        return cost
    return cost.with_remark(roofline_remark(row.mod, cost.seconds or 0.0))
