# SPDX-License-Identifier: Apache-2.0
"""The clean process: has imported TVM, opened nothing, and forks workers. Test: exec/test_clean.py.

Started as `python -m <this module> <socket fd> <driver's pid>` by clean_process.py. A request is a
message with four descriptors (stdin, output, replies and the folder of the worker) and the
variables that the worker has beside its own: {name: value, or null for one that it has not}. The
answer, which the worker gives itself, is its process's id, 0 where none could be made.

A worker is a child of the driver, not of this process (CLONE_PARENT): the driver waits for it, the
kernel kills it when the driver ends, and it goes on when this process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import socket
import sys
import tempfile

from .resolve import resolve
from .worker import die_with_parent
from .worker import main as work

LONGEST = 1 << 20  # message, in bytes
# Of Linux on x86-64, where alone there are clean processes.
_SYS_CLONE = 56
_CLONE_PARENT, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
_PR_GET_TID_ADDRESS = 40
# The worker's descriptors, by the order of those that come with a request. The socket has the last
# one's number before, so that none that comes has any of these.
_OUTPUT, _REPLIES = 1, 3


def make_ready() -> None:
    """Leave one thread in this process and as little as can be for its forks to do."""
    # OpenBLAS (numpy's) ends its threads before a fork, and starts them again when they are needed:
    # so they are there in a worker as if it had been started.
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    if len(os.listdir("/proc/self/task")) != 1:
        sys.exit("a process of several threads cannot be forked")
    # The first error of a process reads the symbols of TVM's library, 0.3 s: a fork has read them.
    with contextlib.suppress(Exception):
        resolve("tvm:get_global_func")("runtime.ModuleLoadFromFile")("nowhere", "none")
    sys.stdout.flush()  # else each worker would print what is kept back
    gc.collect()
    gc.freeze()  # what was imported is no garbage of a fork's, and is not copied to be marked


def serve(requests: socket.socket) -> bool:
    """Fork for each request; return True in a worker, False when no requests come any more."""
    address = _address_of_thread_id()
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, LONGEST, 4)
        if not message:
            return False
        pid = _fork_sibling(address)
        if pid == 0:
            os.setsid()
            # Not before: who knows the id may kill the group that it names.
            requests.send(str(os.getpid()).encode())
            _become_worker(json.loads(message), descriptors)
            requests.detach()  # its number is that of the replies now
            return True
        if pid < 0:
            requests.send(b"0")
        for descriptor in descriptors:
            os.close(descriptor)


def _address_of_thread_id() -> int:
    """Return where the C library keeps the thread's id, which it takes for that of the process in
    calls such as pthread_setaffinity_np; fork() writes it there, and so must _fork_sibling."""
    address = ctypes.c_void_p()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0) != 0 or not address.value:
        raise OSError(ctypes.get_errno(), "the kernel does not tell where the thread's id is")
    return address.value


def _fork_sibling(address: int) -> int:
    """Fork as os.fork() does, but make a child of this process's parent; -1 where that fails."""
    python, libc = ctypes.pythonapi, ctypes.PyDLL(None)
    flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID | signal.SIGCHLD
    arguments = map(ctypes.c_ulong, (_SYS_CLONE, flags, 0, 0, address, 0))
    python.PyOS_BeforeFork()
    pid = libc.syscall(*arguments)
    (python.PyOS_AfterFork_Parent if pid else python.PyOS_AfterFork_Child)()
    return pid


def _become_worker(variables: dict[str, str | None], descriptors: list[int]) -> None:
    """Give this process what a started worker has from the driver."""
    requests, output, replies, folder = descriptors
    os.fchdir(folder)
    given = {0: requests, 1: output, 2: output, _REPLIES: replies}
    for number, descriptor in given.items():
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    tempfile.tempdir = None  # of another TMPDIR
    numbers = sys.modules.get("numpy.random")
    if numbers is not None:
        numbers.seed()  # else all workers would draw the same


def main(arguments: list[str]) -> None:
    descriptor, driver = (int(a) for a in arguments)
    die_with_parent(driver)
    os.dup2(descriptor, _REPLIES, inheritable=False)
    if descriptor != _REPLIES:
        os.close(descriptor)
    make_ready()
    if serve(socket.socket(fileno=_REPLIES)):
        work([str(_REPLIES), str(driver)])


if __name__ == "__main__":
    main(sys.argv[1:])
