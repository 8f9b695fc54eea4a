# SPDX-License-Identifier: Apache-2.0
"""The command `collage`, also `python -m tvm.relay.collage`: its arguments, which are read without
TVM. What the commands do is in tvm.relay.collage.cli, which is imported to run one.

Exit codes: 0 done; 1 it cannot be done, or `check` found a fault; 2 wrong arguments; 130 Ctrl-C.
Test: collage/cli/test_cli.py.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence

from tvm_collage_hook import INTERRUPTED

from .. import __version__
from ..loading import quick_loading
from ..options import DEST
from ..supervisor import ended_by_interrupt
from . import commands as of
from .parser import Parser, line_of, progress_of
from .store import add_cache, add_store
from .transfer import add_tt

# As argparse has it.
WRONG_ARGUMENTS = 2
# From one dot to the next of a line that moves.
_STEP_SECONDS = 0.3

# Each adds the parser of a command, or of several.
_COMMANDS = (
    of.add_compile,
    of.add_check,
    of.add_run,
    of.add_report,
    of.add_explain,
    of.add_bench,
    of.add_doctor,
    of.add_backends,
    add_store,
    add_cache,
    add_tt,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default the process' own; its exit code."""
    return run(parse(arguments))


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line. SystemExit after help, and for wrong arguments."""
    parser = make_parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.exit(WRONG_ARGUMENTS, parser.format_help())
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> int:
    """Run a command with its parsed arguments; its exit code."""
    code = 0
    try:
        code = options.run(options) if callable(options.run) else _run_in_tvm(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _write_no_more()  # whoever reads has seen enough
        return 0
    except OSError as error:  # a full disk
        _write_no_more()
        where = error.filename or "standard output"
        text = f"{where}: {error.strerror}" if error.strerror else str(error)
        if not code:  # else the command has told its fault, of which this is what is kept back
            print(line_of(text, options), file=sys.stderr)
        return code or 1
    except KeyboardInterrupt:
        print(line_of("interrupted", options), file=sys.stderr)
        return INTERRUPTED


def _write_no_more() -> None:
    """Throw away what standard output keeps back: Python would complain once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_in_tvm(options: argparse.Namespace) -> int:
    try:
        with ended_by_interrupt(), _loading(options), quick_loading(_tunes(options)):
            from tvm.relay.collage.cli import run_command
    except ModuleNotFoundError as error:
        if error.name != "tvm.relay.collage.cli":
            raise
        print("collage: tvm.relay.collage is TVM's own; unset COLLAGE_DISABLE", file=sys.stderr)
        return 1
    return int(run_command(options))


def _tunes(options: argparse.Namespace) -> bool:
    """Return whether a command looks for schedules of TVM's kernels."""
    return bool(vars(options).get(f"{DEST}tune")) or options.run.startswith("tt.")


@contextlib.contextmanager
def _loading(options: argparse.Namespace) -> Iterator[None]:
    """On a terminal a line that moves while TVM is imported, gone when it is."""
    stream = sys.stderr
    is_untold = options.quiet or options.json or progress_of(options) in ("quiet", "json")
    if is_untold or not stream.isatty():
        yield
        return
    is_over = threading.Event()

    def tell() -> None:
        print("collage: loading TVM", end="", file=stream, flush=True)
        while not is_over.wait(_STEP_SECONDS):
            print(".", end="", file=stream, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()
        print("\r\x1b[K", end="", file=stream, flush=True)


def make_parser() -> Parser:
    parser = Parser(
        prog="collage",
        description="Compile a neural network so that each part of it runs on the backend that was "
        "measured fastest on this machine. First `collage compile MODEL -o LIB.so`, then `collage "
        "run LIB.so --time` and `collage explain LIB.so`.",
        epilog="Exit codes: 0 done; 1 it cannot be done, or a check found a fault; 2 wrong "
        "arguments; 130 Ctrl-C.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in _COMMANDS:
        add(commands)
    of.add_completion(commands, make_parser)
    leaves = [*leaves_of(parser)]
    for leaf in leaves:
        _add_common(leaf)
    having = collections.defaultdict(list)
    for leaf in leaves:
        for flag in leaf._option_string_actions:
            having[flag].append(leaf.prog)
        leaf.elsewhere = having  # so that each names the others that have what it lacks
    return parser


def _add_common(leaf: Parser) -> None:
    """Add what every command has."""
    flags = leaf._option_string_actions
    if "--json" not in flags:
        leaf.add_argument("--json", action="store_true", help="print JSON")
    help = "print neither progress nor, without --json, results"
    leaf.add_argument("--quiet", action="store_true", help=help)
    if progress := flags.get("--progress"):
        leaf.add_argument(
            "--json-lines",
            dest=progress.dest,
            action="store_const",
            const="json",
            help="progress, warnings and errors as lines of JSON: --progress json",
        )
    # Of commands whose output is for another program, not for people: it is never left out.
    leaf.set_defaults(gives_data=leaf.get_default("gives_data") or False)


def leaves_of(parser: Parser) -> Iterator[Parser]:
    """Yield the parsers of commands that have no commands below them, each once."""
    inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not inner:
        yield parser
    for action in inner:
        for child in action.choices.values():
            yield from leaves_of(child)
