# SPDX-License-Identifier: Apache-2.0
"""A command runs in a fork of its process, so that one that native code kills ends in one line.

TVM's passes, LLVM and the libraries of backends may fail by a signal, which no code of the process
that has them can catch. Test: tvm_collage/test_supervisor.py.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import threading
from collections.abc import Callable

# Signals of who wants the command to end; they are handed on, and end both as they would have one.
_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HEARD = (*_TO_END, signal.SIGCHLD)
_FROM_PROCESS = 0  # si_code of kill(2); a terminal's signals reach all its processes by themselves
_PR_SET_PDEATHSIG = 1
# Shared by both: what the command is at.
_note = mmap.mmap(-1, 256)


def note(text: str) -> None:
    """Note what this process is at, for the line that is told if it is killed."""
    _note[:] = text.encode()[: len(_note)].ljust(len(_note), b"\0")


def noted() -> str:
    """Return what was noted last."""
    return _note[:].rstrip(b"\0").decode(errors="ignore")


def supervised(run: Callable[[], int], tell: Callable[[str], None]) -> int:
    """Return the exit code of `run()`, which a fork runs; 1 where a signal killed that, of which
    `tell(line)` tells.

    Where threads or TVM are there already it runs here: a fork has none of the threads.
    """
    if "tvm" in sys.modules or threading.active_count() > 1:
        return run()
    parent = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would leave nothing to wait for
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the request
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return run()
    code = os.waitstatus_to_exitcode(_status_of(child))
    if -code in _TO_END:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(parent, -code)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if code < 0:
        tell(_line(signal.Signals(-code)))
    return 1 if code < 0 else code


def _status_of(child: int) -> int:
    """Wait for the child's end, handing on signals that only this process got."""
    while True:
        heard = signal.sigwaitinfo(_HEARD)
        if heard.si_signo in _TO_END and heard.si_code == _FROM_PROCESS:
            os.kill(child, heard.si_signo)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status


def _line(how: signal.Signals) -> str:
    at = noted()
    phase = f" in the phase {at}" if at else ""
    if how == signal.SIGKILL:
        why = "see who ends processes here: the kernel where memory is short, a limit, a person"
    else:
        why = (
            "native code of TVM or of a backend's library is at fault; try fewer --backends, or "
            "export the model again"
        )
    return f"the command was killed by {how.name}{phase}: {why}"
