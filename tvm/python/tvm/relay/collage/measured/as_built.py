# SPDX-License-Identifier: Apache-2.0
"""What goes to a worker so that it builds what this process would: options, tuning records.

Test: costs/test_pass_context.py, tuning/test_records.py.
"""

import tvm

from ..costs.pass_context import context_to_json
from ..logs import warn_once
from ..tuning import records_in_force


def build_options():
    """Keywords for a worker's build, so that it builds what the current PassContext would."""
    context = tvm.transform.PassContext.current()
    fields, left_out = context_to_json(context)
    for name in left_out:
        warn_once(
            f"the PassContext's {name} holds code, which cannot go to worker processes: candidates "
            "are measured without it"
        )
    return {"opt_level": context.opt_level, **({"pass_context": fields} if fields else {})}


def tuning_records(target, tuner=None):
    """The tuning records that a build for the target would use, and what a search's tuner has
    found, for workers."""
    records, left_out = records_in_force(target)
    for name in left_out:
        warn_once(
            f"{name} does not show its records, which therefore cannot go to worker processes: "
            "candidates are measured without them (autotvm's and auto_scheduler's ApplyHistoryBest "
            "and a MetaSchedule JSONDatabase or MemoryDatabase do show them)"
        )
    if tuner is None or str(tuner.target) != str(target):
        return records
    return type(records)([*records, *tuner.records])
