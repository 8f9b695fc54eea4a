# SPDX-License-Identifier: Apache-2.0
"""Sides of a net beside each other: its files, a backend that has all that it takes, figures of the
comparison, and the loop over nets that leaves out what fails. Test: bench/test_variants.py."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import models
import onnx
import tvm
from tvm.relay import collage
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.costs.kernel import KernelChoice
from tvm.relay.collage.estimators.kernel_choice import choose_kernels
from tvm.relay.collage.estimators.session import open_session
from tvm.relay.collage.measure import Comparison, Contestant
from tvm.relay.collage.measure.peers import PEERS
from tvm.relay.collage.measure.race.comparison import paired_ratio
from tvm.relay.collage.messages.foreign import last_line
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.plans.names import TVM_ALONE

from .tables import interval_text

_Item = TypeVar("_Item")


def with_threads(count: int) -> dict[str, str]:
    """Return variables of a side's process that give TVM and OpenMP so many threads."""
    return dict.fromkeys(("TVM_NUM_THREADS", "OMP_NUM_THREADS"), str(count))


@dataclasses.dataclass(frozen=True)
class Files:
    """A net's ONNX file and inputs in a folder, for sides of so many threads."""

    folder: Path
    model: onnx.ModelProto
    file: str
    inputs: str
    environment: dict[str, str]

    def alone(
        self,
        name: str,
        mod: tvm.IRModule,
        target: str,
        kernels: Sequence[KernelChoice] = (),
        **variables: str,
    ) -> Contestant:
        """Return the library of a prepared module on a backend alone, as build_alone makes it."""
        library = self.library(name, mod, target, kernels=kernels)
        environment = {**self.environment, **variables}
        return Contestant.of_library(name, library, self.inputs, environment=environment)

    def library(
        self, name: str, mod: tvm.IRModule, target: str, kernels: Sequence[KernelChoice] = ()
    ) -> str:
        """Return the file of that library."""
        file = str(self.folder / f"{name}.so")
        build_alone(mod, target, kernels).export_library(file)
        return file

    def peer(self, name: str) -> Contestant:
        return PEERS[name].contestant(self.file, self.inputs, self.environment)


class _Plan(NamedTuple):
    mod: tvm.IRModule
    records: str


class PlanNames:
    """Names of plans, of which equal ones have one."""

    def __init__(self) -> None:
        self._plans: dict[str, _Plan] = {}

    def name(self, called: str, mod: tvm.IRModule, records: str = "") -> str:
        """Return the name of an equal plan; else what this one is called, unless another has that
        name. records: the digest of the tuning records that it is built with."""
        for name, plan in self._plans.items():
            if plan.records == records and tvm.ir.structural_equal(plan.mod, mod):
                return name
        while called in self._plans:
            called += "'"
        self._plans[called] = _Plan(mod, records)
        return called


@contextlib.contextmanager
def files_of(net: models.Net, threads: int, batch: int = 1) -> Iterator[Files]:
    """Hold a net's files while it is measured. FileNotFoundError for a real net that is not
    there."""
    model = net.build(batch)
    with tempfile.TemporaryDirectory(prefix="collage-bench-") as name:
        folder = Path(name)
        yield Files(folder, model, *models.save(net, model, folder), with_threads(threads))


def prepared(model: onnx.ModelProto) -> tvm.IRModule:
    """Prepare a model for partitioning, for the target of this machine."""
    with tvm.transform.PassContext(opt_level=3):
        return prepare(*models.to_relay(model), collage.host_target(), opt_level=3)


def measured_kernels(
    mod: tvm.IRModule, target: str, environment: Mapping[str, str]
) -> tuple[KernelChoice, ...]:
    """Choose by which kernels the steps of a prepared module on the backend of a target run, each
    timed now, by workers of this environment."""
    os.environ.update(environment)  # which workers inherit
    options = collage.CollageOptions(store="none", progress="quiet")
    with (
        tvm.transform.PassContext(opt_level=3),
        open_session(options.session, network=mod) as session,
    ):
        return choose_kernels(session, _plans(mod, target).parts_with_kernels())


def build_alone(mod: tvm.IRModule, target: str, kernels: Sequence[KernelChoice] = ()) -> Any:
    """Build a prepared module on the backend of a target ("dnnl -winograd=never"), which has all
    that it takes, TVM the rest, as the guard builds it but for kernels, which are the usual ones
    unless given; or on "tvm". RuntimeError where it takes nothing, or fails."""
    name = target.split()[0]
    with tvm.transform.PassContext(opt_level=3):
        plans = _plans(mod, target)
        plans.kernels = tuple(kernels)
        plans.add_single_backends()
        if name not in plans.modules:
            raise RuntimeError(f"{name}: {plans.failed.get(name, 'takes nothing of this net')}")
        return build_library(plans.modules[name], collage.host_target())


def _plans(mod: tvm.IRModule, target: str) -> Plans:
    others = [] if target == TVM_ALONE else [target]
    return Plans(mod, parse_targets([collage.host_target(), *others]))


def row_of(item: Comparison, base: Comparison | None) -> dict[str, Any]:
    """Return a side's figures; ratio is its time by the base's with the 95 % interval, whose upper
    bound is None after too few rounds; None where one of the two has none."""
    error = item.output_error
    return {
        "name": item.name,
        "status": item.cost.status,
        "seconds": item.cost.seconds,
        "low": item.cost.low,
        "high": item.cost.high,
        "fastest": min(item.samples, default=None),
        "rounds": item.cost.rounds,
        "ratio": ratio_of(item, base),
        "output_error": error if error is not None and math.isfinite(error) else None,
        "noisy": item.cost.is_noisy,
        "message": item.cost.remarks,
    }


def rows_of(
    found: Sequence[Comparison],
    base: Comparison | None,
    peers: Sequence[str],
    *,
    failures: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Return a row for each side, and for each that was not even built, with the reason; `peers`
    are those that stand for a framework."""
    rows = [row_of(item, base) for item in found]
    named = {row["name"] for row in rows}
    none = dict.fromkeys(("seconds", "low", "high", "fastest", "ratio", "output_error"))
    rows += [
        {**none, "name": name, "status": "compile_failed", "rounds": 0, "message": why}
        for name, why in (failures or {}).items()
        if name not in named
    ]
    return [row | {"is_peer": row["name"] in peers} for row in rows]


def ratio_of(above: Comparison | None, below: Comparison | None) -> list[float | None] | None:
    """Return above / below round by round with its 95 % interval, as JSON has it; None where one of
    them has no time."""
    if not (above and below and above.cost.is_usable and below.cost.is_usable):
        return None
    return list(paired_ratio(above.samples, below.samples).to_json().values())


def ratio_text(above: Comparison, below: Comparison, form: str = ".2f") -> str:
    return interval_text(ratio_of(above, below), form)


def usable_by_name(
    found: Sequence[Comparison], needed: Sequence[str] | None = None
) -> dict[str, Comparison]:
    """Return comparisons by name; RuntimeError for one of those needed (default: all) that
    failed."""
    by_name = {item.name: item for item in found}
    for name in by_name if needed is None else needed:
        if not by_name[name].cost.is_usable:
            raise RuntimeError(f"{name}: {by_name[name].cost.Summary()}")
    return by_name


def print_each(
    items: Iterable[_Item],
    name_of: Callable[[_Item], str],
    lines_of: Callable[[_Item], Iterable[str]],
) -> int:
    """Print each item's lines as they come, and return the exit status: 1 when one was left out, as
    a real net's file is not there or a side failed."""
    status = 0
    for item in items:
        try:
            for line in lines_of(item):
                print(line, flush=True)
        except (FileNotFoundError, RuntimeError) as error:
            print(f"{name_of(item)}: left out: {last_line(error)}", file=sys.stderr, flush=True)
            status = 1
    return status
