# SPDX-License-Identifier: Apache-2.0
"""A command runs in a fork of its process, so that one that native code kills ends in one line.

TVM's passes, LLVM and the libraries of backends may fail by a signal, which no code of the process
that has them can catch. What native code writes to standard error comes by this process as well:
TVM's C++ tells the same each time that it meets it, and is heard once. What Python writes goes
where it did. And Ctrl-C where an exception would not come out as itself. Test:
tvm_collage/test_supervisor.py, collage/cli/test_cli.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from tvm_collage_hook import end_interrupted

INTERRUPTED_LINE = "collage: interrupted"

# Signals of who wants the command to end; they are handed on, and end both as they would have one.
_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HEARD = (*_TO_END, signal.SIGCHLD)
_FROM_PROCESS = 0  # si_code of kill(2); a terminal's signals reach all its processes by themselves
_PR_SET_PDEATHSIG = 1
# What TVM's C++ logs, without the time of day before it.
_LOGGED = re.compile(rb"\[\d\d:\d\d:\d\d\] (\S+:\d+: .*)", re.DOTALL)
# Processes that outlive the command may hold the pipe open.
_ENDING_SECONDS = 1.0
_LOOK_SECONDS = 0.5
# Shared by both: what the command is at, and by when that has to end, 0 for no limit.
_note, _deadline = mmap.mmap(-1, 256), mmap.mmap(-1, 8)


def note(text: str) -> None:
    """Note what this process is at, for the line that is told if it is killed."""
    _note[:] = text.encode()[: len(_note)].ljust(len(_note), b"\0")


def noted() -> str:
    """Return what was noted last."""
    return _note[:].rstrip(b"\0").decode(errors="ignore")


@contextlib.contextmanager
def must_end(seconds: float) -> Iterator[None]:
    """End the command if the block takes longer, whatever code hangs there: for one whose result
    nothing can be done without. 0: no limit. Without a supervisor it does nothing."""
    struct.pack_into("d", _deadline, 0, seconds and time.monotonic() + seconds)
    try:
        yield
    finally:
        struct.pack_into("d", _deadline, 0, 0.0)


@contextlib.contextmanager
def ended_by_interrupt(line: str = INTERRUPTED_LINE) -> Iterator[None]:
    """End the process at once by Ctrl-C within the block, with this line on standard error.

    For an import, of modules or of a model: what it leaves on the disk the next command removes.
    Libraries that are imported may swallow an exception, and where TVM's C++ calls Python its FFI
    loses one that is no Exception: then C++ goes on without an answer, and may crash.
    """

    def end(_number: int, _frame: FrameType | None) -> None:
        end_interrupted(line)

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # the handler is somebody else's
        return
    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
    native, its = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the request
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(native)
        sys.stderr = os.fdopen(os.dup(2), "w", 1, errors="backslashreplace")
        os.dup2(its, 2)
        os.close(its)
        return run()
    os.close(its)
    listener = threading.Thread(target=_pass_on, args=(native,), daemon=True)
    listener.start()
    status, is_late = _status_of(child)
    code = os.waitstatus_to_exitcode(status)
    listener.join(_ENDING_SECONDS)
    if -code in _TO_END:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(parent, -code)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if code < 0:
        tell(_late_line() if is_late else _line(signal.Signals(-code)))
    return 1 if code < 0 else code


def _pass_on(native: int) -> None:
    """Write the lines that come by the pipe to standard error, each that TVM logs once."""
    seen = set()
    with os.fdopen(native, "rb") as lines, contextlib.suppress(OSError):  # nobody reads
        for line in lines:
            logged = _LOGGED.fullmatch(line)
            if logged is None or logged[1] not in seen:
                os.write(2, line)
            if logged is not None:
                seen.add(logged[1])


def _status_of(child: int) -> tuple[int, bool]:
    """Wait for the child's end, handing on signals that only this process got; the status it ended
    by, and whether it was killed because it was late."""
    is_late = False
    while True:
        heard = signal.sigtimedwait(_HEARD, _LOOK_SECONDS)
        if heard and heard.si_signo in _TO_END and heard.si_code == _FROM_PROCESS:
            os.kill(child, heard.si_signo)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status, is_late
        (deadline,) = struct.unpack_from("d", _deadline)
        if 0 < deadline < time.monotonic():
            is_late = True
            os.kill(child, signal.SIGKILL)


def _late_line() -> str:
    why = "did not end within the time limit"
    return f"the phase {noted()} {why}: raise it, or export the model again"


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
