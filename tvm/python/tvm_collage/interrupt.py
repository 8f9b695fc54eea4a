# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C where an exception would not come out as itself. Test: collage/cli/test_cli.py.

A file of its own, because the script `collage` needs it before TVM is imported, and the commands
need it afterwards.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from tvm_collage_hook import end_interrupted

LINE = "collage: interrupted"


@contextlib.contextmanager
def ended_by_interrupt(line: str = LINE) -> Iterator[None]:
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
