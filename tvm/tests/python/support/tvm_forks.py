# SPDX-License-Identifier: Apache-2.0
"""Processes forked from a clean process that has imported TVM once: 0.1 s of CPU, not 2.

`WORKERS` stands where launch.py has `subprocess`; `run` stands for `python -c`. The clean process
(this file, run) has one thread and nothing of the tests; what it forks are children of the test
process, run the worker's own code or the given one and end as started ones do. One whose
environment differs in a variable that is read while TVM is imported, or that is asked for by a fork
or another thread, is started as ever.
"""

import contextlib
import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types

_CLONE_PARENT, _SYS_CLONE = 0x8000, 56  # of Linux on x86-64, the only system there is
_LONGEST = 1 << 20
# Read when they are needed, by TVM's thread pool or by Python.
_READ_LATE = ("TMPDIR", "PYTEST_CURRENT_TEST", "TVM_NUM_THREADS", "TVM_BIND_THREADS")
_MODULE = "tvm.relay.collage.exec.worker"


def _read_while_loading(environment):
    late = ("COLLAGE_", "PYTEST_")
    return {
        name: value
        for name, value in environment.items()
        if name not in _READ_LATE and not name.startswith(late)
    }


class _CleanProcess:
    """The process that forks, started with the session's environment."""

    def __init__(self, environment):
        self._key = self.key_of(environment)
        self._owner = os.getpid()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Without a thread of OpenBLAS's, which a fork would not have.
        variables = {**environment, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-P", __file__, str(theirs.fileno())]
        self._process = subprocess.Popen(command, env=variables, pass_fds=(theirs.fileno(),))
        theirs.close()

    @staticmethod
    def key_of(environment):
        return _read_while_loading(environment), os.sched_getaffinity(0), os.getuid()

    def serves(self, environment):
        return self._owner == os.getpid() and self._key == self.key_of(environment)

    def fork(self, arguments, descriptors, environment):
        """The id of a new process, which has `descriptors`: ours, by the numbers they get there."""
        asked = {
            "arguments": arguments,
            "environment": dict(environment),
            "folder": os.getcwd(),
            "numbers": list(descriptors),
        }
        message = json.dumps(asked).encode()
        socket.send_fds(self._socket, [message], list(descriptors.values()))
        return int(self._socket.recv(100))

    def close(self):
        self._socket.close()
        self._process.wait()


class ForkedPopen:
    """A forked worker; as much of Popen as launch.py and process.py use."""

    def __init__(self, clean, arguments, pass_fds, environment):
        requests, to_worker = os.pipe()
        from_worker, printed = os.pipe()
        kept = {fd: fd for fd in pass_fds}
        descriptors = {0: requests, 1: printed, 2: printed, **kept}
        self.returncode = None
        try:
            self.pid = clean.fork(arguments, descriptors, environment)
        finally:
            os.close(requests)
            os.close(printed)
        self.stdin = os.fdopen(to_worker, "wb", 0)
        self.stdout = os.fdopen(from_worker, "rb", 0)

    def wait(self):
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)


_clean = None
# Of the session: a test may have changed it when it needs the first worker.
_ENVIRONMENT = dict(os.environ)


def _clean_process(environment):
    """The clean process, None where it cannot fork one with this environment."""
    global _clean
    if threading.current_thread() is not threading.main_thread():
        return None
    if _clean is None:
        _clean = _CleanProcess(_ENVIRONMENT)
    return _clean if _clean.serves(environment) else None


def _popen(command, *, pass_fds=(), env=None, **others):
    *interpreter, replies, parent = command
    is_worker = interpreter == [sys.executable, "-P", "-m", _MODULE]
    clean = _clean_process(env) if is_worker and parent == str(os.getpid()) else None
    if clean is not None:
        return ForkedPopen(clean, [replies, parent], pass_fds, env)
    return subprocess.Popen(command, pass_fds=pass_fds, env=env, **others)


def run(code, *arguments, env=os.environ):
    """`python -c code arguments` in a process that has imported TVM and opened no library of a
    backend; a CompletedProcess with texts."""
    command = [sys.executable, "-c", code, *arguments]
    clean = _clean_process(env)
    if clean is None:
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    with (
        open(os.devnull) as nothing,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        descriptors = {number: file.fileno() for number, file in enumerate((nothing, out, err))}
        pid = clean.fork(command[1:], descriptors, env)
        _, status = os.waitpid(pid, 0)
        out.seek(0)
        err.seek(0)
        printed = out.read().decode(), err.read().decode()
    return subprocess.CompletedProcess(command, os.waitstatus_to_exitcode(status), *printed)


def close():
    """End the clean process, if there is one."""
    global _clean
    if _clean is not None:
        _clean.close()
        _clean = None


WORKERS = types.SimpleNamespace(Popen=_popen, PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT)


def _fork():
    """As os.fork(), but the new process is a sibling, a child of this one's parent."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    flags = _CLONE_PARENT | signal.SIGCHLD
    pid = ctypes.PyDLL(None).syscall(_SYS_CLONE, flags, 0, 0, 0, 0)
    (python.PyOS_AfterFork_Parent if pid else python.PyOS_AfterFork_Child)()
    return pid


def _take(numbers, descriptors):
    """Give each descriptor its number and close all others."""
    high = 1 + max(*numbers, *descriptors)
    for fd in descriptors:
        os.dup2(fd, high + fd)
    for number, fd in zip(numbers, descriptors, strict=True):
        os.dup2(high + fd, number)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd not in numbers:
            try:
                os.close(fd)
            except OSError:
                pass  # the listing's own


def _serve(ours):
    """Fork for each request; the arguments of the process, in the one that was forked."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(ours, _LONGEST, 16)
        if not message:
            sys.exit()
        asked = json.loads(message)
        if _fork() == 0:
            os.setsid()
            # Not before: who knows the id may kill the group that it names.
            ours.send(str(os.getpid()).encode())
            os.chdir(asked["folder"])
            os.environ.clear()
            os.environ.update(asked["environment"])
            _take(asked["numbers"], descriptors)
            return asked["arguments"]
        for fd in descriptors:
            os.close(fd)


if __name__ == "__main__":
    import tvm
    from tvm.relay.collage.exec import worker

    assert len(os.listdir("/proc/self/task")) == 1, "a fork has one thread alone"
    # The first error of a process reads the symbols of TVM's library, 0.3 s: a fork has read them.
    with contextlib.suppress(tvm.TVMError):
        tvm.get_global_func("runtime.ModuleLoadFromFile")("nowhere", "none")
    gc.freeze()  # what was imported is no garbage of a fork's, and is not copied to be marked
    ours = socket.socket(fileno=int(sys.argv[1]))
    arguments = _serve(ours)
    ours.detach()  # closed already
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        worker.main(arguments)
