# SPDX-License-Identifier: Apache-2.0
"""Faults of the machine, told from a candidate's own where they arise.

They are told by exceptions' types and errno, by signals, by the kernel's counters and by trying the
same on nothing, never by the words of a message: another candidate would have had the same fault,
and this one may do well when it is mended. A fault is named by one of ADVICE.
Test: exec/test_machine_fault.py.
"""

from __future__ import annotations

import contextlib
import errno
import signal
import tempfile
import threading
from collections.abc import Iterator

from ..errors import MachineError
from ..machine.compiler import why_it_does_not_link
from ..messages.foreign import describe
from ..options.named import option
from .reply import Unsupported
from .resolve import resolve

MEMORY, KILLED = "memory", "killed"
FOLDER, RESOURCES, COMPILER, LIBRARY = "folder", "resources", "compiler", "library"
DEVICE = "device"

# Kind of fault -> what to do about it.
ADVICE = {
    MEMORY: "end other programs, set "
    + option("workers", "the option workers")
    + " to 1, or use a machine with more memory",
    KILLED: "see who ends processes here: the kernel where memory is short, a limit, a person",
    FOLDER: "make room in the temporary folder, or set TMPDIR to one that can be written to",
    RESOURCES: "end other programs, or raise the limits of open files and processes (ulimit)",
    COMPILER: "install g++, or set CXX to a C++ compiler that works",
    LIBRARY: "install what is missing, or leave the backend out of the target list",
    DEVICE: "start the device's server again",
}
# Those that need not hit the next candidate as well.
PASSING = (MEMORY, KILLED)

_BY_ERRNO = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO), FOLDER),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE, errno.EAGAIN), RESOURCES),
    errno.ENOMEM: MEMORY,
}
# Signals that a process does not send itself by a fault of its code.
_FROM_OUTSIDE = (
    signal.SIGKILL,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGXCPU,
    signal.SIGXFSZ,
    signal.SIGPWR,
)
# More than an empty file: some file systems keep a block for those.
_PROBE_BYTES = 1 << 16


class MachineFault(Exception):
    """Raised in a worker by what has found the machine at fault; `kind` is one of ADVICE."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def fault_of(error: BaseException, kills_before: int) -> str:
    """Return the kind of fault of the machine that an exception in this process came from, "" for
    none.

    `kills_before`: what kills_for_memory() gave before the work that failed.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, MachineFault):
            return link.kind
        if isinstance(link, MemoryError):
            return MEMORY
        if isinstance(link, OSError) and link.errno in _BY_ERRNO:
            return _BY_ERRNO[link.errno]
        link = link.__cause__ or link.__context__
    if kills_for_memory() > kills_before:  # a compiler, perhaps
        return MEMORY
    return fault_of_folder(tempfile.gettempdir()) or _fault_of_threads()


def fault_of_death(code: int | None, folder: str, kills_before: int) -> str:
    """Return the kind of fault of the machine that a worker of this exit status died of, "" for
    none. `folder`: its temporary one, with all that it left there."""
    if code is not None and -code in _FROM_OUTSIDE:
        return FOLDER if -code == signal.SIGXFSZ else KILLED
    if kills_for_memory() > kills_before:
        return MEMORY
    return fault_of_folder(folder) or _fault_of_threads()


def fault_of_folder(folder: str) -> str:
    """Return the kind of fault that keeps a file from being written there; "" when it can be."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBE_BYTES))
    except OSError as error:
        return _BY_ERRNO.get(error.errno or 0, FOLDER)
    return ""


def kills_for_memory(path: str = "/proc/vmstat") -> int:
    """Count the processes that the kernel has killed since its start for want of memory; 0 if none
    tells."""
    with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
        for line in file:
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0


@contextlib.contextmanager
def blaming_the_compiler(compiler: str = "") -> Iterator[None]:
    """Raise MachineFault in place of an error of the block, which compiles or links, where no
    library at all can be linked now."""
    kills_before = kills_for_memory()
    try:
        yield
    except Unsupported:
        raise
    except Exception as error:
        text = "" if fault_of(error, kills_before) else why_it_does_not_link(compiler)
        if text:
            raise MachineFault(COMPILER, text) from error
        raise


@contextlib.contextmanager
def blaming_the_library(backend: str, why_unavailable: str) -> Iterator[None]:
    """Raise MachineFault in place of an error of the block, a backend's work, where the backend
    cannot run here any more, of which the function that `why_unavailable` names ("module:function")
    gives the reason."""
    try:
        yield
    except Exception as error:
        reason = resolve(why_unavailable)(backend)
        if reason is not None:
            raise MachineFault(LIBRARY, f"backend {backend!r}: {reason}") from error
        raise


@contextlib.contextmanager
def machine_errors(what: str) -> Iterator[None]:
    """Raise MachineError, which says `what` cannot be done and how that is mended, where the fault
    in the block, the driver's own work, is the machine's; anything else goes on as it is."""
    kills_before = kills_for_memory()
    try:
        yield
    except Exception as error:
        kind = fault_of(error, kills_before)
        if kind:
            raise MachineError(f"{what} ({describe(error)}): " + ADVICE[kind]) from error
        raise


def _fault_of_threads() -> str:
    try:
        thread = threading.Thread(target=int)
        thread.start()
    except RuntimeError:
        return RESOURCES
    thread.join()
    return ""
