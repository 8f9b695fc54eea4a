# SPDX-License-Identifier: Apache-2.0
"""Whole plans as options ask for them: how they are built, searched, and compared for what ships.

Test: test_optimizer.py, plans/graph_search/test_optimize.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import tvm

from ..compile import build_whole
from ..compile.compiled_parts import CompiledParts
from ..compile.executors import GRAPH, executor_of
from ..costs.cost import Cost
from ..costs.kernel import for_candidates
from ..errors import OptionError
from ..estimators.session import (
    default_workers,
    measure_options,
    open_store,
    own_backend_modules,
    version_of,
)
from ..exec.time_limit import BUILT, WHOLE_PLANS
from ..machine.cpu_lock import cpus_for_building
from ..measure.runner import Runner
from ..messages.progress import one_step, steps
from ..options import GraphSearchOptions, GuardOptions
from ..options.named import option
from ..relay_util.external import is_on_one_thread
from ..rpc import DeviceRunner
from ..tuning import TuningRecords
from .first_answer import FirstAnswer, ship_best
from .graph_search import (
    EndToEnd,
    GraphSearch,
    GuardResult,
    GuardUnavailable,
    KnownPlans,
    PlanSpace,
    guard,
    search_plans,
)
from .graph_search.libraries import Linked
from .graph_search.shared_weights import SharedWeights
from .graph_search.space import Parts
from .graph_search.trials import open_trials
from .how_built import how_built
from .names import OP_LEVEL, SEARCHED, TVM_ALONE
from .original import NONE as NO_ORIGINAL
from .original import Original, check, exact_outputs
from .placement.replay import describe_functions
from .request import OpLevel, Request

# So many of the best plans that the guard lacks join it, which judges them by a fresh run.
BEST = 3
_NONE_YET = FirstAnswer()
_logger = logging.getLogger(__name__)


def check_search(search: GraphSearchOptions, guarding: GuardOptions) -> None:
    """OptionError for a search of whole plans without the guard."""
    if search.enabled and not guarding.enabled:
        raise OptionError(
            option("graph_search")
            + " searches whole plans, of which the guard ships one: leave "
            + option("guard")
            + " on, or set "
            + option("graph_search")
            + " to 'none'"
        )


def check_original(request: Request, model: Any) -> Original | None:
    """Check how the module agrees with its original, a file or an ONNX model; None for none.
    OriginalError where it does not."""
    if not model or model == NO_ORIGINAL:
        return None
    with (
        request.clock.phase("original"),
        one_step("comparing", "the model with its original", request.options.progress),
        cpus_for_building(),
    ):
        return check(model, request.prepared, _how(request))


def _how(request: Request) -> EndToEnd:
    """Return how plans are built with the records that the user gave, and run."""
    return EndToEnd(
        functools.partial(_build_plan, request, request.records),
        request.samples,
        request.options.seed,
        mod_name=request.build_options.get("mod_name", "default"),
        executor=request.executor,
        limit=request.limit,
    )


def first_end_to_end(request: Request, at_once: int = 1) -> EndToEnd:
    """Return how whole plans are built and measured here before anything is searched. at_once: so
    many forks compile the kernels of one."""
    compiled = _compiled_parts(request, request.records, at_once=at_once)
    how = _measured(request, request.records, compiled, is_here=True)
    return dataclasses.replace(how, records_kernels=request.executor == GRAPH)


def end_to_end(
    request: Request, found: OpLevel, runner: Runner, first: FirstAnswer = _NONE_YET
) -> EndToEnd:
    """Return how whole plans are built and measured, where `first` has built some of them."""
    # Tuning may have found schedules by which each plan is another.
    before = first if found.records is request.records else _NONE_YET
    compiled = _compiled_parts(
        request, found.records, at_once=default_workers(), is_searched=_is_searched(request, found)
    )
    return dataclasses.replace(
        _measured(request, found.records, compiled, is_here=runner.is_here),
        compiler=request.options.devices.compiler,
        comparer=runner.compare,
        at_hand=functools.partial(_file_of, request, before),
        far_behind=before.far_behind(request.plans.modules),
    )


def _measured(
    request: Request, records: TuningRecords, compiled: CompiledParts | None, *, is_here: bool
) -> EndToEnd:
    """Return how plans that are built with these records are measured, with what they share where
    something is `compiled` for all of them."""
    ship = functools.partial(_build_plan, request, records)
    return dataclasses.replace(
        _how(request),
        build=functools.partial(ship, compiled=compiled),
        ship=ship if compiled else None,
        weights=_shared_weights(request) if compiled and is_here else None,
        accuracy_budget=request.options.accuracy_budget,
        imports=own_backend_modules(request.targets.external),
        is_here=is_here,
        telling=functools.partial(one_step, "building", kind=request.options.progress),
        truth=request.original.truth if request.original else None,
        exact=functools.partial(exact_outputs, request.prepared, limit=request.limit),
    )


def _file_of(request: Request, first: FirstAnswer, module: tvm.IRModule) -> Linked | None:
    """Return the file of the first answer that the module would have again."""
    return None if request.plans.is_untuned(module) else first.file_of(module)


def _compiled_parts(
    request: Request, records: TuningRecords, *, at_once: int, is_searched: bool = False
) -> CompiledParts | None:
    """Return what compiles each kernel once for all plans; None where each plan has its own.

    What ships is built once more then (compile/compiled_parts.py says why), which costs less than
    the other plans save. Its library is a few percent larger than the one that was measured, so
    that a limit of its size rules this out; not where plans are searched, which would take many
    times as long: there the limit is that of the library that was measured.
    """
    is_limited = request.options.guarding.library_mb and not is_searched
    can_share = request.executor == GRAPH and CompiledParts.can_build(request.build_options)
    if is_limited or not (can_share and request.folder):
        return None
    # Schedules that tuning finds give other kernels.
    is_given = records is request.records
    folder = os.path.join(request.folder, "kernels" if is_given else "tuned kernels")
    os.makedirs(folder, exist_ok=True)
    return CompiledParts(request.targets.host, folder=folder, at_once=at_once)


def _shared_weights(request: Request) -> SharedWeights:
    """Return what writes the weights of all plans once."""
    folder = os.path.join(request.folder, "weights")
    os.makedirs(folder, exist_ok=True)
    return SharedWeights(folder, request.prepared)


def _is_searched(request: Request, found: OpLevel) -> bool:
    return request.options.graph_searching.enabled and bool(found.replans)


def decide(
    request: Request, found: OpLevel, how: EndToEnd, first: FirstAnswer = _NONE_YET
) -> tuple[str, GuardResult | None, str]:
    """Decide the plan that ships; return it, what was measured, and why that was not the guard's
    doing. Where the guard cannot measure, the best plan of the first answer ships, if any."""
    if not request.options.guard:
        return OP_LEVEL, None, ""
    failed: Collection[str] = ()
    with request.clock.phase("guard"):
        if request.limit.left(BUILT) > 0:
            try:
                guarded = _guarded(request, how)
                return guarded.winner, guarded, ""
            except GuardUnavailable as error:
                skipped, failed = str(error), error.failed
        else:
            skipped = option("time_limit") + " leaves no time for it"
    if first.best and first.best not in failed:
        return ship_best(request, first, f"plans were not compared further ({skipped})")
    is_measured = how.trusts_import and found.ships_unmeasured()
    name = OP_LEVEL if is_measured else request.plans.known_right()
    if name in failed:
        name = TVM_ALONE
    _logger.warning("plan %s ships without end-to-end measurements: %s", name, skipped)
    return name, None, skipped


def _guarded(request: Request, how: EndToEnd) -> GuardResult:
    plans, options = request.plans, request.options
    # Rounds follow the builds, and others follow these while plans cannot be told apart.
    with steps("guard", options.progress, is_open=True) as on_step:
        return guard(
            plans.modules,
            TVM_ALONE,
            dataclasses.replace(how, on_step=on_step),
            options=options.guarding,
            failed=plans.failed,
            same_as=plans.same_as(),
        )


def _build_plan(
    request: Request,
    records: TuningRecords,
    module: tvm.IRModule,
    compiled: CompiledParts | None = None,
) -> Any:
    """Build the library of a whole plan that competes; with `compiled`, which knows the kernels of
    these records alone, it is for a file and costs what is new in it."""
    is_untuned = request.plans.is_untuned(module)
    used = TuningRecords() if is_untuned else records
    with used.in_force():
        # Kernels that are shared run on all threads.
        is_serial = is_on_one_thread(module["main"])
        if compiled is not None and not is_untuned and not is_serial:
            return compiled.build(module, opt_level=None, **request.build_options)
        # A plan of the model's file needs no VM for what TVM's graph executor cannot run.
        executor = executor_of(request.build_options, module)
        return build_whole(module, request.targets.host, executor, options=request.build_options)


def search_whole(
    request: Request, found: OpLevel, how: EndToEnd, runner: Runner
) -> GraphSearch | None:
    """Search whole plans as the options say, and add the best to the request's; None without a
    search."""
    if not _is_searched(request, found) or request.limit.left(WHOLE_PLANS) <= 0:
        return None
    with request.clock.phase("graph search"):
        try:
            return search_whole_plans(request, found, how, runner=runner)
        except GuardUnavailable as error:
            _logger.warning("whole plans are not searched: %s", error)
            return None


def search_whole_plans(
    request: Request, found: OpLevel, how: EndToEnd, runner: Runner
) -> GraphSearch:
    """Search as `search_whole` does. GuardUnavailable where whole plans cannot be measured."""
    plans, options = request.plans, request.options.graph_searching
    space = PlanSpace(found.replans, request.targets.host.kind.name, plans.parts)
    if not space.genes:
        return GraphSearch(options.strategy, ended="no operator can run on several backends")
    first = space.parts_of(space.seeds()[0])
    reference = space.key_of(first)
    with contextlib.ExitStack() as held:
        # It may end before its last trial: when its time is up, or no other plan is found.
        on_step = held.enter_context(steps("graph search", request.options.progress, is_open=True))
        on_step("plans tried", 0, options.trials)
        known = held.enter_context(known_plans(request, found.records, runner, reference=reference))
        base = known.look_up(reference)
        beside = plans.module_of(first)
        if isinstance(beside, Cost):
            raise GuardUnavailable(f"the op-level plan cannot be made again: {beside.Summary()}")
        trials = held.enter_context(open_trials(beside, how, (base and base.seconds) or 0.0))

        tried = 0

        def on_trials(done: int) -> None:
            nonlocal tried
            tried = done
            on_step("plans tried", done, options.trials)

        def on_wait(text: str) -> None:
            on_step(text, tried, options.trials, is_waiting=True)

        def measure(parts: Mapping[str, Parts]) -> dict[str, Cost]:
            others = {k: plans.module_of(p) for k, p in parts.items() if k != reference}
            failed = {k: made for k, made in others.items() if isinstance(made, Cost)}
            costs = trials.measure({k: others[k] for k in others if k not in failed}, on_wait)
            return {**costs, **failed, reference: Cost.given(trials.base)}

        seconds = min(options.seconds, request.limit.left(WHOLE_PLANS))
        within = dataclasses.replace(options, seconds=seconds)
        search = search_plans(space, measure, known, options=within, on_trials=on_trials)
    plans.add_tried(search.placed())
    added = 0
    for parts in search.best.values():
        if added == BEST:
            break
        added += plans.add_new(f"{SEARCHED}{added + 1}", parts)
    return search


@contextlib.contextmanager
def known_plans(
    request: Request,
    records: TuningRecords,
    runner: Runner,
    reference: str,
) -> Iterator[KnownPlans]:
    """Yield what the store knows of the module's plans that were measured beside the plan
    `reference`; nothing where a backend has no version."""
    device = runner.info if isinstance(runner, DeviceRunner) else None
    versions = {str(each): version_of(each.kind.name, device) for each in request.targets.external}
    depends_on = {
        **how_built(request),
        "backends": versions,
        "tuning": records.digest() if len(records) else "",
        "kernels": [[c.backend, c.step, c.kernel] for c in for_candidates(request.plans.kernels)],
        "beside": reference,
        "accuracy_budget": request.options.accuracy_budget,
        **({"judged_by": request.original.agreement.by} if request.original else {}),
    }
    store = None
    if None not in versions.values():
        how = measure_options(request.options.session)
        store = open_store(request.options.storing, how, device)
    try:
        module = " ".join(function.key for function in describe_functions(request.prepared))
        is_quiet = functools.cache(lambda: runner.is_quiet())
        yield KnownPlans(
            store, module, str(request.targets.host), options=depends_on, is_quiet=is_quiet
        )
    finally:
        if store is not None:
            store.close()
