# SPDX-License-Identifier: Apache-2.0
"""The seconds that each operator of a model takes in a plan, from profiled runs of its library.

Each step of the graph executor is timed where it stands in the run, on what the steps before it
have left in the caches; what a step takes that runs nothing is taken off. A part whose module has a
function `profile` says how its time divides into that of its kernels, and `share_out` how theirs
divides into that of operators; one that is all of the plan runs for that alone. In any other part,
and in TVM's kernels, operators share the time by their work.

Precondition: nothing else that needs the cores runs; the driver sees to that.
Test: measure/profiler/test_operator_times.py.
"""

from __future__ import annotations

import dataclasses
import json
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import tvm

from ...backends.registry import get_backend
from ...candidate.inputs import random_inputs
from ...costs.shares import KernelTime, share_out
from ...exec.arrays import set_inputs
from ...files.records import read
from ...messages.foreign import describe
from ...relay_util.external import TVM_BACKEND
from ..weights_apart import WeightsApart
from .plan_kernels import PlanCalls, PlanKernel

# Of the executor's runs, the first of which are not kept; a part's own profile has as many. Of a
# plan that takes long they are fewer, as many as fit the budget or the least.
_WARM_UPS, _LEAST_WARM_UPS = 2, 1
_USUAL_RUNS, _LEAST_RUNS, _MOST_RUNS = 5, 2, 50
# As the runtime modules of parts name calls (partition/step_times.h).
_CALL = re.compile(r"(?<![A-Za-z0-9])call_(\d+)(?![0-9])")


@dataclasses.dataclass(frozen=True)
class OperatorTimes:
    """Seconds of operators in a plan. A profile that failed has none."""

    seconds: dict[int, float]  # of each call that a kernel computes, by its node
    whole: float  # of one run of the plan
    reason: str = ""  # why there are no seconds
    on_one_thread: float | None = None  # of a run there; of a small plan of TVM's alone
    # By symbol of a part whose operators share its time by their work alone: why.
    closed: dict[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_reply(cls, reply: Mapping[str, Any]) -> OperatorTimes:
        """Read what a worker's profile_operators returned: JSON has texts for keys."""
        seconds = {int(node): float(value) for node, value in reply["seconds"].items()}
        return cls(
            seconds,
            reply["whole"],
            reply["reason"],
            reply["on_one_thread"],
            dict(reply["closed"]),
        )


def profile_operators(
    library: str,
    build: Mapping[str, Any],
    plan: Mapping[str, Any],
    *,
    weights: str = "",
    seed: int,
    budget_seconds: float,
    is_small: bool = False,
) -> dict[str, Any]:
    """Time the operators of a plan's library on random inputs, in a worker.

    `build` has its "inputs", as describe_inputs tells them, its "device" and, where it is not
    "default", the "mod_name" that it was built under; `plan` is a PlanCalls
    as JSON; `weights` is the file of those that the library lacks. One that `is_small` runs
    on one thread as well. Returns the fields of OperatorTimes: what fails is a reason, and no
    error.
    """
    try:
        known = read(PlanCalls, plan)
        apart = WeightsApart(weights)
        run = _ProfiledRun(library, apart, build, known, seed=seed, budget_seconds=budget_seconds)
        seconds = run.seconds_by_node()
        alone = run.on_one_thread() if is_small else None
        times = OperatorTimes(seconds, run.whole, on_one_thread=alone, closed=run.closed)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - libraries' own code; the plan has no profile then
        times = OperatorTimes({}, 0.0, describe(error))
    return dataclasses.asdict(times)


def kernel_times(
    steps: Sequence[tuple[str, float]], nodes: Sequence[int | None]
) -> list[KernelTime]:
    """Return the times of a part's kernels, of what its library tells of its steps.

    `nodes` are those of the part's operator calls, whose places the steps' names have. The time of
    a step that names none, as a change of layout, belongs to the next one that does; what comes
    behind the last one is nobody's.
    """
    times: list[KernelTime] = []
    waiting = 0.0
    for name, seconds in steps:
        waiting += seconds
        places = sorted({int(place) for place in _CALL.findall(name)})
        named = [nodes[place] for place in places if place < len(nodes)]
        known = tuple(node for node in named if node is not None)
        if known:
            times.append(KernelTime(known, waiting))
            waiting = 0.0
    return times


class _ProfiledRun:
    """A library, opened to be run step by step."""

    def __init__(
        self,
        library: str,
        weights: WeightsApart,
        build: Mapping[str, Any],
        plan: PlanCalls,
        *,
        seed: int,
        budget_seconds: float,
    ) -> None:
        self._calls = {call.node: call for call in plan.calls}
        self.closed: dict[str, str] = {}
        factory = tvm.runtime.load_module(library)
        weights.give_to_parts(factory)
        self._parts = dict(_parts_of(factory))
        for part in self._parts.values():
            if part.implements_function("keep_model"):  # else it has none once it has run
                part["keep_model"]()
        self._all = json.loads(factory["get_graph_json"]())
        self._graph = self._all["nodes"]
        self._kernels = _by_step(self._graph, plan.kernels, self._parts)
        name, device = build.get("mod_name", "default"), tvm.device(build["device"], 0)
        self._executor = factory["debug_create"](name, device)
        weights.give_to_executor(self._executor)
        set_inputs(self._executor, random_inputs(build["inputs"], seed))
        self.whole, self._runs, self._budget_seconds = 0.0, _USUAL_RUNS, budget_seconds / 2
        self._seconds: list[float] = []  # of each step; of none where one part is all of the plan
        if len(self._kernels) > 1:
            self._time_runs()

    def seconds_by_node(self) -> dict[int, float]:
        """Return the seconds of each call in a kernel. ValueError where none is known."""
        found: defaultdict[int, float] = defaultdict(float)
        waiting = 0.0  # of kernels in which no pass has left a call that is known
        for step, kernel in self._kernels.items():
            waiting += self._seconds[step] if self._seconds else 0.0
            if any(node in self._calls for node in kernel.nodes):
                for node, seconds in self._shares(step, kernel, waiting).items():
                    found[node] += seconds
                waiting = 0.0
        if not found:
            raise ValueError("no operator of the model is known in the plan's kernels")
        # What runs behind the last known operator, as a change of layout, is nobody's.
        return dict(found)

    def on_one_thread(self) -> float | None:
        """Return the seconds of a run on the calling thread alone; None where that is another
        library's to say."""
        if not self._seconds or any(each.backend != TVM_BACKEND for each in self._kernels.values()):
            return None
        threads = tvm.get_global_func("runtime.config_threadpool")
        threads(1, 1)
        try:
            samples = self._samples()
        finally:
            threads(1, 0)
        return self._whole(samples, self._overhead(samples))

    def _shares(self, step: int, kernel: PlanKernel, seconds: float) -> dict[int, float]:
        """Return what a step's operators take of its seconds."""
        nodes = sorted({node for node in kernel.nodes if node in self._calls})
        times = self._inside(step, kernel) if len(nodes) > 1 or not self._seconds else []
        total = sum(each.seconds for each in times)
        # To run all of a plan that tells of itself would have its library read the model twice.
        if not self._seconds and total > 0:
            self.whole = seconds = total
        elif not self._seconds:
            self._time_runs()
            seconds = self._seconds[step]
        if total <= 0:
            times, total = [KernelTime((nodes[-1],), 1.0)], 1.0
        scaled = [KernelTime(each.nodes, each.seconds * seconds / total) for each in times]
        return share_out([self._calls[node] for node in nodes], scaled)

    def _inside(self, step: int, kernel: PlanKernel) -> list[KernelTime]:
        """Return what a part tells of its kernels; nothing of TVM's kernels, and of a part that
        does not tell."""
        if kernel.backend == TVM_BACKEND:
            return []
        part = self._parts.get(self._graph[step]["attrs"]["func_name"])
        if part is None or not part.implements_function("profile"):
            self.closed[kernel.symbol] = "its module has no function `profile`"
            return []
        try:
            text = str(part["profile"](self._runs, *self._tensors(step)))
            times = kernel_times(get_backend(kernel.backend).profiled_steps(text), kernel.nodes)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a library's own code; the part stays closed
            self.closed[kernel.symbol] = describe(error)
            return []
        if not times:
            self.closed[kernel.symbol] = "its profile names no operator"
        return times

    def _tensors(self, step: int) -> list[Any]:
        """Return copies of what a step reads, as the steps before it compute that, and tensors of
        what it writes."""
        node = self._graph[step]
        read = [(source, place) for source, place, _ in node["inputs"]]
        copies = {}
        # In their order, as the executor gives what the last step that ran has written.
        for maker, place in sorted(set(read)):
            self._executor["execute_node"](maker)
            array = self._executor["get_node_output"](maker, place)
            copies[maker, place] = array.copyto(array.device)
        first, known = self._all["node_row_ptr"][step], self._all["attrs"]
        places = range(first, first + int(node["attrs"]["num_outputs"]))
        written = [tvm.nd.empty(known["shape"][1][k], known["dltype"][1][k]) for k in places]
        return [*(copies[each] for each in read), *written]

    def _time_runs(self) -> None:
        """Note the median seconds of a run and of each step, and of how many runs."""
        kept = self._samples()
        overhead = self._overhead(kept)
        self._seconds = [max(each - overhead, 0.0) for each in _medians(kept)]
        self.whole, self._runs = self._whole(kept, overhead), len(kept)

    def _samples(self) -> list[list[float]]:
        """Return the seconds of each step by run, after the first runs."""
        execute, clock = self._executor["execute_node"], time.perf_counter
        samples: list[list[float]] = []
        began = clock()
        warm_ups, least = _WARM_UPS, _USUAL_RUNS
        while len(samples) < warm_ups + least or (
            clock() < began + self._budget_seconds and len(samples) < warm_ups + _MOST_RUNS
        ):
            if len(samples) == _LEAST_WARM_UPS and clock() > began + self._budget_seconds:
                warm_ups, least = _LEAST_WARM_UPS, _LEAST_RUNS
            marks = [clock()]
            for step in range(len(self._graph)):
                execute(step)
                marks.append(clock())
            samples.append([after - before for before, after in zip(marks, marks[1:])])
        return samples[warm_ups:]

    def _overhead(self, samples: Sequence[Sequence[float]]) -> float:
        """Return what a step takes that runs nothing."""
        medians = _medians(samples)
        idle = [medians[step] for step in range(len(medians)) if step not in self._kernels]
        return statistics.median(idle) if idle else 0.0

    def _whole(self, samples: Sequence[Sequence[float]], overhead: float) -> float:
        runs = [sum(sample) - overhead * len(sample) for sample in samples]
        return max(statistics.median(runs), 0.0)


def _medians(samples: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.median(each) for each in zip(*samples, strict=True)]


def _by_step(
    graph: Sequence[Mapping[str, Any]],
    kernels: Sequence[PlanKernel],
    parts: Collection[str],
) -> dict[int, PlanKernel]:
    """Return the plan's kernels by the executor's step. ValueError where these are others.

    A part's symbol may be another one here, if its library is one of CompiledParts.
    """
    steps = [step for step, node in enumerate(graph) if node["op"] == "tvm_op"]
    if len(steps) != len(kernels):
        raise ValueError(f"the library has {len(steps)} steps, and its plan {len(kernels)} kernels")
    names: dict[str, str] = {}
    for step, kernel in zip(steps, kernels, strict=True):
        name = graph[step]["attrs"]["func_name"]
        is_other = kernel.backend == TVM_BACKEND and name in parts
        if is_other or kernel.symbol and names.setdefault(kernel.symbol, name) != name:
            raise ValueError(f"the library has {name} where its plan has {kernel}")
    return dict(zip(steps, kernels, strict=True))


def _parts_of(module: tvm.runtime.Module) -> Iterator[tuple[str, tvm.runtime.Module]]:
    """Yield the runtime modules of backends below a library's module, by their symbols."""
    for other in module.imported_modules:
        if other.implements_function("get_symbol") and other.type_key != "llvm":
            yield str(other["get_symbol"]()), other
        yield from _parts_of(other)
