# SPDX-License-Identifier: Apache-2.0
"""Plans of one backend alone that nobody builds: they were not in the first race, and what was
measured since shows that they cannot ship.

Test: plans/test_unraced.py.
"""

from __future__ import annotations

from ..costs.cost import Cost, CostStatus
from ..estimators.profiles import Profiles
from ..measure.race.comparison import Comparison
from ..relay_util.external import TVM_BACKEND
from .competing import plans_alone
from .first_answer import FAR_BEHIND, FirstAnswer
from .names import TVM_ALONE
from .request import SMALL_SECONDS, OpLevel, Request


def slow_plans(request: Request, first: FirstAnswer, profiles: Profiles) -> dict[str, Comparison]:
    """Return the plans that were not raced and are too slow to ship by the profile of TVM's kernels
    alone, as they are told of: TVM runs in them what no backend takes, as it does alone."""
    told = {}
    for name in _unraced(request, first):
        taken = request.plans.nodes_on_backends(name)
        of_tvm = profiles.seconds.get(TVM_BACKEND, {})
        seconds = sum(value for node, value in of_tvm.items() if node not in taken)
        if seconds > FAR_BEHIND.ratio * profiles.rival_seconds:
            text = f"the kernels of TVM's in it alone, by a profile; {first.best} is faster"
            told[name] = Comparison(name, Cost.estimated(seconds, text))
    return told


def beaten_plans(request: Request, first: FirstAnswer, found: OpLevel) -> dict[str, Comparison]:
    """Return the plans that were not raced, where the search foresaw or showed that another one is
    faster: theirs are among those that it chose from. None where it asked for all costs, and none
    that a plan to be compared is equal to."""
    if not found.is_beaten() and found.profiles is None:
        return {}
    text = f"not built: by the search no mix is faster than {first.best}, nor is this part of one"
    if not found.is_beaten():
        text = "not built: by the search another plan is faster"
    cost = Cost.failed(CostStatus.UNKNOWN, text)
    unraced = _unraced(request, first)
    same_as = request.plans.same_as() if unraced else {}
    wanted = {other for name, other in same_as.items() if name not in unraced}
    return {name: Comparison(name, cost) for name in unraced if name not in wanted}


def _unraced(request: Request, first: FirstAnswer) -> list[str]:
    """Return the plans of one backend alone of which no race has told anything. TVM alone is none
    of them in a small net, if it is built: on one thread it may be faster than costs say."""
    raced = first.raced.comparisons if first.raced else ()
    known = {item.name for item in raced if item.cost.status != CostStatus.UNKNOWN}
    alone = plans_alone(request.targets)
    if first.seconds < SMALL_SECONDS and TVM_ALONE in first.files:
        known.add(TVM_ALONE)
    return [name for name in alone if name not in known and name in request.plans.modules]
