# SPDX-License-Identifier: Apache-2.0
"""Sides of a net beside each other: its files, a backend that has all that it takes, figures of the
comparison. Test: bench/test_zoo.py."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import models
import onnx
import tvm
from tvm.relay import collage
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.measure import Comparison, Contestant
from tvm.relay.collage.measure.peers import PEERS
from tvm.relay.collage.measure.race.comparison import paired_ratio
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.plans.names import TVM_ALONE


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

    def library(self, backend: str, mod: tvm.IRModule) -> str:
        """Return the library's file of a prepared module on a backend alone."""
        file = str(self.folder / f"{backend}.so")
        build_alone(mod, backend).export_library(file)
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


def build_alone(mod: tvm.IRModule, backend: str) -> Any:
    """Build a prepared module on a backend, which has all that it takes, TVM the rest, as the guard
    builds it but for kernels, which are the usual ones; or on "tvm". RuntimeError where it takes
    nothing, or fails."""
    others = [] if backend == TVM_ALONE else [backend]
    with tvm.transform.PassContext(opt_level=3):
        plans = Plans(mod, parse_targets([collage.host_target(), *others]))
        plans.add_single_backends()
        if backend not in plans.modules:
            raise RuntimeError(
                f"{backend}: {plans.failed.get(backend, 'takes nothing of this net')}"
            )
        return build_library(plans.modules[backend], collage.host_target())


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
