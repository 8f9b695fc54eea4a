# SPDX-License-Identifier: Apache-2.0
"""The script `collage`: the command line of `tvm.relay.collage`. Test: cli/test_cli.py."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence

from tvm_collage_hook import INTERRUPTED

from .interrupt import LINE, ended_by_interrupt
from .supervisor import supervised

# Arguments by which nothing but results, or nothing but JSON, is to be told.
_UNTOLD = {"--quiet", "--json", "--json-lines", "--progress=quiet", "--progress=json"}
_UNTOLD_AS = {"quiet", "json"}


def main() -> int:
    """Run the command; its exit code. Ctrl-C while TVM is still imported is one line too, as is
    the end by a fault of native code."""
    _open_closed()
    try:
        return supervised(_run, _tell)
    except KeyboardInterrupt:
        print(LINE, file=sys.stderr)
        return INTERRUPTED


def _tell(text: str) -> None:
    """Print an error's line, as the command's own are told."""
    given = sys.argv[1:]
    if "--json" in given:
        print(json.dumps({"error": text, "kind": "NativeError"}))
    elif "--json-lines" in given:
        print(json.dumps({"kind": "error", "text": text}), file=sys.stderr)
    else:
        print(f"collage: {text}", file=sys.stderr)


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


def _open_closed() -> None:
    """Let what is told go nowhere where its stream was closed (2>&-): print() would take standard
    output for standard error, and a file that is opened later would get its number, by which C++
    writes."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """On a terminal a line for the seconds in which TVM is imported, gone when it is."""
    stream, given = sys.stderr, sys.argv[1:]
    if not stream.isatty() or _is_untold(given):
        yield
        return
    print("collage: loading TVM", end="", file=stream, flush=True)
    try:
        yield
    finally:
        print("\r\x1b[K", end="", file=stream, flush=True)


def _is_untold(given: Sequence[str]) -> bool:
    pairs = zip(given, given[1:], strict=False)
    return not _UNTOLD.isdisjoint(given) or any(
        flag == "--progress" and kind in _UNTOLD_AS for flag, kind in pairs
    )
