# SPDX-License-Identifier: Apache-2.0
"""Tries damaged data in a process that may die of it, and says which did."""

import os
import resource
import signal
import tempfile
import traceback
from pathlib import Path

import numpy as np

SECONDS = 20  # that one change may take
BYTES = 4 << 30  # of address space: what asks for more gets an error


def survive(attempt, changes):
    """Try changes in a process of its own; the one that ends it and how, or None."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _limit_address_space()
            for change in changes:
                os.write(write, b".")
                signal.alarm(SECONDS)
                try:
                    attempt(change)
                except UnicodeDecodeError:
                    raise  # no answer: the error could not be read
                except Exception:  # noqa: BLE001 - any other is one
                    pass
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a forked process must not go on
            traceback.print_exc()
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as tried:
        count = len(tried.read())
    _, status = os.waitpid(child, 0)
    return None if status == 0 else (changes[count - 1], status)


def _limit_address_space():
    """But under the address sanitizer, which takes terabytes for itself and has its own limit."""
    if "ASAN_OPTIONS" not in os.environ:
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def fatal_change(library, changes):
    """The change of a library's file, [place, bytes in hexadecimal], that ends a process which
    loads and runs it, and how; or None. For a process that has not run kernels."""
    whole = Path(library).read_bytes()

    def load_and_run(change):
        from tvm_collage.runner import load_runner

        place, text = change
        there = bytes.fromhex(text)
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(whole[:place] + there + whole[place + len(there) :])
            file.flush()
            runner = load_runner(file.name)
            runner({item.name: np.ones(item.shape, item.dtype) for item in runner.inputs})

    return survive(load_and_run, changes)
