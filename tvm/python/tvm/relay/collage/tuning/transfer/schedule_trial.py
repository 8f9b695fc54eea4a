# SPDX-License-Identifier: Apache-2.0
"""The work of a worker that transfers schedules to one kernel: adapt, build, check and time each.

The worker is expendable: a schedule that crashes or hangs costs its trial, the log keeps those
before. Test: tuning/transfer/test_schedule_trial.py.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm.auto_scheduler import ComputeDAG, LayoutRewriteOption, SearchTask
from tvm.auto_scheduler.loop_state import StateObject
from tvm.auto_scheduler.measure_record import load_record_from_string

from ...compile import fast_passes
from ...compile.layout import transform_loops
from ...costs.rounding import RELATIVE, Tolerance, mismatch
from ...exec.machine_fault import fault_of, kills_for_memory
from ...files.text import append_line
from ...messages.foreign import last_line
from ..ansor import HARDWARE, NAME, NEVER, TRANSFERRED_VERSION, VERSION
from ..ansor_kernel import AnsorKernel
from ..log import note_kernel
from ..trial import (
    Argument,
    build_kernel,
    random_arrays,
    run_kernels,
    seconds_of_kernel,
    tensor_arguments,
)
from ..worker import tasks_of, text_of
from .adapt import Misfit, Step, adapt
from .log import Source, read_ansor, steps_of

# What a trial came to: timed, of the very kernel or of another one; without meaning here, with
# another result, or not run to its end.
EXACT, ADAPTED, INVALID, WRONG, FAILED = OUTCOMES = (
    "exact",
    "adapted",
    "invalid",
    "wrong",
    "failed",
)
# How a failed trial stands in Ansor's logs: the number of its kind of error.
_ERRORS = {INVALID: 2, FAILED: 4, WRONG: 5}  # of TVM's MeasureErrorNO
# Kinds and annotations of TVM's iterators: loops that sum may not run at once.
_SPATIAL, _SPECIAL, _AT_ONCE = 0, 3, (2, 3)
# What a computation says of inputs whose layout is Ansor's to choose, and what that was and is.
_WEIGHTS = "layout_free_placeholders"
_OLD_LAYOUT, _NEW_LAYOUT = "ori_placeholder_layout", "new_placeholder_layout"

# What the reference may take on a device, once a kernel: a schedule that is slow beside others.
REFERENCE_SECONDS = 60.0


def transfer(
    candidate: dict[str, Any], workload: str, source: dict[str, Any], log: str
) -> dict[str, Any]:
    """Try a source's schedule on the kernel of this workload in a candidate (its JSON form), unless
    the log has that trial; a new one is appended to the log.

    Returns `outcome`, of OUTCOMES, `seconds` (None unless it was timed) and `reason`. LookupError
    when the candidate has no such kernel.
    """
    with fast_passes():
        return trials_on(text_of(candidate), workload, log).of(Source.from_json(source))


# A worker gets one kernel's trials after the other: what they share is kept for the next.
@functools.lru_cache(maxsize=1)
def trials_on(candidate: str, workload: str, log: str) -> KernelTrials:
    """Return the trials on a kernel of a candidate (JSON text). LookupError where it has none."""
    for task in tasks_of(candidate, NAME)[1]:
        if task.kernel and task.workload == workload:
            return KernelTrials(task.kernel, task.work, log)
    raise LookupError(f"the candidate has no kernel {workload:.80}")


class KernelTrials:
    """The trials of one kernel. The reference is Ansor's own first state, each stage by itself."""

    def __init__(self, kernel: AnsorKernel, task: SearchTask, log: str) -> None:
        note_kernel(log, kernel)
        self._kernel, self._task, self._log = kernel, task, log
        self._dag = task.compute_dag
        has_weights = any(_WEIGHTS in (operation.attrs or {}) for operation in self._dag.ops)
        # How a trial has the weights, as Ansor's logs say it.
        self._layout = (
            LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
            if has_weights
            else LayoutRewriteOption.NO_REWRITE
        )
        # By steps. What other logs' tools measured is not measured again either.
        self._known: dict[str, tuple[str, list[float] | None, str]] = {}
        self._reference: tvm.runtime.Module | None = None
        self._arguments: list[Argument] = []
        self._digest = ""  # of these two
        for line in read_ansor(log):
            # One that was measured with its weights as they were tells nothing of a build.
            is_as_built = not has_weights or _layout_of(line.text) != LayoutRewriteOption.NO_REWRITE
            is_of_kernel = (line.workload, line.target) == (kernel.workload, str(task.target))
            if is_of_kernel and is_as_built:
                costs = None if line.seconds is None else [line.seconds]
                known = (ADAPTED if costs else FAILED, costs, "in the log already")
                self._known[json.dumps(steps_of(line.text))] = known

    def of(self, source: Source) -> dict[str, Any]:
        """Try a source's schedule, unless that is known."""
        try:
            steps = adapt(steps_of(source.line), source.kernel, self._kernel, extent=self._extent)
        except (Misfit, tvm.TVMError) as error:
            return _row(INVALID, None, last_line(error))
        text = json.dumps(steps)
        is_own = source.kernel.workload == self._kernel.workload
        if text not in self._known:
            began = time.time()
            self._known[text] = self._measured(steps)
            outcome, costs, _ = self._known[text]
            result = [costs or [NEVER], 0 if costs else _ERRORS[outcome], time.time() - began]
            version = VERSION if is_own else TRANSFERRED_VERSION
            append_line(self._log, self._line(steps, [*result, int(began)], version))
        outcome, costs, reason = self._known[text]
        if costs is None:
            return _row(outcome, None, reason)
        return _row(EXACT if is_own else ADAPTED, sum(costs) / len(costs), reason)

    def _measured(self, steps: Sequence[Step]) -> tuple[str, list[float] | None, str]:
        """Try a schedule; return an outcome, seconds where it was timed, and why not.

        What TVM raises is the schedule's doing, on a device what run_kernels raises; all else is
        the machine's or ours.
        """
        kills_before, failed = kills_for_memory(), INVALID
        try:
            state = self._state(steps)
            if racing := self._racing(state):
                return INVALID, None, racing
            laid_out = self._laid_out(state)
            schedule, tensors = laid_out.apply_steps_from_state(state)
            function = build_kernel(self._task.target, schedule, tensors)
            failed = FAILED
            costs = seconds_of_kernel(function, tensor_arguments(tensors))
            outcome, reason = self._check(function, laid_out)
        except RuntimeError as error:  # TVMError is one: one bad schedule among many, so data
            if fault_of(error, kills_before):
                raise
            return failed, None, last_line(error)
        return (outcome, None, reason) if outcome else (ADAPTED, costs, "")

    def _racing(self, state: StateObject) -> str:
        """Return which loop of a state sums into one number by several threads or lanes; "" for
        none.

        A comparison of outputs may miss it: who wins the race is chance.
        """
        for stage in self._dag.infer_bound_from_state(state).stages:
            for loop in stage.iters:
                if loop.iter_kind not in (_SPATIAL, _SPECIAL) and loop.annotation in _AT_ONCE:
                    return f"the sum over {loop.name} of {stage.op.name} runs at once"
        return ""

    def _extent(self, steps: Sequence[Step], stage: int, loop: int) -> int | None:
        state = self._dag.infer_bound_from_state(self._state(steps))
        found = dict(enumerate(state.stages[stage].iters)).get(loop)
        return int(found.range.extent) if found and found.range else None

    def _state(self, steps: Sequence[Step]) -> StateObject:
        if not steps:
            return self._dag.get_init_state().state_object
        return load_record_from_string(self._line(steps, [[0.0], 0, 0.0, 0]))[0].state

    def _line(self, steps: Sequence[Step], result: list[Any], version: str = VERSION) -> str:
        """Return a line of Ansor's log."""
        task = [self._task.workload_key, str(self._task.target), HARDWARE]
        row = {
            "i": [[*task, "", self._layout, []], [[], list(steps)]],
            "r": result,
            "v": version,
        }
        return json.dumps(row)

    def _laid_out(self, state: StateObject) -> ComputeDAG:
        """Return the computation of a build with a state's record: weights as it reads them."""
        is_same = self._layout == LayoutRewriteOption.NO_REWRITE
        return self._dag if is_same else self._dag.rewrite_layout_from_state(state)

    def _check(self, function: tvm.runtime.Module, laid_out: ComputeDAG) -> Sequence[str]:
        """Do what compare() says; what it compares with is computed where it is not known yet."""
        if self._reference is None:
            schedule, tensors = self._dag.apply_steps_from_state(self._dag.get_init_state())
            self._reference = build_kernel(self._task.target, schedule, tensors)
            self._arguments = tensor_arguments(tensors)
            text = json.dumps([self._reference.get_source(), self._arguments])
            self._digest = hashlib.sha256(text.encode()).hexdigest()
        ask = functools.partial(
            run_kernels,
            compare,
            [function],
            digest=self._digest,
            arguments=self._arguments,
            layouts=self._layouts(laid_out),
        )
        found = ask()
        if found is None:
            run_kernels(
                find_truth,
                [self._reference],
                seconds=REFERENCE_SECONDS,
                digest=self._digest,
                arguments=self._arguments,
            )
            found = ask() or (FAILED, "what it is compared with was lost")
        return found

    def _layouts(self, laid_out: ComputeDAG) -> list[tuple[int, str, str]]:
        """Return place, old and new layout of each argument that _laid_out's result has anew."""
        found = []
        for operation in laid_out.ops:
            attrs = operation.attrs or {}
            if _NEW_LAYOUT in attrs:
                [weight] = attrs[_WEIGHTS]
                place = [tensor.op for tensor in self._dag.tensors].index(weight.op)
                found.append((place, str(attrs[_OLD_LAYOUT]), str(attrs[_NEW_LAYOUT])))
        return found


# By the digest of a reference and its arguments, whose values are before and after it has run: of
# one kernel, as schedules of one are tried one after the other.
TRUTHS: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {}


def find_truth(
    kernels: Sequence[tvm.runtime.Module], digest: str, arguments: Sequence[Argument]
) -> None:
    """Run the reference, for compare()."""
    [reference] = kernels
    TRUTHS.clear()
    arrays = random_arrays(arguments)
    TRUTHS[digest] = arrays, _outputs(reference, arrays)


def compare(
    kernels: Sequence[tvm.runtime.Module],
    digest: str,
    arguments: Sequence[Argument],
    layouts: Sequence[tuple[int, str, str]],
) -> tuple[str, str] | None:
    """Return INVALID or WRONG with the reason if the kernel, some arguments of which are in other
    layouts, does not give what the reference gives; "" twice if it does. None where find_truth() is
    to come first."""
    if digest not in TRUTHS:
        return None
    [function] = kernels
    given, expected = map(list, TRUTHS[digest])
    for place, *pair in layouts:
        for values in (given, expected):
            changed = transform_loops(values[place], *pair)
            if changed is None:
                return INVALID, "a weight cannot be laid out from {} to {}".format(*pair)
            values[place] = np.ascontiguousarray(changed)
    wrong = mismatch(_outputs(function, given), expected, _tolerance(arguments))
    return (WRONG, wrong) if wrong else ("", "")


def _layout_of(text: str) -> int:
    """Return how the trial of a log's line had the weights."""
    return json.loads(text)["i"][0][4]


def _outputs(function: tvm.runtime.Module, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    values = [tvm.nd.array(array, tvm.cpu()) for array in arrays]
    function(*values)
    # What it reads is among them, and the same both times unless it was written to.
    return [value.numpy() for value in values]


def _tolerance(arguments: Sequence[Argument]) -> Tolerance:
    """Return the tolerance for sums of any length, of the coarsest type."""
    types = {dtype for _, dtype in arguments}
    coarsest = [rows[-1] for name, rows in RELATIVE.items() if name in types]
    return Tolerance(max(coarsest, default=0.0), 1)


def _row(outcome: str, seconds: float | None, reason: str) -> dict[str, Any]:
    return {"outcome": outcome, "seconds": seconds, "reason": reason}
