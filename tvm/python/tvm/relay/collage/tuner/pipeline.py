# SPDX-License-Identifier: Apache-2.0
"""Whole models for Transfer-Tuning: their kernels, schedules searched for them or transferred to
them. Everything is in the log at once, so each step resumes. Test: cli/test_tt.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import tvm

from ..candidate.candidate import CandidateModule, candidate_module
from ..compile import prepare
from ..compile.module_check import FixedShapes, check_fixed_shapes
from ..errors import ModelError
from ..exec.pool import Job, WorkerPool
from ..files.kinds import ONNX, kind_of
from ..files.text import why_no_file
from ..importer.onnx import from_onnx
from ..messages.foreign import last_line
from ..messages.progress import OnStep, untold, waiting
from ..transfer.kernel import Kernel
from ..transfer.log import KIND, note_kernel, read_ansor
from .ansor_search import ROUND
from .budget import Budget
from .step import tune_task
from .transfer import Transfer, Trial

_STEP = f"{tune_task.__module__}:{tune_task.__name__}"
# What ended a search: all trials that were asked for were made, its seconds were over, or its
# kernels were fast enough.
TRIALS, TIME, MATCHED = "trials", "time", "matched"


@dataclasses.dataclass(frozen=True)
class Model:
    """A model as one candidate of TVM's, and the kernels that Ansor has schedules for."""

    candidate: CandidateModule
    kernels: Sequence[Kernel]


class Unfinished(NamedTuple):
    """Why a kernel's search did not come to its end. is_late: time ended it, so that another run
    goes on with it."""

    reason: str
    is_late: bool


class Searched(NamedTuple):
    """How a search ended, by TRIALS, TIME or MATCHED, and by workload why those kernels are
    unfinished that did not get all their trials."""

    ended: str
    unfinished: Mapping[str, Unfinished]


def check_is_file(path: Path) -> None:
    """ModelError where there is no file that can be read."""
    if reason := why_no_file(path):
        raise ModelError(f"{path} cannot be read: {reason}; name an ONNX file")


def load_onnx(path: Path, shapes: Mapping[str, Sequence[int]]) -> tvm.IRModule:
    """An ONNX file's module. `shapes` are for inputs that it leaves open. ModelError, which names
    the file."""
    import onnx  # costs a tenth of a second, which other commands need not pay

    check_is_file(path)
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # noqa: BLE001 - protobuf's own kinds, which onnx does not name
        kind = kind_of(path)
        if kind == ONNX:
            why = f"it is cut off or damaged ({last_line(error)}); copy or export it again"
        else:
            why = f"it seems to be {kind}; name an ONNX file"
        raise ModelError(f"{path} cannot be read as an ONNX model: {why}") from None
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except Exception as error:  # noqa: BLE001 - of the system, or of onnx's check of the paths
        raise ModelError(
            f"{path} keeps weights in files beside it, and these cannot be read "
            f"({last_line(error)}); copy them into its folder, or export it again"
        ) from None
    try:
        return from_onnx(model, dict(shapes) or None)[0]
    except ModelError as error:
        raise type(error)(f"{path}: " + error.text) from error.__cause__
    except Exception as error:  # of TVM's importer, of whatever kind
        why = f"TVM cannot import the model: {last_line(error)}"
        raise ModelError(f"{path}: {why}; export it again, or name another") from error


@contextlib.contextmanager
def one_worker() -> Iterator[WorkerPool]:
    """A pool for trials, which run alone."""
    with contextlib.closing(WorkerPool(1)) as pool:
        yield pool


def open_model(
    mod: tvm.IRModule, target: tvm.target.Target, label: str, workers: WorkerPool
) -> Model:
    """The kernels of a module, as Ansor would have TVM build it for `target`.

    CollageError, of which ModuleError is for inputs with open dimensions.
    """
    check_fixed_shapes(mod, None, "a search for schedules", shape_flags, label)
    with tvm.transform.PassContext(opt_level=3):
        prepared = prepare(mod, target=target)
    candidate = candidate_module(prepared, "tvm", target, {"opt_level": 3}, label)
    return Model(candidate, Transfer([], Path(), workers).kernels(candidate))


def shape_flags(fixed: FixedShapes) -> str:
    """What to do about open dimensions on a command line of ours."""
    flags = " ".join(f"--shape {name}={','.join(map(str, dims))}" for name, dims in fixed.items())
    return f"fix them by {flags}"


def transfer_to(
    model: Model,
    transfer: Transfer,
    seconds: float,
    on_step: OnStep = untold,
) -> dict[str, list[Trial]]:
    """The trials of each kernel, by workload, for `seconds` together, dearest kernels first."""
    trials = {}
    kernels, budget = _dearest_first(model.kernels), Budget(seconds)
    for done, kernel in enumerate(kernels):
        on_step(kernel.name, done, len(kernels))
        on_wait = waiting(on_step, done, len(kernels))
        trials[kernel.workload] = transfer.to_kernel(
            model.candidate, kernel, budget, on_wait=on_wait
        )
    return trials


def count_untried(model: Model, transfer: Transfer) -> int:
    """How many schedules are left to try, as many as the seconds of transfer_to did not suffice
    for."""
    return sum(len(transfer.untried(model.candidate, kernel)) for kernel in model.kernels)


def autoschedule(
    model: Model,
    workers: WorkerPool,
    log: Path,
    trials: int,
    seconds: float,
    search_model: str,
    on_step: OnStep = untold,
    is_enough: Callable[[], bool] = lambda: False,
) -> Searched:
    """Ansor's own search, until the log has so many trials of each kernel, the seconds end, or
    `is_enough`, which is asked before each round of a kernel.

    It goes round by round, some trials of each kernel, so that a search that ends early has served
    all of them.
    """
    unfinished: dict[str, Unfinished] = {}
    exhausted: set[str] = set()  # which have no schedule left that was not tried
    kernels, budget = _dearest_first(model.kernels), Budget(seconds)
    target = str(model.candidate.target)
    for kernel in kernels:
        note_kernel(log, kernel)
    rounds = [*range(ROUND, trials, ROUND), trials]
    for number, enough in enumerate(rounds):
        tried = Counter(line.workload for line in read_ansor(log) if line.target == target)
        for done, kernel in enumerate(kernels):
            if kernel.workload in {*unfinished, *exhausted} or tried[kernel.workload] >= enough:
                continue
            step = (number * len(kernels) + done, len(rounds) * len(kernels))
            on_step(kernel.name, *step)
            if is_enough():
                return Searched(MATCHED, unfinished)
            if budget.is_spent:
                unfinished[kernel.workload] = Unfinished("no time left", is_late=True)
                continue
            arguments = {
                "candidate": model.candidate.to_json(),
                "kind": KIND,
                "workload": kernel.workload,
                "trials": enough,
                "log": str(log),
                "model": search_model,
                "seed": 0,
            }
            limit = budget.limit(len(kernels) - done)
            with budget.spending(waiting(on_step, *step)):
                job = Job("call", {"function": _STEP, "arguments": arguments}, limit)
                [reply] = workers.run([job], concurrency=1)
            if reply.outcome != "ok":
                reason = f"{reply.outcome}: {reply.message}"
                unfinished[kernel.workload] = Unfinished(reason, reply.outcome == "timeout")
            elif not reply.value["trials"]:
                exhausted.add(kernel.workload)
    is_late = any(each.is_late for each in unfinished.values())
    return Searched(TIME if is_late else TRIALS, unfinished)


def _dearest_first(kernels: Sequence[Kernel]) -> list[Kernel]:
    return sorted(kernels, key=lambda kernel: -kernel.calls * kernel.operations)
