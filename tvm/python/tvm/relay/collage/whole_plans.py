# SPDX-License-Identifier: Apache-2.0
"""The search of whole plans as options ask for it: what graph_search/ needs, put together.

Test: graph_search/test_optimize.py.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .costs.cost import Cost
from .costs.kernel import for_candidates
from .errors import OptionError
from .graph_search import EndToEnd, GraphSearch, PlanSpace, search_plans
from .graph_search.known import KnownPlans
from .graph_search.space import Parts, Replans
from .graph_search.trials import open_trials
from .measured import build_options, stored_version
from .measured.runner import Runner
from .measured.session import measure_options, open_store
from .placement.describe import describe_functions
from .plans import SEARCHED, TVM_ALONE, Plans
from .progress import steps
from .rpc import DeviceRunner
from .targets import TargetList
from .tuning import TuningRecords

# So many of the best plans join the guard, which judges them by a fresh run.
BEST = 3
NONE = "none"


def check_search(options: Any) -> None:
    """OptionError for a search of whole plans without the guard."""
    if options.graph_search != NONE and not options.guard:
        raise OptionError(
            "option relay.collage.graph_search searches whole plans, of which the guard ships one: "
            "leave option relay.collage.guard on, or set graph_search to 'none'"
        )


def search_whole_plans(
    plans: Plans,
    replans: Replans,
    targets: TargetList,
    options: Any,
    how: EndToEnd,
    *,
    runner: Runner,
    records: TuningRecords,
    executor: Mapping[str, Any],
) -> GraphSearch:
    """Search as the options say, and add the best plans to `plans`.

    replans: by function, of the search by operators. `how` builds with arguments `executor` and
    tuning records `records`. GuardUnavailable where whole plans cannot be measured.
    """
    space = PlanSpace(replans, targets.host.kind.name)
    if not space.genes:
        return GraphSearch(options.graph_search, ended="no operator can run on several backends")
    first = space.parts_of(space.seeds()[0])
    reference = space.key_of(first)
    with contextlib.ExitStack() as held:
        on_step = held.enter_context(steps("graph search", options.progress))
        known = held.enter_context(
            known_plans(plans, targets, options, executor, runner, records, how.samples, reference)
        )
        base = known.look_up(reference)
        trials = held.enter_context(
            open_trials(plans.module_of(first), how, (base and base.seconds) or 0.0)
        )

        def measure(parts: Mapping[str, Parts]) -> dict[str, Cost]:
            others = {k: plans.module_of(p) for k, p in parts.items() if k != reference}
            costs = trials.measure(others)
            return {**costs, reference: Cost.given(trials.base)}

        found = search_plans(
            space,
            measure,
            known,
            strategy=options.graph_search,
            population=options.graph_search_population,
            trials=options.graph_search_trials,
            seconds=options.graph_search_seconds,
            seed=options.graph_search_seed,
            on_trials=lambda done: on_step("plans tried", done, options.graph_search_trials),
        )
    plans.add_tried(found.placed())
    for rank, parts in enumerate(list(found.best.values())[:BEST], 1):
        plans.add_new(f"{SEARCHED}{rank}", parts)
    return found


@contextlib.contextmanager
def known_plans(
    plans: Plans,
    targets: TargetList,
    options: Any,
    executor: Mapping[str, Any],
    runner: Runner,
    records: TuningRecords,
    samples: Mapping[str, np.ndarray],
    reference: str,
) -> Iterator[KnownPlans]:
    """What the store knows of the module's plans that were measured beside the plan `reference`;
    nothing where a backend has no version."""
    prepared = plans.modules[TVM_ALONE]
    versions = {str(target): stored_version(target.kind.name) for target in targets.external}
    depends_on = {
        **build_options(),
        "backends": versions,
        "executor": sorted(f"{name}={value}" for name, value in executor.items()),
        "tuning": records.digest() if len(records) else "",
        "kernels": [[c.backend, c.step, c.kernel] for c in for_candidates(plans.kernels)],
        "beside": reference,
        "accuracy_budget": options.accuracy_budget,
        "samples": _digest(samples),
    }
    device = runner.info if isinstance(runner, DeviceRunner) else None
    store = None
    if None not in versions.values():
        store = open_store(options, measure_options(options), device)
    try:
        module = " ".join(function.key for function in describe_functions(prepared))
        yield KnownPlans(store, module, str(targets.host), depends_on)
    finally:
        if store is not None:
            store.close()


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
