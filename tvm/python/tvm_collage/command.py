# SPDX-License-Identifier: Apache-2.0
"""The script `collage`: the command line of `tvm.relay.collage`. Test: cli/test_cli.py."""

import contextlib
import sys
from collections.abc import Iterator

from tvm_collage_hook import INTERRUPTED

from .interrupt import LINE, ended_by_interrupt

# As long as the line of an interrupt, which may come in its place.
_LOADING = "collage: loading TVM"
# How arguments end by which nothing but results, or nothing but JSON, is to be told.
_UNTOLD = ("quiet", "json", "json-lines")


def main() -> int:
    """Run the command; its exit code. Ctrl-C while TVM is still imported is one line too."""
    try:
        return _run()
    except KeyboardInterrupt:
        print(LINE, file=sys.stderr)
        return INTERRUPTED


def _run() -> int:
    try:
        with ended_by_interrupt(), _loading():
            from tvm.relay.collage.cli import main as run
    except ModuleNotFoundError as error:
        if error.name != "tvm.relay.collage.cli":
            raise
        print("collage: tvm.relay.collage is TVM's own; unset COLLAGE_DISABLE", file=sys.stderr)
        return 1
    return int(run())


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """On a terminal a line for the seconds in which TVM is imported, gone when it is."""
    if not sys.stderr.isatty() or any(each.endswith(_UNTOLD) for each in sys.argv[1:]):
        yield
        return
    print(_LOADING, end="\r", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(" " * len(_LOADING), end="\r", file=sys.stderr, flush=True)
