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
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tvm

from .backends.accuracy import check_budget, traders_in, without_traders
from .built import Built
from .compile import build_whole, check_runs, executor_of, prepare
from .compile.compiled_parts import CompiledParts
from .compile.executors import GRAPH
from .costs.kernel import KernelChoice, for_candidates
from .estimators import CostEstimator
from .exec.spent import phase
from .files import check_report_path, write_report
from .function_report import FunctionReport
from .graph_search import EndToEnd, GuardResult, GuardUnavailable, Limits, coarse_plans, guard
from .interrupts import interrupts_kept
from .logs import logging_at
from .measured import (
    Session,
    choose_kernels,
    open_session,
    own_backend_modules,
    tune_whole,
    tuning,
)
from .module_check import check_module
from .options import CollageOptions
from .placement import Placement, load_placement
from .placement.replay import apply_placement
from .plans import EXACT, OP_LEVEL, TVM_ALONE, UNTUNED, Plans
from .progress import steps
from .report.facts import costs_asked
from .report.tables import costs_text
from .result import Result
from .run_pass import is_all_measured, options_set, partition
from .sample_inputs import check_samples, load_samples
from .targets import TargetList, parse_targets, warn_host_alone
from .tuner.session import given_records
from .tuning import TuningRecords, records_in_force
from .whole_plans import NONE as NO_SEARCH
from .whole_plans import check_search, search_whole_plans

_logger = logging.getLogger(__name__)


def optimize(
    mod: tvm.IRModule,
    params: dict[str, Any] | None = None,
    targets: Any = None,
    options: Any = None,
    *,
    build_options: dict[str, Any] | None = None,
    placement: Placement | str | os.PathLike | None = None,
    sample_inputs: Mapping[str, Any] | str | os.PathLike | None = None,
) -> Result:
    """Place every part of `mod` on the target where it was measured fastest (RFC 0062).

    `targets`: one host target, then external backends, as `relay.build` takes them. `options`:
    CollageOptions, by default those of the current PassContext. `build_options`: further arguments
    of `build_library`, e.g. the executor, for the libraries that the guard builds; "vm" is one as
    well, and the default for a module that TVM's graph executor cannot run.
    `placement`, or the file that the option of that name names, is used instead of measuring
    anything. Raises the errors of `collage.errors`; whatever fails while measuring is data in the
    result.
    """
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
        check_report_path(options.report)
        with logging_at(options.log_level), interrupts_kept():
            samples = load_samples(
                options.sample_inputs if sample_inputs is None else sample_inputs
            )
            found = _optimize(
                mod,
                params,
                parse_targets(targets),
                options,
                build_options or {},
                placement,
                samples,
            )
            write_report(found, options.report)
            context = tvm.transform.PassContext.current()
    make_built = functools.partial(_build, found, context, build_options or {})
    return dataclasses.replace(found, make_built=make_built)


def _build(found: Result, context: tvm.transform.PassContext, build_options: dict) -> Built:
    """What ships: the guard's library, or one that is built as it was decided for."""
    library = found.library
    if library is None:
        with context, found.records.in_force():
            library = build_whole(found.mod, found.host, found.executor, build_options)
    return Built.of_library(library, found.mod)


def _optimize(
    mod: tvm.IRModule,
    params: dict[str, Any] | None,
    targets: TargetList,
    options: Any,
    build_options: dict[str, Any],
    placement: Any,
    samples: Mapping[str, Any],
) -> Result:
    placement = _placement_of(options.placement or None if placement is None else placement)
    check_module(mod)
    check_budget(targets.external, options, is_guarded=placement is None)
    check_search(options)
    clock = _Phases()
    with clock.phase("prepare"):
        prepared = prepare(mod, params, targets.host, opt_level=None)
    executor = executor_of(build_options, prepared)
    check_runs(prepared, executor)
    check_samples(samples, prepared)
    given = given_records(options, targets.host)
    if placement is not None:
        return _replay(prepared, targets, options, placement, given, executor, clock)
    plans = Plans(prepared, targets)
    if not targets.external:
        warn_host_alone(targets.host, options)
    if not targets.external and not options.tunes():
        return Result(
            prepared,
            targets.host,
            TVM_ALONE,
            None,
            [],
            clock.seconds,
            makers=_makers(plans, given, targets.host),
            records=given,
            executor=executor,
        )
    with contextlib.ExitStack() as held:
        measuring = held.enter_context(open_session(options, targets.external))
        runner = measuring.runner
        if options.measure_kernels and runner.is_here:
            with clock.phase("kernels"):
                plans.kernels = _choose_kernels(measuring, plans, targets, options)
            measuring = dataclasses.replace(measuring, kernels=for_candidates(plans.kernels))
        with (
            given.in_force(),
            tuning(measuring, options, prepared, targets.host, targets.external) as session,
            clock.phase("partition"),
        ):
            estimator, tuner = CostEstimator(session), session.tuner
            if options.guard:  # a search of whole plans needs it too
                estimator.replans = {}
            if not targets.external:
                tune_whole(session, prepared, targets.host)
            partitioned = partition(prepared, targets, estimator)
            if traders_in(partitioned):
                _add_exact(session, plans, prepared, targets)
        records = given
        if tuner and (tuner.records or options.tunes()):
            records = TuningRecords([*given, *tuner.records], [tuner.kind])
        _log_costs(estimator.reports)
        plans.machine = runner.machine()
        replans = estimator.replans or {}
        if runner.is_here:
            held.close()  # the guard's processes get the memory; devices are held for it
        if options.guard:
            with phase("plans"):
                plans.add_single_backends()
                plans.add_merged(estimator.reports)
                for name, parts in coarse_plans(replans).items():
                    plans.add_new(name, parts)
        # The op-level plan takes part even when it equals another: its figure is always shown.
        plans.add_found(OP_LEVEL, partitioned, estimator.reports)
        ship = functools.partial(_build_plan, plans, targets.host, records, executor, build_options)
        is_searched = options.graph_search != NO_SEARCH and bool(replans)
        compiled = None
        if is_searched and executor == GRAPH and CompiledParts.can_build(build_options):
            compiled = CompiledParts(targets.host)
        how = EndToEnd(
            functools.partial(ship, compiled=compiled),
            samples,
            options.seed,
            options.accuracy_budget,
            own_backend_modules(targets.external),
            build_options.get("mod_name", "default"),
            options.rpc_compiler,
            runner.compare,
            runner.is_here,
            ship if compiled else None,
            executor,
        )
        search = None
        if is_searched:
            with clock.phase("graph search"):
                try:
                    search = search_whole_plans(
                        plans,
                        replans,
                        targets,
                        options,
                        how,
                        runner=runner,
                        records=records,
                        executor=build_options,
                    )
                except GuardUnavailable as error:
                    _logger.warning("whole plans are not searched: %s", error)
        if records.changes_builds():
            plans.add_untuned()
        name, found, skipped = OP_LEVEL, None, ""
        if options.guard:
            with clock.phase("guard"):
                found, skipped = _guard(plans, options, how)
            if found is not None:
                name = found.winner
            else:
                # No parts that trade accuracy: nobody compared what comes of them.
                is_fit = not traders_in(partitioned) and is_all_measured(estimator.reports)
                name = OP_LEVEL if is_fit else TVM_ALONE
                _logger.warning("plan %s ships without end-to-end measurements: %s", name, skipped)
    return Result(
        plans.modules[name],
        targets.host,
        name,
        found,
        estimator.reports,
        clock.seconds,
        skipped,
        _makers(plans, records, targets.host),
        estimator.counts,
        _used(records, name),
        kernels=plans.kernels_of(name),
        search=search,
        executor=executor,
    )


def _choose_kernels(
    session: Session, plans: Plans, targets: TargetList, options: Any
) -> tuple[KernelChoice, ...]:
    """Measured for all steps of what each backend takes alone; the plans' parts have the same."""
    session.estimator.require(own_backend_modules(targets.external))
    parts = plans.parts_with_kernels()
    with steps("kernels", options.progress) as on_step:
        return choose_kernels(session, parts, on_step)


def _add_exact(session: Session, plans: Plans, prepared: tvm.IRModule, targets: TargetList) -> None:
    """The op-level optimum of the backends that do not trade accuracy; their costs are known."""
    exact = dataclasses.replace(targets, external=without_traders(targets.external))
    if exact.external:  # else it is TVM alone
        estimator = CostEstimator(session)
        found = partition(prepared, exact, estimator)
        plans.add_found(EXACT, found, estimator.reports)


def _log_costs(reports: list[FunctionReport]) -> None:
    """One line a function: how many costs its search asked for, of how many."""
    for report in reports:
        if not report.skipped:
            text = costs_text(costs_asked(report))
            _logger.info("search of @%s: %s", report.function, text)


def _used(records: TuningRecords, plan: str) -> TuningRecords:
    """The records that a plan is built with."""
    return TuningRecords() if plan in UNTUNED.values() else records


def _makers(
    plans: Plans, records: TuningRecords, host: tvm.target.Target
) -> dict[str, Callable[[], Placement]]:
    """What makes each plan's placement; the user's contexts are those of now."""
    tuned, untuned = _in_force(records, host), _in_force(TuningRecords(), host)
    is_untuned = UNTUNED.values()
    return {n: plans.maker(n, untuned if n in is_untuned else tuned) for n in plans.placed}


def _in_force(records: TuningRecords, host: tvm.target.Target) -> TuningRecords:
    """These, and those that the user's contexts have for a build here."""
    with records.in_force():
        return records_in_force(host)[0]


def _placement_of(given: Any) -> Placement | None:
    """What was given as a placement or its file, None for none."""
    if isinstance(given, (str, os.PathLike)):
        return load_placement(given)
    if given is None or isinstance(given, Placement):
        return given
    raise TypeError(
        f"placement takes a Placement or the path of its file, got {given!r:.60}: "
        "collage.load_placement(path) and result.placement give one"
    )


def _replay(
    prepared: tvm.IRModule,
    targets: TargetList,
    options: Any,
    placement: Placement,
    given: TuningRecords,
    executor: str,
    clock: _Phases,
) -> Result:
    """What the placement says, without measuring."""
    external = [target.kind.name for target in targets.external]
    with clock.phase("replay"), given.in_force():
        mod = apply_placement(prepared, placement, targets.host, external, options.placement_allow)
    return Result(
        mod,
        targets.host,
        placement.plan,
        None,
        [],
        clock.seconds,
        makers={placement.plan: lambda: placement},
        records=given,
        kernels=placement.kernels,
        executor=executor,
    )


def _build_plan(
    plans: Plans,
    host: tvm.target.Target,
    records: TuningRecords,
    executor: str,
    build_options: dict[str, Any],
    module: tvm.IRModule,
    compiled: CompiledParts | None = None,
) -> Any:
    """The library of a whole plan that competes; with `compiled`, which knows the kernels of these
    records alone, it is for a file and costs what is new in it."""
    is_untuned = plans.is_untuned(module)
    used = TuningRecords() if is_untuned else records
    with used.in_force():
        if compiled is not None and not is_untuned:
            return compiled.build(module, opt_level=None, **build_options)
        return build_whole(module, host, executor, build_options)


def _guard(plans: Plans, options: Any, how: EndToEnd) -> tuple[GuardResult | None, str]:
    """The guard's result, or why it could not measure."""
    with steps("guard", options.progress) as on_step:
        try:
            found = guard(
                plans.modules,
                TVM_ALONE,
                how,
                failed=plans.failed,
                same_as=plans.same_as(),
                rounds=options.guard_rounds,
                seconds=options.guard_seconds,
                limits=Limits(options.guard_memory_mb, options.guard_library_mb),
                on_step=on_step,
            )
        except GuardUnavailable as error:
            return None, str(error)
    return found, ""


class _Phases:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            with phase(name):
                yield
        finally:
            self.seconds[name] = time.perf_counter() - began
