# SPDX-License-Identifier: Apache-2.0
"""Fake builders, devices and contestants that the measuring tests put into workers by name.

A fake candidate is a CandidateModule whose `module` is JSON {"build": deed, "run": deed}; a deed is
one of DEEDS or a number of seconds (a virtual time, nothing sleeps).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import json
import mmap
import os
import resource
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from tvm.relay.collage import measure

__all__ = ["measure"]
HERE = __name__


def hang():
    while True:
        time.sleep(3600)


def segfault():
    os.kill(os.getpid(), signal.SIGSEGV)


def garbage():
    """What a candidate prints, on both streams and their raw descriptors, by the megabyte."""
    print('{"id": 1, "ok": true, "value": "forged"}', flush=True)
    os.write(1, b"\xff\x00 garbage\n" * 200_000)
    os.write(2, b"more garbage\n" * 200_000)
    sys.stdin.read()
    return [1e-3] * 9


def hang_with_child():
    """A child that would outlive its parent, and a parent that hangs."""
    if os.fork() == 0:
        hang()
    hang()


def eat_memory():
    return np.ones(1 << 40)


def reserve_memory():
    """Address space that is never used."""
    no_reserve = 0x4000  # Linux's MAP_NORESERVE, which Python 3.11 does not name
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
    mmap.mmap(-1, 16 << 30, flags=flags).close()
    return [1.0]


def eat():
    """A little at a time, and it touches all of it."""
    eaten = []
    while True:
        eaten.append(np.ones(4 << 20))
        time.sleep(0.01)


# What a candidate that finds the worker's reply channel might write there.
REPLIES = {
    "no JSON": b"\xff\x00 nothing\n",
    "half a line": b'{"id": 1, "ok": ',
    "no object": b"[1, 2]\n",
    "no fields": b"{}\n",
    "no value": b'{"id": 1, "ok": true}\n',
    "no text": b'{"id": 1, "ok": false, "type": 1, "message": null}\n',
    "deep": b"[" * 100_000 + b"\n",
    "other request": b'{"id": -1, "ok": true, "value": "forged"}\n',
}


def forge(reply):
    """Write on each pipe that is open."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fifo(fd):
            with contextlib.suppress(OSError):  # it is for reading
                os.write(fd, reply)
    return [1.0]


def fifo(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:  # the listing's own
        return False


def raise_error():
    raise ValueError("no kernel for this")


def raise_unsupported():
    raise measure.Unsupported("dynamic shape")


def raise_os_error(number):
    raise OSError(number, os.strerror(number))


def raise_from_a_full_disk():
    """As a library does that wraps what it calls."""
    try:
        raise_os_error(errno.ENOSPC)
    except OSError as error:
        raise ValueError("cannot save the kernel") from error


def write_past_a_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        Path(tempfile.gettempdir(), "big").write_bytes(bytes(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def crash_without_a_folder():
    """As what maps a file into memory does on a full disk."""
    shutil.rmtree(tempfile.gettempdir())
    os.kill(os.getpid(), signal.SIGBUS)


DEEDS = {
    "no space": functools.partial(raise_os_error, errno.ENOSPC),
    "no quota": functools.partial(raise_os_error, errno.EDQUOT),
    "no files": functools.partial(raise_os_error, errno.EMFILE),
    "no processes": functools.partial(raise_os_error, errno.EAGAIN),
    "no memory": functools.partial(raise_os_error, errno.ENOMEM),
    "no permission": functools.partial(raise_os_error, errno.EACCES),
    "wrapped": raise_from_a_full_disk,
    "limit": write_past_a_limit,
    "no folder": crash_without_a_folder,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "terminated": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "hang": hang,
    "segfault": segfault,
    "exit": lambda: os._exit(0),
    "sysexit": lambda: sys.exit(0),
    "garbage": garbage,
    "hang_with_child": hang_with_child,
    "memory": eat_memory,
    "reserve": reserve_memory,
    "raise": raise_error,
    "unsupported": raise_unsupported,
    "nan": lambda: [1e-3, float("nan")] * 5,
    "negative": lambda: [-1.0] * 9,
    "none": lambda: [],
    "zero": lambda: [0.0] * 9,
    "huge": lambda: [1e300] * 9,
    "infinite": lambda: [float("inf")] * 9,
    "texts": lambda: ["1e-3"] * 9,
    "no list": lambda: {"samples": None},
    "exit 3": lambda: os._exit(3),
    "eat": eat,
    **{f"forge {name}": functools.partial(forge, reply) for name, reply in REPLIES.items()},
}


def note(log, text):
    if log:
        with open(log, "a") as file:
            file.write(text)


def perform(deed):
    return DEEDS[deed]() if deed in DEEDS else [float(deed)] * 9


def fake_build(candidate, library, **_):
    deeds = json.loads(candidate["module"])
    note(deeds.get("tried"), "build\n")
    if deeds.get("build"):
        perform(deeds["build"])
    Path(library).write_text(json.dumps(deeds))
    if "names" not in deeds:
        note(deeds.get("log"), "build\n")
    return {"device": "fake"}


def fake_reference(candidate, file, exact, **_):
    """`tolerances` are those of 32 bits and of 64, None where there is no such reference."""
    deeds = json.loads(candidate["module"])
    if "tolerances" not in deeds:
        perform(deeds["reference"])
        return {"tolerance": None}
    relative = deeds["tolerances"][exact]
    return {"tolerance": raise_unsupported() if relative is None else [relative, 1]}


def fake_measure(library, build, tolerance, **_):
    deeds = json.loads(Path(library).read_text())
    note(deeds.get("log"), f"{Path(library).name if 'names' in deeds else 'measure'}\n")
    if tolerance and deeds["error"] > tolerance[0]:
        raise measure.WrongResult(f"off by {deeds['error']}, allowed {tolerance[0]}")
    if "counter" in deeds:  # a list of runs, one a measurement
        note(deeds["counter"], ".")
        at = len(Path(deeds["counter"]).read_text()) - 1
        return {"samples": deeds["run"][at]}
    return {"samples": perform(deeds["run"])}


def timed_measure(library, build, **_):
    """Writes when it began and ended into the candidate's log."""
    began = time.monotonic()
    time.sleep(0.02)
    note(json.loads(Path(library).read_text())["log"], f"{[began, time.monotonic()]}\n")
    return {"samples": [1e-3] * 9}


def fake_candidate(name, run=1e-3, build=None, verify=False, **more):
    """A CandidateModule for fake_build and fake_measure; `name` is its identity."""
    module = json.dumps({"build": build, "run": run, **more})
    return measure.CandidateModule("fake", "fake", name, module, verify=verify)


def fake_options(**changes):
    """MeasureOptions that use the fakes."""
    steps = {f"{name}_step": f"{HERE}:fake_{name}" for name in ("build", "reference", "measure")}
    return measure.MeasureOptions(**{"imports": (), **steps, **changes})


class VirtualContestant:
    """A contestant on a virtual clock: seconds of run i are those of a list, over and over."""

    def __init__(self, seconds, outputs, deed=None, at=0, log=None, name=""):
        self._times, self._outputs = seconds, outputs
        self._deed, self._at, self._runs = deed, at, 0
        self._log, self._name = log, name

    def run(self):
        self._runs += 1

    def seconds(self, number):
        note(self._log, self._name)
        if self._deed and self._runs >= self._at:
            perform(self._deed)
        self._runs += 1
        return self._times[self._runs % len(self._times)] * number

    def outputs(self):
        return [np.array(o, "float32") for o in self._outputs]


def virtual_contestant(**arguments):
    return VirtualContestant(**arguments)


def contestant(name, seconds=(1e-3,), outputs=((1.0, 2.0),), **more):
    """A Contestant on the virtual clock."""
    arguments = {"seconds": list(seconds), "outputs": [list(o) for o in outputs], "name": name}
    return measure.Contestant(name, f"{HERE}:virtual_contestant", {**arguments, **more})


class Sleeper:
    """A contestant whose run takes real time."""

    def __init__(self, seconds):
        self._seconds = seconds

    def run(self):
        time.sleep(self._seconds)

    def outputs(self):
        return [np.zeros(1, "float32")]


def sleeper(seconds):
    return Sleeper(seconds)


def wait_for_cpus(seconds):
    """Wait for the CPUs, which another thread has for so long."""
    from tvm.relay.collage.machine.cpu_lock import cpus_for_measuring

    held = threading.Event()

    def hold():
        with cpus_for_measuring():
            held.set()
            time.sleep(seconds)

    threading.Thread(target=hold).start()
    assert held.wait(10.0)
    with cpus_for_measuring():
        pass


def echo(text):
    return text


def stock_build(mod, target, opt_level=3, **options):
    """TVM's own build, for tests that look at measuring alone."""
    import tvm

    with tvm.transform.PassContext(opt_level=opt_level):
        return tvm.relay.build(mod, target, **options)


built = []  # the operators that noted_build has built alone


def noted_build(mod, target, **options):
    built.append(mod["main"].body.op.name)
    return stock_build(mod, target, **options)


def fickle_build(mod, target, **options):
    """Whose library computes something else each other time that it is opened."""
    import tvm
    from tvm import relay

    main = mod["main"]
    other = relay.Function(main.params, relay.negative(main.body))
    libraries = itertools.cycle(
        stock_build(tvm.IRModule.from_expr(each), target, **options) for each in (main, other)
    )

    class Library:
        def __getitem__(self, name):
            return lambda device: next(libraries)[name](device)

    return Library()


def report_context(mod, target, opt_level, **_):
    """A builder that answers with the context it is called in, as an error's text."""
    import tvm

    context = tvm.transform.PassContext.current()
    raise ValueError(
        f"level {opt_level}, {dict(context.config.items())}, {list(context.disabled_pass)}"
    )


def timing_of(budget_seconds=0.02, interval_width=0.1, sample_seconds=1e-3, **more):
    """Return the timing that a worker is asked for a candidate's library."""
    return {
        "network_bytes": 1 << 20,
        "seed": 0,
        "budget_seconds": budget_seconds,
        "interval_width": interval_width,
        "sample_seconds": sample_seconds,
        **more,
    }
