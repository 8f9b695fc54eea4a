# SPDX-License-Identifier: Apache-2.0
"""Module + targets -> the module that is fastest on this machine: prepare, partition, guard.

Test: test_optimizer.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import tvm
from tvm.relay.transform import CollagePartition
from tvm.target import make_compilation_config

from .build import build_library, prepare
from .errors import UnknownBackendError
from .estimators import CostEstimator, reraise_interrupt
from .graph_search import GuardResult, GuardUnavailable, guard, guard_progress
from .measure import Cost
from .measured import measuring_session, own_backend_modules
from .module_check import check_module
from .options import PREFIX, CollageOptions, check_options
from .targets import TargetList, parse_targets

_logger = logging.getLogger(__name__)

# Names of plans in reports: TVM alone, and the op-level optimum. A backend alone has its own name.
TVM_ALONE = "tvm"
OP_LEVEL = "collage"
# The op-level optimum with neighbouring parts of one backend joined, which its sum cannot judge.
MERGED = "collage-merged"


@dataclasses.dataclass(frozen=True)
class Result:
    """What Collage decided for a module.

    mod: the module to build for `host`, parts of external backends as global functions.
    plan: the name of the plan that ships: "collage" (op-level optimum), "collage-merged" (its
        neighbouring parts joined), "tvm" or a backend's name.
    guard: what each plan did end to end; None when the guard was off or had nothing to compare.
    partitioned: one report a function of the op-level search (parts, costs, failures, limits).
    seconds: time spent by phase ("prepare", "partition", "guard"), in seconds.
    guard_skipped: why a guard that was on could not measure, e.g. control flow or dynamic shapes,
        which the graph executor does not take; "" otherwise. Then the op-level optimum ships if
        the cost of each of its parts was measured, else TVM alone.
    """

    mod: tvm.IRModule
    host: tvm.target.Target
    plan: str
    guard: GuardResult | None
    partitioned: list[dict[str, Any]]
    seconds: dict[str, float]
    guard_skipped: str = ""

    @property
    def library(self) -> Any:
        """The graph executor's library that the guard built and measured; None without a guard."""
        return self.guard.libraries[self.plan] if self.guard else None

    def to_json(self) -> dict[str, Any]:
        """Plan, measurements and parts as JSON values; times in seconds."""
        from .report import result_to_json

        return result_to_json(self)

    def show(self) -> None:
        """Print the table of plans and of the parts."""
        from .report import print_result

        print_result(self)


def optimize(
    mod: tvm.IRModule,
    params: dict[str, Any] | None = None,
    targets: Any = None,
    options: Any = None,
    *,
    build_options: dict[str, Any] | None = None,
) -> Result:
    """Place every part of `mod` on the target where it was measured fastest (RFC 0062).

    `targets`: one host target, then external backends, as `relay.build` takes them. `options`:
    CollageOptions, by default those of the current PassContext. `build_options`: further arguments
    of `build_library` for the graph executor's libraries that the guard builds. Raises the errors
    of `collage.errors`; whatever fails while measuring is data in the result.
    """
    more = build_options or {}
    if options is None:
        return _optimize(mod, params, parse_targets(targets), CollageOptions.current(), more)
    with _options_set(dataclasses.asdict(options)):
        return _optimize(mod, params, parse_targets(targets), options, more)


def _optimize(mod, params, targets: TargetList, options, build_options) -> Result:
    check_options(options)
    check_module(mod)
    opt_level = tvm.transform.PassContext.current().opt_level
    clock = _Phases()
    with clock.phase("prepare"):
        prepared = prepare(mod, params, targets.host, opt_level=opt_level)
    if not targets.external:
        return Result(prepared, targets.host, TVM_ALONE, None, [], clock.seconds)
    with measuring_session(options, targets.external):
        estimator = CostEstimator()
        with clock.phase("partition"):
            partitioned = partition(prepared, targets, estimator)
            # The workers' costs are known by now, so this is the same plan and takes no measuring.
            merged = partition(prepared, targets, CostEstimator(), merge_parts=True)
    if not options.guard:
        return Result(partitioned, targets.host, OP_LEVEL, None, estimator.reports, clock.seconds)
    singles, failed = _single_backend_plans(prepared, targets)
    # The op-level plan takes part even when it equals another, so that its figure is always shown.
    plans = {TVM_ALONE: prepared, **singles, OP_LEVEL: partitioned}
    if not tvm.ir.structural_equal(merged, partitioned):
        plans[MERGED] = merged
    found, skipped = None, ""
    with clock.phase("guard"), guard_progress(options.progress) as on_step:
        try:
            found = guard(
                plans,
                TVM_ALONE,
                lambda module: build_library(
                    module, targets.host, opt_level=opt_level, **build_options
                ),
                failed=failed,
                rounds=options.guard_rounds,
                seed=options.seed,
                imports=own_backend_modules(targets.external),
                mod_name=build_options.get("mod_name", "default"),
                on_step=on_step,
            )
        except GuardUnavailable as error:
            skipped = str(error)
    if found is not None:
        name = found.winner
    else:
        name = OP_LEVEL if _is_all_measured(estimator.reports) else TVM_ALONE
        _logger.warning("plan %s ships without end-to-end measurements: %s", name, skipped)
    return Result(plans[name], targets.host, name, found, estimator.reports, clock.seconds, skipped)


def partition(mod: tvm.IRModule, targets: TargetList, estimator, **options) -> tvm.IRModule:
    """The pass alone: `mod` (typed, weights bound) with its parts on their fastest targets.

    `options` are further Collage options by name, over those of the current PassContext.
    """
    with _options_set(options):
        config = make_compilation_config(tvm.transform.PassContext.current(), targets.all)
        with reraise_interrupt(estimator):
            return CollagePartition(config, estimator)(mod)


def _options_set(options: dict[str, Any]) -> tvm.transform.PassContext:
    """The current PassContext with Collage options over its own."""
    context = tvm.transform.PassContext.current()
    return tvm.transform.PassContext(
        opt_level=context.opt_level,
        required_pass=context.required_pass,
        disabled_pass=context.disabled_pass,
        instruments=context.instruments,
        config={**context.config, **{PREFIX + name: value for name, value in options.items()}},
    )


def _single_backend_plans(
    prepared: tvm.IRModule, targets: TargetList
) -> tuple[dict[str, tvm.IRModule], dict[str, Cost]]:
    """Each external backend alone: it takes all that it can, TVM the rest.

    A plan that cannot be made is a failed cost: a kind with TVM's own pattern table alone, which no
    backend is registered for, or a predicate or pass that fails on this module.
    """
    from .backends import greedy_partition

    plans, failed = {}, {}
    for name in dict.fromkeys(target.kind.name for target in targets.external):
        try:
            plans[name] = greedy_partition(prepared, name)
        except UnknownBackendError as error:
            failed[name] = Cost.failed("unsupported", str(error))
        except Exception as error:  # noqa: BLE001 - a backend's own code; it costs its plan alone
            text = str(error).strip().splitlines()[-1] if str(error).strip() else repr(error)
            failed[name] = Cost.failed("compile_failed", text)
    return plans, failed


def _is_all_measured(reports: list[dict[str, Any]]) -> bool:
    """Whether each kernel of the op-level plan was measured, in every function."""
    return all(
        part.status == "measured"
        for report in reports
        for part in (ReportedPart(*row[:7]) for row in report["parts"])
        if part.is_kernel
    )


class ReportedPart(NamedTuple):
    """A part in the pass's report."""

    backend: str
    rule: str
    label: str
    status: str
    seconds: float
    message: str
    is_kernel: bool


class _Phases:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - began
