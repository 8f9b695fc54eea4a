# SPDX-License-Identifier: Apache-2.0
"""An imported module beside the model's original file, before anything is measured.

The original's runtime computes the right outputs once; the module is computed operator by operator
(measure/outputs/reference.py), which takes less than a build, or built by TVM alone where it
cannot be. What is right is handed on as the truth that all plans are compared with.
Test: plans/original/test_check.py. Docs: docs/accuracy.md
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm

from ...costs.rounding import ROUNDING
from ...errors import FileError, OriginalError
from ...exec.arrays import load_arrays, save_arrays
from ...exec.forks import run_in_forks
from ...exec.launch import make_scratch
from ...exec.process import ask_own, value_of
from ...exec.reply import Unsupported
from ...exec.resolve import call_of
from ...exec.time_limit import KERNELS, NO_LIMIT, SEARCHED, TimeLimit
from ...files.text import why_no_file
from ...measure.options import MeasureOptions
from ...measure.outputs.reference import evaluate
from ...measure.outputs.tolerance import output_tolerance
from ...measure.race.comparison import LEAST_SCALE, output_error
from ...measure.race.race import Contestant
from ...options.named import option
from ..graph_search import EndToEnd, GuardUnavailable
from ..graph_search.libraries import Inputs, Truth
from .nodes import first_difference
from .runtimes import run_original

# The value of the option `original` for a model that is not to be compared.
NONE = "none"
# Where each node agrees, it is rounding that takes outputs off the original's. Other code rounds
# otherwise, and may be off by twice as much. If an output is off by more than the second figure,
# too much of it is decided by rounding to judge anybody. All outputs have one tolerance, so errors
# of theirs that differ by more than the third factor have none.
_OTHER_ROUNDING, MOST_ROUNDING, _APART = 2.0, 0.2, 10.0
# For each thing that is run or computed here: at most, and whatever the limit of time is.
_SECONDS, _LEAST_SECONDS = 120.0, 10.0
_TVM = "tvm"
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Agreement:
    """The agreement of outputs with those of a model's original file."""

    by: str = ""  # the runtime that ran the file, with its version; "" where none did
    error: float | None = None  # max|a-b| / max|b|, None where nothing was compared
    why: str = ""  # what kept it from that, or what is to be known of an error over the tolerance

    def Summary(self) -> str:
        if self.error is None:
            return f"outputs were not compared with the original's: {self.why}"
        to = f"{self.error:.0e}".replace("e-0", "e-") if self.error else "0"
        text = f"outputs agree with {self.by.partition(' ')[0]} to {to}"
        return f"{text}; {self.why}" if self.why else text


@dataclasses.dataclass(frozen=True)
class Original:
    """The findings about a module's original."""

    agreement: Agreement
    truth: Truth | None = None  # None where nobody can be judged by it
    model: Any = None  # its file or ONNX model


def check(model: str | os.PathLike | Any, mod: tvm.IRModule, how: EndToEnd) -> Original:
    """Compare a module with its original, an ONNX ModelProto or the file of a model; `how` makes
    the inputs, and builds what cannot be computed operator by operator.

    OriginalError where the outputs differ, FileError for a name of no file, TypeError for what is
    no model. Types of the module are inferred.
    """
    if isinstance(model, (str, os.PathLike)) and (why := why_no_file(model)):
        raise FileError(option("original") + f": {os.fspath(model)!r}: {why}")
    with make_scratch() as folder:
        try:
            inputs = how.inputs_of(mod)
            file = _file_of(model, folder)
            by, names, outputs = _run_file(file, inputs, folder, seconds=_seconds(how.limit))
        except (GuardUnavailable, Unsupported) as error:
            _logger.warning("outputs are not compared with the original's: %s", error)
            return Original(Agreement(why=str(error)), model=model)
        truth = Truth(inputs, outputs)
        try:
            own = outputs_of(mod, inputs, how, folder=folder)
        except Unsupported as error:
            why = f"the import by itself was not compared ({error})"
            return Original(Agreement(by, None, why), truth._replace(is_of_import=False), model)
        limit, found = output_tolerance(mod), output_error(own, outputs, LEAST_SCALE)
        if found <= limit:
            return Original(Agreement(by, found), truth, model)
        exact = exact_outputs(mod, inputs, how.limit) if found <= ROUNDING else None
        if exact is not None:
            apart = output_error(outputs, exact, LEAST_SCALE)
            if apart <= limit:
                why = f"64 bits agree with it to {apart:.0e}"
                return Original(Agreement(by, found, why), truth, model)
        where = _where(file, inputs, folder, limit=limit, seconds=_seconds(how.limit))
        if not where:
            why = "each node agrees, and the model makes much of their rounding"
            _logger.warning("outputs differ from %s's by %.1e: %s", by, found, why)
            is_known = found <= MOST_ROUNDING and found <= _APART * min(_errors(own, outputs))
            widened = truth._replace(tolerance=_OTHER_ROUNDING * found) if is_known else None
            return Original(Agreement(by, found, why), widened, model)
        raise OriginalError(
            f"{_name_of(model)}{_worst(own, outputs, names)} off from {by} by {found:.2g} of the "
            f"largest value (limit {limit:g}): {where}; "
            + option("original", f"option relay.collage.original='{NONE}'", NONE)
            + " compiles it as it is"
        )


def _run_file(
    file: str, inputs: Inputs, folder: str, seconds: float
) -> tuple[str, list[str], list[np.ndarray]]:
    """Run a model's file in a process of its own; return the runtime, the outputs' names where
    these are known, and the outputs. Unsupported says why there are none."""
    given, outputs = (os.path.join(folder, f"{name}.npz") for name in ("inputs", "outputs"))
    save_arrays(given, inputs.arrays)
    arguments = {"model": file, "inputs": given, "outputs": outputs, "sets": inputs.sets}
    call = call_of(run_original, **arguments)
    told = ask_own("its runtime cannot run it", seconds, {"call": call})
    return told["by"], told["names"], list(load_arrays(outputs).values())


def _file_of(model: Any, folder: str) -> str:
    if isinstance(model, (str, os.PathLike)):
        return os.path.abspath(model)
    import onnx

    if not isinstance(model, onnx.ModelProto):
        kind = type(model).__name__
        raise TypeError(f"original takes a model's file or an ONNX ModelProto, got {kind}")
    file = os.path.join(folder, "model.onnx")
    onnx.save(model, file)
    return file


def _name_of(model: Any) -> str:
    return f"{os.fspath(model)}: " if isinstance(model, (str, os.PathLike)) else ""


def outputs_of(mod: tvm.IRModule, inputs: Inputs, how: EndToEnd, folder: str) -> list[np.ndarray]:
    """Compute the module's outputs without any external code. Unsupported where TVM cannot build or
    run it."""
    seconds = _seconds(how.limit)
    try:
        return _evaluated(mod, inputs, folder, seconds=seconds)
    except Unsupported as error:
        _logger.info("TVM builds what is compared with the original: %s", error)
    if how.limit.is_set:  # of which others want their share
        how = dataclasses.replace(how, limit=TimeLimit(_seconds(how.limit, KERNELS)))
    files, failures, _ = how.make_files({_TVM: mod}, folder)
    if failures:
        raise Unsupported(failures[0].Summary())
    file = os.path.join(folder, "inputs.npz")
    contestant = Contestant.of_library(
        _TVM, files[_TVM].library, file, mod_name=how.mod_name, sets=inputs.sets
    )
    outputs = os.path.join(folder, "own.npz")
    commands: dict[str, dict[str, Any]] = {
        "open": {"factory": contestant.factory, "arguments": dict(contestant.arguments)},
        "outputs": {"file": outputs},
    }
    ask_own("TVM's library does not run", seconds, commands)
    return list(load_arrays(outputs).values())


def _evaluated(
    mod: tvm.IRModule, inputs: Inputs, folder: str, seconds: float, exact: bool = False
) -> list[np.ndarray]:
    """Compute the outputs of a module, those of all sets one set after the other; see
    costs.reference. A fork computes them: an operator may read memory that is not its own.
    Unsupported where it cannot."""
    names = [param.name_hint for param in mod["main"].params]
    builder = MeasureOptions().builder
    file = os.path.join(folder, "evaluated.npz")

    def save() -> None:
        found = [
            array
            for row in inputs.rows()
            for array in evaluate(mod, [row[name] for name in names], builder, exact=exact)
        ]
        save_arrays(file, {f"output_{i}": array for i, array in enumerate(found)})

    _in_fork(save, seconds)
    return list(load_arrays(file).values())


def exact_outputs(
    mod: tvm.IRModule, inputs: Inputs, limit: TimeLimit = NO_LIMIT
) -> list[np.ndarray] | None:
    """Compute the outputs of a module with 64 bits; None where that cannot be."""
    with make_scratch() as folder:
        try:
            seconds = min(_SECONDS, limit.left())
            return _evaluated(mod, inputs, folder, seconds=seconds, exact=True)
        except Unsupported as error:
            _logger.info("no outputs of 64 bits: %s", error)
            return None


def _where(file: str, inputs: Inputs, folder: str, limit: float, seconds: float) -> str:
    """Return what of an ONNX file differs first, or why that is not known; "" where nothing
    does."""
    row = inputs.rows()[0]
    one_set, builder = Inputs(row, 0, inputs.has_made_up), MeasureOptions().builder

    def run(model: str) -> list[np.ndarray]:
        return _run_file(model, one_set, folder, seconds=seconds)[2]

    def look() -> str:
        return first_difference(file, row, run, folder=folder, builder=builder, limit=limit)

    try:
        found: str = _in_fork(look, seconds)
        return found
    except Unsupported as error:
        return f"which node is wrong could not be found ({error})"


def _in_fork(task: Callable[[], Any], seconds: float) -> Any:
    """Return what a task answers that a fork does. Unsupported where it fails, dies or takes
    longer."""
    reply = run_in_forks({"task": task}, lambda _: seconds)["task"]
    return value_of(reply, "it cannot be computed operator by operator")


def _seconds(limit: TimeLimit, share: float = SEARCHED) -> float:
    """Return how long one thing may take: a comparison may use the search's time, and a little more
    where that is over, since what was not compared may be wrong."""
    return min(_SECONDS, max(_LEAST_SECONDS, limit.left(share)))


def _errors(own: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> list[float]:
    """Return the error of each output."""
    return [output_error([a], [b], LEAST_SCALE) for a, b in zip(own, outputs, strict=True)]


def _worst(own: Sequence[np.ndarray], outputs: Sequence[np.ndarray], names: Sequence[str]) -> str:
    """Say which output is furthest off, as the subject of a sentence."""
    if len(own) != len(outputs):
        return f"there are {len(own)} outputs, not {len(outputs)}, which is"
    worst = int(np.argmax(_errors(own, outputs)))
    return f"output {names[worst % len(names)] if names else worst} is"
