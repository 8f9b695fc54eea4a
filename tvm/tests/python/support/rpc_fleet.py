# SPDX-License-Identifier: Apache-2.0
"""A tracker and RPC servers on the loopback, forked from one process that has imported TVM once.

`python rpc_fleet.py` answers each line of JSON on stdin with one: {} starts the tracker and answers
its port and process; {"key", "threads"} a server of it that runs rpc_server.serve in a session of
its own, with workers that are forked as well. All end with stdin. Used by rpc/test_*.py.
"""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
from measure_fakes import VirtualContestant, perform
from tvm.relay.collage.exec.pool import Job

KEY_OF_ONCE = "COLLAGE_TEST_ONCE"


class Fleet:
    """Seen from a test."""

    def __init__(self, folder):
        self.once = str(folder / "once")
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, KEY_OF_ONCE: self.once},
        )
        self.port = self._ask({})["port"]
        self.tracker = f"127.0.0.1:{self.port}"
        while not is_listening(self.port):
            time.sleep(0.02)

    def start(self, key, count=1, **more):
        """Start servers and wait until they are registered; their processes' ids."""
        from tvm.relay.collage.rpc.tracker import Address, Tracker

        pids = [self._ask({"key": key, **more})["pid"] for _ in range(count)]
        with Tracker(Address("127.0.0.1", self.port)) as tracker:
            while tracker.free(key) < count:
                time.sleep(0.02)
        return pids

    def close(self):
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def _ask(self, request):
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def is_listening(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def kill_server():
    """What a step on a device does to lose it: end the server, its session and this worker."""
    os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)
    time.sleep(60)


def kill_server_once():
    """The first that comes, of all devices, does so."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(os.environ[KEY_OF_ONCE], os.O_CREAT | os.O_EXCL))
        kill_server()


def freeze_server():
    """What loses a device without a word: its server and session stand still."""
    os.killpg(os.getpgid(os.getppid()), signal.SIGSTOP)
    time.sleep(60)


def contestant_but_lose_a_device(library, **_):
    """A factory of contestants, of which the first ever loses its device."""
    once = os.environ[KEY_OF_ONCE] + " contestant"
    with contextlib.suppress(FileExistsError):
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        worker = psutil.Process().parent()
        os.killpg(os.getpgid(worker.ppid()), signal.SIGKILL)
        time.sleep(60)
    return VirtualContestant([float(Path(library).read_text())], [[1.0, 2.0]])


def run_but_lose_a_device(**arguments):
    """fault_search's measuring step on devices of which the first is lost."""
    import fault_search

    kill_server_once()
    return fault_search.run(**arguments)


def fake_measure(library, build, **_):
    """measure_fakes' step with the deeds of devices."""
    deed = json.loads(Path(library).read_text())["run"]
    if deed == "kill_server":
        kill_server()
    if deed == "freeze_server":
        freeze_server()
    if isinstance(deed, list):  # two candidates that end only if both run at the same time
        mine, other = deed
        Path(mine).touch()
        while not os.path.exists(other):
            time.sleep(0.01)
        deed = 1e-3
    return {"samples": perform(deed)}


def call_here(run, deed, once=""):
    """A call in a worker here that has a device."""
    if deed == "hang":
        time.sleep(60)
    if deed == "lose":
        run(Job("call", {"function": "rpc_fleet:kill_server", "arguments": {}}, 60.0))
    if deed == "missing file":
        run(Job("call", {"function": "os:getpid", "arguments": {}}, 60.0, ("/absent/file",)))
    if deed == "die" or not os.path.exists(once):
        Path(once).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def tune(**arguments):
    """tuning/worker.py's, with trials that do on the device what the log's name says."""
    from tvm.relay.collage.tuning import worker

    _time_by(arguments["options"]["log"])
    return worker.tune_task(**arguments)


def transfer(**arguments):
    """tuning/transfer/schedule_trial.py's, likewise."""
    from tvm.relay.collage.tuning.transfer import schedule_trial

    _time_by(arguments["log"])
    return schedule_trial.transfer(**arguments)


def _time_by(log):
    from tvm.relay.collage.tuning import trial

    deed = Path(log).stem
    trial.time_kernel = {
        "kill": time_twice_then_kill,
        "freeze": time_and_freeze,
        "crash": crash,
        "sigkill": be_killed,
    }[deed]


_trials = itertools.count()


def time_twice_then_kill(kernels, arguments):
    if next(_trials) == 2:
        kill_server()
    return [1e-3]


def time_and_freeze(kernels, arguments):
    freeze_server()


def crash(kernels, arguments):
    perform("segfault")


def be_killed(kernels, arguments):
    """As the kernel does to one that wants too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def serve_tracker(port):
    from tvm.rpc.tracker import PopenTrackerServerState

    PopenTrackerServerState("127.0.0.1", port, port + 1, silent=True).thread.join()


def serve_device(tracker, key, threads=None):
    from fault_search import FORKED
    from tvm.relay.collage import rpc_server
    from tvm.relay.collage.exec import launch
    from tvm.relay.collage.rpc.tracker import Address

    launch.forks = FORKED
    if threads is not None:
        os.environ["TVM_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = threads
    port = free_port()
    rpc_server.serve(Address("127.0.0.1", tracker), "127.0.0.1", port, port + 1, key=key)


def main():
    import tvm.relay.collage.measure
    import tvm.relay.collage.rpc.session  # noqa: F401

    port, pids = free_port(), []
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            with open(os.devnull) as nothing:
                os.dup2(nothing.fileno(), 0)
            os.dup2(2, 1)
            with contextlib.suppress(KeyboardInterrupt):
                serve_device(port, **request) if request else serve_tracker(port)
            os._exit(0)
        pids.append(pid)
        print(json.dumps({"pid": pid, "port": port}), flush=True)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
