# SPDX-License-Identifier: Apache-2.0
"""What runs in processes of bench/test_child.py, test_real_files.py and test_zoo.py: functions that
answer, or fail in the way that they are asked for; and whether a process has ended."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time


def answer(names):
    """The values of variables, and whether TVM was here before."""
    return {name: os.environ.get(name) for name in names} | {"tvm": "tvm" in sys.modules}


def fail(how):
    """Tells of one thing, then fails."""
    yield {"stage": "import", "model": {"nodes": 3}}
    if how == "raises":
        raise ValueError("stack\n\nno such operator: Moa")
    yield {"stage": "measure"}
    if how == "dies":
        sys.exit(3)
    if how == "hangs":
        # A grandchild that would live on.
        print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid)
        sys.stdout.flush()
        time.sleep(60)
    yield {"rows": [{"name": "dnnl alone", "is_peer": False, "seconds": 1e-3}]}


def wait():
    """Says which process it is, then waits to be ended."""
    print(os.getpid(), flush=True)
    time.sleep(60)


def fail_as_named(request):
    """A trial of the zoo."""
    return fail(request["net"])


def ends(pid):
    """Whether the process is gone within some seconds."""
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(pid)


def is_running(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] not in "ZX"
    return False


def command(given):
    """The command `collage` on a file whose name says how it fails."""
    how = os.path.basename(given[1]).removesuffix(".onnx")
    if how == "refuses":
        shape = given[given.index("--shape") + 1]
        print(json.dumps({"kind": "error", "text": f"no --shape {shape}"}), file=sys.stderr)
        return 1
    print(json.dumps({"phase": "importing", "step": given[1]}), file=sys.stderr, flush=True)
    if how == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)
