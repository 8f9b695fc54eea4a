# SPDX-License-Identifier: Apache-2.0
"""Module + targets -> the module that is fastest on this machine: prepare, partition, guard.

Test: test_optimizer.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import tvm
from tvm_collage.words import Effort

from .backends.accuracy import (
    check_budget,
    keeping,
    traders_in,
    warn_of_made_up_inputs,
    without_traders,
)
from .backends.targets import GivenTargets, TargetList, parse_targets, warn_host_alone
from .compile import build_whole, check_calls_parts, check_runs, executor_of, prepare
from .compile.built import Built
from .compile.module_check import check_is_module, check_module
from .errors import OptionError
from .estimators import CostEstimator
from .estimators.relearnt import Relearnt, pairs_of
from .estimators.session import Session, default_workers, open_session
from .estimators.tuned import tune_whole, tuning
from .exec.forks import run_in_forks
from .exec.launch import make_scratch, start_ahead
from .exec.spent import phase
from .exec.time_limit import ASKED, BUILT, PREPARED, TimeIsUpError, TimeLimit
from .files.text import check_report_path, write_report
from .measure.race.comparison import ORIGINAL
from .messages.progress import one_step
from .options import CollageOptions
from .options.named import option
from .plans.competing import Plans
from .plans.first_answer import FirstAnswer, first_answer, ship_best
from .plans.graph_search import GraphSearch, GuardResult, coarse_plans
from .plans.names import EXACT, OP_LEVEL, TVM_ALONE, UNTUNED
from .plans.original import Agreement
from .plans.part_kernels import PartKernels
from .plans.placement import Placement, load_placement
from .plans.placement.made_with import this_machine
from .plans.profiled import Profiled
from .plans.request import OpLevel, Phases, Request
from .plans.run_pass import options_set, partition
from .plans.sample_inputs import SampleInputs, check_samples, load_samples
from .plans.unraced import beaten_plans, slow_plans
from .plans.whole_file import add_originals
from .plans.whole_plans import (
    check_original,
    check_search,
    decide,
    end_to_end,
    first_end_to_end,
    search_whole,
)
from .process_wide.interrupts import interrupts_kept
from .process_wide.logs import logging_at
from .relay_util.node_spans import stamp_nodes
from .replays import EarlierDecisions, replay
from .report.make import wanted_costs
from .report.tables import costs_text
from .result import Result
from .tuning import TuningRecords, records_in_force
from .tuning.from_options import given_records, shipped_of

_logger = logging.getLogger(__name__)


def optimize(
    mod: tvm.IRModule,
    params: dict[str, Any] | None = None,
    targets: GivenTargets = None,
    options: CollageOptions | None = None,
    *,
    build_options: dict[str, Any] | None = None,
    placement: Placement | str | os.PathLike | None = None,
    sample_inputs: Mapping[str, Any] | str | os.PathLike | None = None,
    original: Any = None,
    kept: Callable[[tvm.IRModule], Iterable[int]] | None = None,
) -> Result:
    """Place every part of `mod` on the target where it was measured fastest (RFC 0062).

    `targets`: one host target, then external backends, as `relay.build` takes them. `options`:
    CollageOptions, by default those of the current PassContext. `build_options`: further arguments
    of `build_library`, e.g. the executor, for the libraries that the guard builds; "vm" is one as
    well, and the default for a module that TVM's graph executor cannot run. ExecutorError where the
    executor or the runtime cannot call parts of the external backends.
    `placement`, or the file that the option of that name names, is used instead of measuring
    anything. `original`: the file that `mod` was imported from, or an ONNX ModelProto: its own
    runtime says what outputs are right (docs/accuracy.md), and OriginalError is raised where those
    of `mod` are others. `kept`: of the module as it is partitioned, the nodes that no backend which
    trades accuracy is to take. Raises the errors of `collage.errors`; whatever fails
    while measuring is data in the result.
    """
    check_is_module(mod)
    if isinstance(params, (list, tuple, str, tvm.target.Target)):  # targets, most likely
        raise TypeError(
            "optimize takes params as a dict of arrays by name, or None, got "
            f"{type(params).__name__}; targets are its third argument"
        )
    if options is not None and not isinstance(options, CollageOptions):
        raise TypeError(
            f"optimize takes options as CollageOptions(...), got {type(options).__name__}"
        )
    with options_set({} if options is None else dataclasses.asdict(options)):
        options = options or CollageOptions.current()
        if options.calibration:
            raise OptionError(
                option("calibration")
                + " is for models that are ONNX files: call collage.optimize_precision, or name "
                + option("original")
                + " for relay.build"
            )
        if options.metric != CollageOptions().metric:
            raise OptionError(
                option("metric")
                + " judges precisions by samples, of which there are none: set "
                + option("calibration")
            )
        check_report_path(options.report)
        with logging_at(options.log_level), interrupts_kept():
            samples = load_samples(
                options.sample_inputs if sample_inputs is None else sample_inputs
            )
            found = _optimize(
                mod,
                params,
                parse_targets(targets),
                options=options,
                build_options=build_options or {},
                given=_Given(
                    samples,
                    options.placement or None if placement is None else placement,
                    options.original if original is None else original,
                    kept,
                ),
            )
            if found.guard:
                warn_of_made_up_inputs(found.mod, bool(samples))
            write_report(found, options.report)
            context = tvm.transform.PassContext.current()
    make_built = functools.partial(_build, found, context, build_options or {}, options.progress)
    return found.built_by(make_built)


def _build(
    found: Result, context: tvm.transform.PassContext, build_options: dict, progress: str
) -> Built:
    """Return what ships: the guard's library, or one that is built as it was decided for."""
    library = found.library
    if library is None:
        with context, found.records.in_force(), one_step("building", found.plan, progress):
            library = build_whole(found.mod, found.host, found.executor, options=build_options)
    return Built.of_library(library, found.mod)


class _Given(NamedTuple):
    """The user's own of a call: arguments before the options of the same names."""

    samples: SampleInputs
    decision: Placement | str | os.PathLike | None  # a placement, or its file
    original: Any  # the model's file, or an ONNX model; none where it is empty
    kept: Callable[[tvm.IRModule], Iterable[int]] | None  # nodes for exact backends alone


def _optimize(
    mod: tvm.IRModule,
    params: dict[str, Any] | None,
    targets: TargetList,
    options: CollageOptions,
    build_options: dict[str, Any],
    given: _Given,
) -> Result:
    """Run the phases, in order."""
    decision, samples = given.decision, given.samples
    placement = _placement_of(decision)
    check_module(mod)
    is_compared = options.guard or placement is not None
    check_budget(targets.external, options.accuracy_budget, is_compared=is_compared)
    check_search(options.graph_searching, options.guarding)
    clock, limit = Phases(), TimeLimit(0 if placement else options.time_limit)
    if options.guard and targets.external and placement is None:
        start_ahead()
    with clock.phase("prepare"), one_step("preparing", "the model", options.progress):
        prepared, is_simplified = _prepared(
            mod, params, targets.host, placement=placement, limit=limit
        )
    executor = executor_of(build_options, prepared)
    check_runs(prepared, executor)
    check_calls_parts(executor, build_options.get("runtime"), targets.backends)
    check_samples(samples, prepared)
    plans = Plans(prepared, targets, is_simplified)
    request = Request(
        prepared,
        targets,
        options,
        build_options=build_options,
        samples=samples,
        executor=executor,
        records=given_records(options.tuning, targets.host),
        plans=plans,
        clock=clock,
        limit=limit,
    )
    with keeping(given.kept(prepared) if given.kept else ()):
        return _answered(request, given, placement)


def _answered(request: Request, given: _Given, placement: Placement | None) -> Result:
    """Return what ships, by a placement, by what an earlier compile has decided, or by now."""
    options, targets, plans = request.options, request.targets, request.plans
    decision = given.decision
    if placement is not None:
        request = _compared(request, given.original)
        file = f", {os.fspath(decision)}" if isinstance(decision, (str, os.PathLike)) else ""
        return replay(request, placement, f"it was built by a decision that was made before{file}")
    earlier = EarlierDecisions(request, given.original)
    if known := earlier.result():
        return known
    request = _compared(request, given.original)
    if not targets.external and not options.tuning.tries():
        is_here = not options.devices.tracker
        if not shipped_of(options.tuning, request.prepared, targets.host, is_here=is_here).lines:
            warn_host_alone(targets.host, options.accuracy_budget)
            return _result(request, TVM_ALONE)
    if options.guard:
        with phase("plans"), one_step("planning", "backends alone", options.progress):
            plans.add_single_backends()
            add_originals(request)
    with make_scratch() as folder:
        request = dataclasses.replace(request, folder=folder)
        return _decided(request, earlier)


def _decided(request: Request, earlier: EarlierDecisions) -> Result:
    """Find the first answer, search, and keep the decision."""
    with first_answer(request, first_end_to_end(request)) as first:
        try:
            result, is_cut = _searched(request, first)
        except KeyboardInterrupt:
            if not first.best:
                raise
            name, guarded, why = ship_best(request, first, "the compile was interrupted")
            return dataclasses.replace(_result(request, name, guarded=guarded), ended_early=why)
        earlier.keep(result, is_cut)
        return result


def _searched(request: Request, first: FirstAnswer) -> tuple[Result, bool]:
    """Search, have the plans compete, and return what ships, and whether a limit of time ended some
    of it early."""
    options, targets, plans = request.options, request.targets, request.plans
    with contextlib.ExitStack() as held:
        means = open_session(
            options.session, targets.external, request.prepared, limit=request.limit
        )
        session = held.enter_context(means)
        relearnt = _relearnt(request, session) if _is_foreseen(request) else None
        profiled = None
        try:
            if relearnt:
                how = first_end_to_end(request, default_workers())
                profiled = Profiled(request, session, first, how, multiples=relearnt.multiples())
            has_profiles = profiled is not None and profiled.profiles is not None
            if not has_profiles and options.searching.effort == Effort.QUICK and first.files:
                found = OpLevel(request.prepared, request.records)
            else:
                found = _place_operators(request, session, profiled if has_profiles else None)
        except TimeIsUpError as error:
            _logger.warning(
                "the search is not finished, each backend alone and TVM compete: %s", error
            )
            counts = session.estimator.counts()
            found = OpLevel(request.prepared, request.records, counts=counts, is_cut=True)
        if profiled:
            first = profiled.first
        if profiled and profiled.profiles:
            first = first.without(slow_plans(request, first, profiled.profiles))
        if relearnt and found.profiles:
            relearnt.keep(pairs_of(found.reports, found.profiles))
        plans.machine = session.runner.machine()
        if session.runner.is_here:
            held.close()  # the guard's processes get the memory; devices are held for it
        _add_plans(request, found)
        first = first.without(beaten_plans(request, first, found))
        how = end_to_end(request, found, session.runner, first)
        search = search_whole(request, found, how, runner=session.runner)
        if options.guard and found.is_small() and (plans.machine or this_machine()).threads > 1:
            plans.add_on_one_thread(first.never_on_one_thread())
        if found.records.changes_builds():
            plans.add_untuned()
        name, guarded, skipped = decide(request, found, how, first)
    if guarded is not None and guarded is first.raced:
        usual = dataclasses.replace(found, records=request.records)
        result = _result(request, name, usual, guarded=guarded, search=search)
        return dataclasses.replace(result, ended_early=skipped), True
    result = _result(request, name, found, guarded=guarded, skipped=skipped, search=search)
    is_cut = found.is_cut or request.limit.left(BUILT) <= 0 or not plans.is_simplified
    return result, is_cut


def _is_foreseen(request: Request) -> bool:
    """Return whether profiles of the backends alone may end the search early: not where tuning
    makes other kernels than were profiled, nor where whole plans are searched by all costs."""
    options = request.options
    tunes = options.tuning.tries() or options.tuning.shipped
    is_searched = options.graph_searching.enabled
    return options.searching.effort != Effort.EXHAUSTIVE and not (tunes or is_searched)


def _relearnt(request: Request, session: Session) -> Relearnt:
    """Return the multiples of profiles that this machine's store knows."""
    targets = request.targets
    backends = [target.kind.name for target in targets.external]
    return Relearnt(
        request.options.storing.file, targets.host, backends, how=session.estimator.options
    )


def _compared(request: Request, original: Any) -> Request:
    """Return the request with how its module agrees with its original."""
    return dataclasses.replace(request, original=check_original(request, original))


def _placement_of(given: Placement | str | os.PathLike | None) -> Placement | None:
    """Return what was given as a placement or its file, None for none."""
    if isinstance(given, (str, os.PathLike)):
        return load_placement(given)
    if given is None or isinstance(given, Placement):
        return given
    raise TypeError(
        f"placement takes a Placement or the path of its file, got {given!r:.60}: "
        "collage.load_placement(path) and result.placement give one"
    )


def _prepared(
    mod: tvm.IRModule,
    params: dict[str, Any] | None,
    host: tvm.target.Target,
    placement: Placement | None,
    limit: TimeLimit,
) -> tuple[tvm.IRModule, bool]:
    """Return the module that is partitioned, and whether it is simplified. Under a limit a fork
    prepares it first: where that does not end or crashes, so would this process, and the model is
    taken as it is. A placement is of a module that was prepared its way, whatever the rest is built
    at."""
    level = placement.made_with.opt_level if placement else None

    def module(is_simplified: bool = True) -> tuple[tvm.IRModule, bool]:
        made = prepare(mod, params, host, opt_level=level, is_simplified=is_simplified)
        return stamp_nodes(made), is_simplified

    if placement:
        return module(placement.made_with.is_simplified)
    if limit.is_set:
        tasks = {"prepare": lambda: bool(module())}
        reply = run_in_forks(tasks, lambda _: limit.left(PREPARED))["prepare"]
        if reply.outcome in ("timeout", "died"):
            _logger.warning("the model is compiled without being simplified: %s", reply.message)
            return module(is_simplified=False)
    return module()


def _place_operators(request: Request, measuring: Session, profiled: Profiled | None) -> OpLevel:
    """Run the op-level search, with kernels and schedules chosen for what it measures; `profiled`
    has profiles."""
    options, targets = request.options, request.targets
    is_quick = options.searching.effort == Effort.QUICK and profiled is not None
    kernels = None
    if options.measure_kernels and measuring.runner.is_here and not is_quick:
        run_seconds = profiled.profiles.rival_seconds if profiled and profiled.profiles else None
        kernels = PartKernels(request, measuring, run_seconds)
        if profiled is None:
            kernels.chosen()  # costs are asked for in any case
        else:
            profiled.when_sharp(kernels.chosen)
        measuring = dataclasses.replace(measuring, kernels=kernels.of_candidates)
    time = max(1.0, min(options.tune_seconds, request.limit.left(ASKED)))
    tuned = dataclasses.replace(options.tuning, seconds=time)
    with (
        request.records.in_force(),
        tuning(
            measuring,
            tuned,
            request.prepared,
            target=targets.host,
            external_targets=targets.external,
        ) as session,
        request.clock.phase("partition"),
    ):
        estimator, run = CostEstimator(session, profiled), session.tuning_run
        if options.guard:  # a search of whole plans needs it too
            estimator.replans = {}
        if not targets.external:
            tune_whole(session, request.prepared, targets.host)
        # A tuner tells of its own work between the questions.
        with contextlib.nullcontext() if run else session.estimator.searching():
            partitioned = partition(request.prepared, targets, estimator, **_asking(request))
            if kernels:
                kernels.settle(profiled.profiles if profiled else None)
            if traders_in(partitioned):
                _add_exact(request, session, profiled)
    records = request.records
    if run and (run.records or tuned.tries()):
        records = TuningRecords([*records, *run.records], [run.tuner])
    for report in estimator.reports:
        if not report.skipped:
            text = costs_text(wanted_costs(report))
            _logger.info("search of @%s: %s", report.function, text)
    return OpLevel(
        partitioned,
        records,
        estimator.reports,
        replans=estimator.replans or {},
        counts=estimator.counts,
        transfers=run.transfers if run else {},
        profiles=profiled.profiles if profiled else None,
        is_cut=request.limit.left(ASKED) <= 0,
    )


def _add_exact(request: Request, session: Session, profiled: Profiled | None) -> None:
    """Add the op-level optimum of the backends that do not trade accuracy, whatever the others
    take; most of their costs are known."""
    exact = dataclasses.replace(request.targets, external=without_traders(request.targets.external))
    if exact.external:  # else it is TVM alone
        estimator = CostEstimator(session, profiled and profiled.without_rival())
        found = partition(request.prepared, exact, estimator, **_asking(request))
        request.plans.add_found(EXACT, found, estimator.reports)


def _asking(request: Request) -> dict[str, float]:
    """Return the option of the pass that says how long it may ask for costs; {} for no limit."""
    limit = request.limit
    return {"time_limit": max(limit.left(ASKED), 1e-6)} if limit.is_set else {}


def _add_plans(request: Request, found: OpLevel) -> None:
    """Add the plans that compete with TVM alone: what was found, and what is made of it."""
    if request.options.guard:
        with phase("plans"), one_step("planning", "plans to compare", request.options.progress):
            request.plans.add_single_backends()  # by the kernels that were chosen
            if found.is_beaten():
                return
            request.plans.add_merged(found.reports)
            for name, parts in coarse_plans(found.replans).items():
                request.plans.add_new(name, parts)
    # The op-level plan takes part even when it equals another: its figure is always shown.
    request.plans.add_found(OP_LEVEL, found.partitioned, found.reports)


def _result(
    request: Request,
    name: str,
    found: OpLevel | None = None,
    guarded: GuardResult | None = None,
    skipped: str = "",
    search: GraphSearch | None = None,
) -> Result:
    """Return what ships by that plan."""
    found = found or OpLevel(request.prepared, request.records)
    mod = request.plans.modules[name]
    return Result(
        mod,
        request.targets.host,
        name,
        guard=guarded,
        partitioned=found.reports,
        seconds=request.clock.seconds,
        guard_skipped=skipped,
        makers=_makers(request.plans, found.records, request.targets.host),
        costs=found.counts,
        records=TuningRecords() if name in UNTUNED.values() else found.records,
        transfers=found.transfers,
        profiles=found.profiles,
        kernels=request.plans.kernels_of(name),
        search=search,
        executor=executor_of(request.build_options, mod),
        original=_agreement(request, name, guarded),
    )


def _agreement(request: Request, plan: str, guarded: GuardResult | None) -> Agreement | None:
    """Return how what ships agrees with the model's file: as the guard compared it, or else the
    import."""
    if request.original is None:
        return None
    found = guarded.of(plan) if guarded else None
    if found is None or found.reference != ORIGINAL:
        return request.original.agreement
    return dataclasses.replace(request.original.agreement, error=found.output_error)


def _makers(
    plans: Plans, records: TuningRecords, host: tvm.target.Target
) -> dict[str, Callable[[], Placement]]:
    """Return what makes each plan's placement; the user's contexts are those of now."""

    def in_force(used: TuningRecords) -> TuningRecords:
        with used.in_force():
            return records_in_force(host)[0]

    tuned, untuned = in_force(records), in_force(TuningRecords())
    is_untuned = UNTUNED.values()
    return {n: plans.maker(n, untuned if n in is_untuned else tuned) for n in plans.placed}
