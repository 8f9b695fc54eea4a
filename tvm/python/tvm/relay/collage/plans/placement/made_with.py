# SPDX-License-Identifier: Apache-2.0
"""Versions, target and machine of this process, and how a saved placement's differ from them.

Test: plans/placement/test_replay.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import tvm
import tvm_collage
from tvm.target import Target

from ...backends import find_backend
from ...compile.target import maskable_features
from ...machine.environment import cpu_model, read_cpu_flags, tvm_build
from ...options.named import option
from ...tuning import TuningRecords, built_as, records_in_force
from .types import MachineTraits, MadeWith, Placement, Tuning


def made_with_now(
    host: Target,
    backends: Iterable[str],
    opt_level: int,
    machine: MachineTraits | None = None,
    tuning: Tuning | None = None,
) -> MadeWith:
    """Return what a placement for the host target with parts of these backends would be made with;
    on `machine`, or else on this one."""
    versions = {name: backend_version(name) for name in sorted(set(backends))}
    return MadeWith(
        tvm_collage.__version__,
        tvm_build(),
        versions,
        target=str(host),
        opt_level=opt_level,
        machine=machine or this_machine(),
        tuning=tuning,
    )


def tuning_of(records: TuningRecords, mod: tvm.IRModule) -> Tuning:
    """Return what a placement of `mod` (typed) notes of records: those that its kernels may use."""
    return _noted(records.of_module(mod))


def _noted(used: TuningRecords) -> Tuning:
    return Tuning(len(used), tuple(sorted(used.to_json())), used.digest(), origins=used.origins())


def current_opt_level() -> int:
    """Return the level of the current PassContext, which decides about the passes before
    partitioning."""
    return int(tvm.transform.PassContext.current().opt_level)


def backend_version(name: str) -> str:
    """Return the version of an external backend; "" for one that has none or only a pattern
    table."""
    backend = find_backend(name)
    return backend.version() if backend else ""


def this_machine(cpuinfo: str = "/proc/cpuinfo") -> MachineTraits:
    """Describe CPU, vector instructions and threads of this process."""
    features = tuple(sorted(maskable_features() & read_cpu_flags(cpuinfo)))
    return MachineTraits(cpu_model(cpuinfo), features, int(tvm.runtime.num_threads()))


def differences(placement: Placement, host: Target, mod: tvm.IRModule) -> Iterator[tuple[str, str]]:
    """(kind, what differs) of versions, machine, target and the tuning records that are in force
    for `mod`: here first, then in the placement."""
    then = placement.made_with
    now = made_with_now(host, then.backends, then.opt_level)
    for name, here, there in (
        ("tvm-collage", now.collage, then.collage),
        ("TVM", now.tvm, then.tvm),
        *((f"backend {key}", now.backends[key], then.backends[key]) for key in then.backends),
    ):
        if here != there:
            yield "version", f"{name} is of version {here or 'none'}, not {there or 'none'}"
    if now.machine.cpu != then.machine.cpu:
        yield "machine", f"the CPU is {now.machine.cpu!r}, not {then.machine.cpu!r}"
    if now.machine.features != then.machine.features:
        yield "machine", "the CPU " + _feature_difference(now.machine, then.machine)
    if now.machine.threads != then.machine.threads:
        yield "machine", f"TVM runs {now.machine.threads} threads, not {then.machine.threads}"
    if now.target != then.target:
        yield "target", f"the host target is {now.target!r}, not {then.target!r}"
    if then.tuning is not None:
        used = records_in_force(host)[0].of_module(mod)
        # Whose they are is for people; equal records are equal.
        tuning = dataclasses.replace(_noted(used), origins=then.tuning.origins)
        if tuning != then.tuning:
            yield "tuning", _tuning_difference(used, then.tuning)


def _tuning_difference(used: TuningRecords, then: Tuning) -> str:
    now = _noted(used)
    if then.digest in used.earlier_digests():
        ways = ", ".join(map(built_as, now.kinds))
        return (
            f"its {then.Summary()} are in force, but builds make other kernels of them now "
            f"({ways}) than those that it was measured with"
        )
    if not then.records:
        return (
            f"{now.Summary()} are in force, and it was made without: build without "
            + option("tuning_log", "the option relay.collage.tuning_log")
            + " and outside of contexts with records"
        )
    return (
        f"{now.Summary()} are in force, not its {then.Summary()}: name their logs by "
        + option("tuning_log", "the option relay.collage.tuning_log=[...]", value="...")
        + ", or build in the context that holds them"
    )


def _feature_difference(now: MachineTraits, then: MachineTraits) -> str:
    here, there = set(now.features), set(then.features)
    sides = {"has": here - there, "lacks": there - here}
    return " and ".join(f"{verb} {', '.join(sorted(more))}" for verb, more in sides.items() if more)
