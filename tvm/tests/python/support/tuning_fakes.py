# SPDX-License-Identifier: Apache-2.0
"""A tuner without a search, which the tuner's tests put into workers by name.

A candidate's tasks are the words of its label: conv, dense, crash, hang, raise, unlisted. A trial
is a line of the log with the seconds that TRIALS has for its number.
"""

import contextlib
import json
import os
import signal
import time
import types

import tvm
from tvm.relay.collage.files.text import append_line
from tvm.relay.collage.tuning import resources
from tvm.relay.collage.tuning.ansor_kernel import AnsorKernel
from tvm.relay.collage.tuning.transfer.log import Source
from tvm.relay.collage.tuning.worker import trials_in

TARGET = str(tvm.target.Target("llvm"))
WAIT = "waiting for another search"
TRIALS = [None, 3e-3, 2e-3, 1e-3, 5e-3, 4e-3]


def waiting_clock(monkeypatch):
    """The budget's clock, a list of one: only the wait for the CPUs moves it."""
    now = [0.0]

    @contextlib.contextmanager
    def lock(on_wait):
        on_wait(WAIT)
        now[0] += 1000.0
        yield

    monkeypatch.setattr(resources, "cpus_for_measuring", lock)
    monkeypatch.setattr(resources, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    return now


def list_tasks(candidate, tuner):
    _note(candidate, "list")
    if "unlisted" in candidate["label"]:
        raise ValueError("no tasks of this")
    words = candidate["label"].split()
    return [
        {"workload": workload(word), "name": word, "kernel": kernel(word).to_json()}
        for word in words
    ]


def tune_task(candidate, workload, options):
    _note(candidate, workload)
    log, trials = options["log"], options["trials"]
    known = trials_in(log, options["tuner"], TARGET)
    before = sum(each.workload == workload for each in known)
    for number in range(before, trials):
        append_line(log, line(workload, number))
        if number == before:
            _misbehave(workload, log)
    return {"trials": trials - before}


def kernel(word):
    """A kernel of the class that the word names."""
    return AnsorKernel(workload(word), word, word, (), (1,), 1.0)


def source(word):
    """A schedule for it."""
    return Source(json.dumps({"i": [[], [[], []]]}), kernel(word), "made.jsonl")


def workload(word):
    return json.dumps([word, []])


def line(workload, number):
    """A line of an AutoTVM log for a template that does not exist."""
    name, args = json.loads(workload)
    seconds = TRIALS[number % len(TRIALS)]
    return json.dumps(
        {
            "input": [TARGET, name, args, {}],
            "config": {"index": number, "code_hash": None, "entity": []},
            "result": [[1e9 if seconds is None else seconds], int(seconds is None), 0.1, 1.0],
            "version": 0.2,
            "tvm_version": "0.19.0",
        }
    )


def _misbehave(workload, log):
    if "crash" in workload:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "hang" in workload:
        time.sleep(3600)
    if "raise" in workload:
        raise ValueError("no schedule for this")
    if "killed_once" in workload and not os.path.exists(f"{log}.killed"):
        open(f"{log}.killed", "w").close()
        with open(log, "a") as file:
            file.write('{"input": ["llvm')  # half a line
        os.kill(os.getpid(), signal.SIGKILL)


def _note(candidate, what):
    """What was asked, a line each, beside the log that the candidate's options name."""
    append_line(candidate["build_options"]["notes"], what)
