# SPDX-License-Identifier: Apache-2.0
"""Which kernels of a library are slow: time of each by oneDNN's own log and TVM's debug executor,
beside what the machine's peak and memory would allow. Test: bench/test_zoo.py.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import child
from tvm.relay.collage.estimators.work import Machine, Work

_MARK = "zoo "
# A kernel is listed when it takes so many times what the machine allows and this share of a run.
FAR = 10.0
_SHARE = 0.02
# So much a call takes whatever it computes.
_CALL_SECONDS = 5e-6
_LISTED = 8
_RUNS = 7
_REFERENCE = re.compile(r"\bref\b")
# What makes a backend's library tell of its kernels. (OpenVINO's oneDNN fails under this variable.)
LOGS = {"dnnl": {"ONEDNN_VERBOSE": "1"}}
_SPATIAL = re.compile(r"([a-z]+)(\d+)")


@dataclasses.dataclass
class Kernel:
    """Calls that are alike: where they run, what they are, how many; microseconds of all, and of
    the roofline for them (0 where it is not known); the dearest call's shapes."""

    where: str
    name: str
    count: int = 0
    microseconds: float = 0.0
    least: float = 0.0
    shapes: str = ""
    dearest: float = 0.0

    def add(self, microseconds: float, least: float, shapes: str) -> None:
        self.count += 1
        self.microseconds += microseconds
        self.least += least
        if microseconds > self.dearest:
            self.dearest, self.shapes = microseconds, shapes

    @property
    def is_reference(self) -> bool:
        return self.where == "onednn" and bool(_REFERENCE.search(self.name.rpartition(" by ")[2]))

    def to_json(self, total: float) -> dict[str, Any]:
        """Its share of a run of `total` microseconds, and how far off the roofline it is."""
        return {
            "where": self.where,
            "kernel": self.name,
            "count": self.count,
            "ms": round(self.microseconds / 1e3, 4),
            "share": round(self.microseconds / total, 3) if total else 0.0,
            "off": round(self.microseconds / self.least, 1) if self.least else None,
            "shapes": self.shapes[:160],
            "is_reference": self.is_reference,
        }


def probe_machine() -> Machine:
    """By products of matrices and copies that no cache holds: the quickest of many, each short
    enough to fit between what else the machine does."""
    a = np.random.default_rng(0).standard_normal((384, 384), "float32")
    source = np.zeros(1 << 22, "float32")
    target = np.ones_like(source)
    product = min(_seconds(lambda: a @ a) for _ in range(100))
    copy = min(_seconds(lambda: np.copyto(target, source)) for _ in range(40))
    return Machine(2 * 384**3 / product / 1e9, 2 * source.nbytes / copy / 1e9, _CALL_SECONDS)


def _least(machine: Machine, operations: float, moved: float) -> float:
    """The least microseconds that a kernel takes that computes and moves so much."""
    return 1e6 * machine.seconds(Work(1, operations, moved))


def _seconds(call: Any) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def slow_kernels(
    backend: str, library: str, inputs: str, machine: Machine, timeout: float
) -> list[dict[str, Any]]:
    """Reference kernels and those far off the roofline, the dearest first; RuntimeError where the
    library of that backend does not run."""
    return judge(watched(library, inputs, timeout, LOGS.get(backend, {})), machine)


def watched(library: str, inputs: str, timeout: float, environment: dict[str, str]) -> list[str]:
    """What watch() writes in a process of its own; RuntimeError where the library does not run."""
    log = Path(library).with_suffix(".log")
    given = {"library": library, "inputs": inputs}
    settings = {"limit": timeout, "environment": environment, "log": log}
    ended = child.run(f"{__name__}:watch", given, **settings)
    if ended.failure:
        raise RuntimeError(f"looking at its kernels: {ended.failure}")
    return log.read_text(errors="replace").splitlines()


@dataclasses.dataclass(frozen=True)
class Log:
    """The quickest of each call of a run, of oneDNN as onednn_call has it, of TVM with name,
    microseconds and shapes; and the microseconds of the quickest run."""

    onednn: list[tuple[str, str, float, tuple[float, float]]]
    tvm: list[tuple[str, float, str]]
    microseconds: float


def read_log(lines: Iterable[str]) -> Log:
    """What the process wrote."""
    runs: list[list[tuple[str, str, float, tuple[float, float]]]] = []
    is_run, microseconds, tvm = False, 0.0, []
    for line in lines:
        if line.startswith(_MARK):
            message = json.loads(line.removeprefix(_MARK))
            is_run = message["run"]
            microseconds = message.get("microseconds", microseconds)
            tvm += message.get("tvm", [])
            if is_run:
                runs.append([])
        elif is_run and line.startswith("onednn_verbose,exec"):
            runs[-1].append(onednn_call(line))
    # The same calls in each run: the quickest of each is that of a machine with nothing else to do.
    onednn = [min(calls, key=lambda call: call[2]) for calls in zip(*runs)]
    return Log(onednn, [(name, time, shapes) for name, time, shapes in tvm], microseconds)


def judge(lines: Iterable[str], machine: Machine) -> list[dict[str, Any]]:
    """What the process wrote, as slow_kernels answers it."""
    found: dict[tuple[str, str], Kernel] = {}
    log = read_log(lines)
    for name, microseconds, shapes in log.tvm:
        kernel = found.setdefault(("tvm", name), Kernel("tvm", name))
        kernel.add(microseconds, _least_of_tvm(name, shapes, machine), shapes)
    for name, problem, microseconds, work in log.onednn:
        kernel = found.setdefault(("onednn", name), Kernel("onednn", name))
        kernel.add(microseconds, _least(machine, *work), problem)
    total = log.microseconds
    if log.onednn:
        # Without a share that is the machine's and not a kernel's.
        total = sum(kernel.microseconds for kernel in found.values())
    return [kernel.to_json(total) for kernel in _listed(found.values(), total)]


def _listed(kernels: Iterable[Kernel], total: float) -> Iterator[Kernel]:
    def is_slow(kernel: Kernel) -> bool:
        if kernel.microseconds < _SHARE * total:
            return False
        is_far = kernel.least and kernel.microseconds > FAR * kernel.least
        # What TVM computes has no roofline here: it is listed where it is much of a run.
        is_much = kernel.where == "tvm" and not kernel.least and kernel.microseconds > 0.1 * total
        return bool(kernel.is_reference or is_far or is_much)

    ranked = sorted(filter(is_slow, kernels), key=lambda kernel: -kernel.microseconds)
    yield from ranked[:_LISTED]


def onednn_call(line: str) -> tuple[str, str, float, tuple[float, float]]:
    """A line of oneDNN's log as primitive and implementation, problem, microseconds, and what is
    computed and moved."""
    fields = line.split(",")
    kind, implementation = fields[3], fields[4]
    algorithm = fields[8].strip().removeprefix("alg:").split(" ")[0]
    problem, milliseconds = fields[-2], float(fields[-1])
    name = f"{kind} {algorithm}".strip() + f" by {implementation}"
    return name, problem, 1e3 * milliseconds, _work(kind, problem)


def _work(kind: str, problem: str) -> tuple[float, float]:
    """Operations and bytes of a problem as oneDNN writes it, in float32."""
    if re.match(r"(g\d+)?mb\d", problem):
        sizes = defaultdict(lambda: 1, ((k, int(v)) for k, v in _SPATIAL.findall(problem)))
        images, inputs = sizes["mb"], sizes["ic"]
        outputs = sizes.get("oc", inputs)
        read, written, window = (
            math.prod(sizes[f"{side}{axis}"] for axis in "dhw") for side in "iok"
        )
        moved = images * (inputs * read + outputs * written)
        if kind == "inner_product":
            weights = inputs * read * outputs
            return 2.0 * images * weights, 4.0 * (images * (inputs * read + outputs) + weights)
        if kind not in ("convolution", "deconvolution"):
            return 0.0, 4.0 * moved
        weights = inputs * outputs * window // sizes["g"]
        places = read if kind == "deconvolution" else written
        return 2.0 * images * weights * places, 4.0 * (moved + weights)
    shapes = [[int(n) for n in text.split("x")] for text in re.findall(r"\d+(?:x\d+)*", problem)]
    elements = [math.prod(shape) for shape in shapes]
    if kind == "matmul":
        columns = shapes[1][-1]
        written = elements[0] // shapes[0][-1] * columns
        return 2.0 * elements[0] * columns, 4.0 * (elements[0] + elements[1] + written)
    return 0.0, 4.0 * (sum(elements) if len(elements) > 1 else 2 * sum(elements))


# What is in the names of TVM's kernels that compute much more than they move.
_COMPUTING = ("conv", "dense", "matmul", "pool", "winograd", "dnnl", "onednn")


def _least_of_tvm(name: str, shapes: str, machine: Machine) -> float:
    """0 for kernels whose operations the shapes do not tell."""
    if any(word in name for word in _COMPUTING):
        return 0.0
    sizes = [
        math.prod(int(n) for n in re.findall(r"\d+", dims))
        for dims in re.findall(r"\[([\d, ]*)\]", shapes)
    ]
    return _least(machine, 0.0, 4.0 * sum(sizes))


def _calls_of_tvm(report: Any) -> Iterator[tuple[str, float, str]]:
    """Name, microseconds and shapes of TVM's own kernels: parts of a backend have their own log."""
    for call in report.calls:
        name = str(call["Name"])
        if name.startswith("tvmgen_default_fused") or "_fused_" in name:
            short = re.sub(r"^tvmgen_default_fused_|_\d+$", "", name)
            microseconds = float(call["Duration (us)"].microseconds)
            yield short, microseconds, str(call["Argument Shapes"])


def watch(library: str, inputs: str) -> None:
    """Runs the library under its debug executor, then as it is; writes what judge() reads."""
    import tvm
    from tvm.relay.collage.exec.arrays import set_inputs

    factory = tvm.runtime.load_module(library)
    with np.load(inputs, allow_pickle=False) as values:
        arrays = {name: values[name] for name in values.files}
    debug, plain = factory["debug_create"]("default", tvm.cpu()), factory["default"](tvm.cpu())
    for executor in (debug, plain):
        set_inputs(executor, arrays)
        executor["run"]()
    reports = [list(_calls_of_tvm(debug["profile"]([]))) for _ in range(_RUNS)]
    quickest = [min(calls, key=lambda call: call[1]) for calls in zip(*reports)]
    seconds = min(_seconds(plain["run"]) for _ in range(_RUNS))
    for _ in range(_RUNS):
        _say({"run": True})
        plain["run"]()
    _say({"run": False, "microseconds": 1e6 * seconds, "tvm": quickest})


def _say(message: dict[str, Any]) -> None:
    print(_MARK + json.dumps(message), flush=True)
