# SPDX-License-Identifier: Apache-2.0
"""A whole search of a small net on a fake, deterministic device, for tests that kill it.

`python fault_search.py` is a server that has imported TVM once: for each line of JSON on stdin, the
arguments of search(), it forks a process that runs it, leads a session of its own and writes its
result to a file. The server answers with the process's id, and with its exit status when it ends.
Used through fault_runs.py.

The device's seconds are a function of the candidate's key; some candidates always fail. Its steps
write what they do, a line an event, to the FIFO that EVENTS names, and stop after each (SIGSTOP) if
PAUSE is set.
"""

import dataclasses
import gc
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
import types
from pathlib import Path

from measure_fakes import perform

EVENTS, FAULTS, PAUSE = (f"COLLAGE_TEST_{name}" for name in ("EVENTS", "FAULTS", "PAUSE"))

NET = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 8, 8, 8), float32], %w: Tensor[(8, 8, 3, 3), float32]) {
  %0 = nn.relu(nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]));
  %1 = nn.relu(nn.max_pool2d(%0, pool_size=[2, 2], strides=[2, 2]));
  %2 = nn.avg_pool2d(sigmoid(%0), pool_size=[2, 2], strides=[2, 2]);
  tanh(nn.global_avg_pool2d(exp(add(%1, %2))))
}"""
BACKENDS = ("fake_calls", "fake_pairs")
OPS = ("nn.conv2d", "nn.relu", "nn.max_pool2d", "sigmoid", "add", "tanh", "exp")


def event(kind, key):
    path = os.environ.get(EVENTS)
    if path:
        pipe = os.open(path, os.O_WRONLY)
        os.write(pipe, f"{kind} {key} {os.getpid()}\n".encode())  # in one piece: it is short
        os.close(pipe)
        if os.environ.get(PAUSE):
            os.kill(os.getpid(), signal.SIGSTOP)


def faults():
    return json.loads(os.environ.get(FAULTS, "{}"))


def at_fault(key, step):
    """What the fault of the step answers, None for candidates without one."""
    deed = faults().get(step)
    if deed is None or key.startswith(("tvm", "transition")):
        return None
    return perform(deed)


def build(candidate, library, **_):
    key = f"{candidate['backend']}:{candidate['hash']}"
    event("build", key)
    at_fault(key, "build")
    if candidate["label"] == "fake_calls(nn.conv2d)" and not faults():
        raise ValueError("the fake compiler knows no such kernel")
    Path(library).write_text(json.dumps({"key": key, "label": candidate["label"]}))
    return {}


def reference(candidate, file, **_):
    """None: the fake device computes no outputs that could be compared."""
    return {"tolerance": None}


def run(library, build, **_):
    candidate = json.loads(Path(library).read_text())
    key = candidate["key"]
    event("begin", key)
    samples = at_fault(key, "run")
    if samples is not None:
        return {"samples": samples}
    if candidate["label"] == "fake_calls(sigmoid)":
        os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(1e-3)
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
    # Pairs are always the cheapest, so that the plan is a mixed one.
    unit = 1e-8 if key.startswith(("fake_pairs", "transition")) else 1e-6
    event("end", key)
    return {"samples": [(100 + number % 900) * unit] * 9}


def register():
    """Backends for the net's ops: of calls, of pairs of them, and one that takes nothing."""
    from tvm.relay.collage.backends import Backend, register_backend
    from tvm.relay.dataflow_pattern import is_op, wildcard

    class Calls(Backend):
        name = "fake_calls"
        op_predicates = dict.fromkeys(OPS, lambda call: True)

        def version(self):
            return "1"

    class Pairs(Calls):
        name = "fake_pairs"
        op_predicates = {}

        def patterns(self):
            conv = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))
            sums = is_op("exp")(is_op("add")(wildcard(), wildcard()))
            return [("fake_pairs.conv", conv), ("fake_pairs.sum", sums)]

    class Nothing(Calls):
        name = "fake_nothing"
        op_predicates = {}

    for backend in (Calls, Pairs, Nothing):
        register_backend(backend())


def net():
    import numpy as np
    import tvm

    mod = tvm.relay.transform.InferType()(tvm.relay.fromtext(NET))
    return mod, {"w": tvm.nd.array(np.ones((8, 8, 3, 3), "float32"))}


def search(
    store,
    workers=2,
    forked=True,
    backends=BACKENDS,
    faults=None,
    collage_options=None,
    measure_step="fault_search:run",
    **changes,
):
    """The plan that is found, as JSON values.

    `faults`: {"build" or "run": what every candidate of the fake backends does there, one of
    measure_fakes.DEEDS}. `collage_options` go over the search's own. `changes` are MeasureOptions.
    """
    import tvm
    from tvm.relay.collage import CollageOptions, optimize
    from tvm.relay.collage.estimators import session
    from tvm.relay.collage.exec import clean_process, launch
    from tvm.relay.collage.machine import load

    launch.forks = FORKED if forked else clean_process.WorkerForks()
    usual = session.measure_options

    def options_on_the_device(options, *more):
        steps = {f"{name}_step": f"fault_search:{name}" for name in ("build", "reference")}
        steps["measure_step"] = measure_step
        return dataclasses.replace(usual(options, *more), batch=4, **steps, **changes)

    os.getloadavg = lambda: (0.0, 0.0, 0.0)  # whatever else the machine does
    load.read_usage = lambda workers: None
    os.environ["COLLAGE_CPU_LOCKS"] = "none"
    os.environ[FAULTS] = json.dumps(faults or {})
    session.measure_options = options_on_the_device
    mod, params = net()
    options = CollageOptions(
        store=store, workers=workers, progress="quiet", guard=False, **(collage_options or {})
    )
    try:
        with tvm.transform.PassContext(opt_level=3):
            result = optimize(mod, params, ["llvm", *backends], options)
    finally:
        session.measure_options = usual
    [report] = result.partitioned
    return {
        "module": f"{tvm.ir.structural_hash(result.mod) & (2**64 - 1):016x}",
        "parts": [dataclasses.asdict(part) for part in report.parts],
        "seconds": report.seconds,
        "failed": [dataclasses.asdict(part) for part in report.failed],
    }


class ForkedPopen:
    """A worker that is forked from this process and so need not import TVM, in the place of
    clean_process.ForkedWorker.

    The worker's own code, protocol, session and death with its parent are the real ones.
    """

    def __init__(self, own, over, *, replies, seconds):
        from tvm.relay.collage.exec import worker

        parent = os.getpid()
        requests, self._to_worker = os.pipe()
        self._from_worker, printed = os.pipe()
        self.returncode = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                os.dup2(requests, 0)
                os.dup2(printed, 1)
                os.dup2(printed, 2)
                with open(os.devnull) as nothing:  # not closed: the driver's objects know them
                    for fd in map(int, os.listdir("/proc/self/fd")):
                        if fd > 2 and fd not in (replies, nothing.fileno()):
                            os.dup2(nothing.fileno(), fd)
                # pytest has put its own in their places. What was there is kept: its end would
                # close a number that is taken again.
                kept = sys.stdin, sys.stdout, sys.stderr
                sys.stdin, sys.stdout, sys.stderr = map(os.fdopen, (0, 1, 2), "rww")
                os.environ.update(own, **over)
                tempfile.tempdir = None
                worker.main([replies, parent])
                del kept
            finally:
                os._exit(1)
        os.close(requests)
        os.close(printed)
        self.stdin = os.fdopen(self._to_worker, "wb", 0)
        self.stdout = os.fdopen(self._from_worker, "rb", 0)

    def wait(self):
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)


# In the place of launch.forks.
FORKED = types.SimpleNamespace(fork=ForkedPopen, start_ahead=lambda own: None)


def serve():
    register()
    with tempfile.TemporaryDirectory() as folder:
        search(os.path.join(folder, "costs.sqlite"))  # all is imported and has run once
    gc.freeze()  # what was imported is no garbage of a fork's, and is not copied to be marked
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            result = Path(request.pop("result"))
            os.environ[EVENTS] = request.pop("events")
            os.environ[PAUSE] = request.pop("pause", "")
            answer = search(**request)
            result.with_suffix(".new").write_text(json.dumps(answer))
            result.with_suffix(".new").rename(result)
            os._exit(0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    import fault_search  # under the name that workers know

    fault_search.serve()
