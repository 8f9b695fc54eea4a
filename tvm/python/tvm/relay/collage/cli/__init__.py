# SPDX-License-Identifier: Apache-2.0
"""The command `collage`, also `python -m tvm.relay.collage`. Test: cli/test_cli.py.

Exit codes: 0 done; 1 it cannot be done, or `check` found a fault; 2 wrong arguments; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence

import tvm
import tvm_collage
from tvm_collage_hook import INTERRUPTED

from ..errors import (
    BackendUnavailableError,
    CollageError,
    HostTargetError,
    OptionError,
    ShapeError,
    UnknownBackendError,
    UnknownPlanError,
)
from ..messages.foreign import describe, last_line
from ..options.flags import as_flags
from ..process_wide.logs import LOGGER, JsonLineFormatter, OfCommand, ToStderr
from . import (
    backends,
    bench,
    cache,
    check,
    compile,
    completion,
    doctor,
    explain,
    report,
    run,
    store,
    tt,
)
from .parser import Parser, is_json_lines, line_of

# Each module's add_parser(commands) adds a parser whose default `run` takes the parsed arguments
# and returns the exit code.
_COMMANDS = (compile, check, run, report, explain, bench, doctor, backends, store, cache, tt)


# Advice of TVM's, once a build, to tune what was not: `collage` says what is to be done.
_TVMS_LOGGERS = ("te_compiler", "autotvm")

# The variable by which a command that fails shows where in the code.
TRACEBACK = "COLLAGE_TRACEBACK"

# As argparse has it. By these errors the command line itself is wrong: it names what there is not
# or cannot be. By their subclasses, as FileError, it is right, and what it names lacks something.
WRONG_ARGUMENTS = 2
_OF_ARGUMENTS = {
    OptionError,
    ShapeError,
    UnknownPlanError,
    UnknownBackendError,
    BackendUnavailableError,
    HostTargetError,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = make_parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        return WRONG_ARGUMENTS
    options = parser.parse_args(arguments)
    for name in _TVMS_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    if options.quiet and "progress" in options and not is_json_lines(options):
        options.progress = "quiet"
    is_silent = options.quiet and not (options.json or options.gives_data)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()) if is_silent else contextlib.nullcontext(),
            _warnings(options),
        ):
            code = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever reads has seen enough; Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        _say("interrupted", options)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever is at fault, a command ends in one line
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        text = _text_of(error, options)
        if options.json:
            print(json.dumps({"error": text, "kind": type(error).__name__}))
        else:
            _say(text, options)
        return WRONG_ARGUMENTS if type(error) in _OF_ARGUMENTS else 1


def _text_of(error: Exception, options: argparse.Namespace) -> str:
    """Return an error's one line; of the system's errors without Python's number of them."""
    if isinstance(error, CollageError):
        return as_flags(error.text, vars(options))
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    if isinstance(error, tvm.TVMError):
        return last_line(error)
    return (
        f"{describe(error)}: this is a fault of Collage or TVM and not of the command; set "
        f"{TRACEBACK}=1 to see where it is, and report it with the model"
    )


@contextlib.contextmanager
def _warnings(options: argparse.Namespace) -> Iterator[None]:
    """Keep our warnings from a quiet command; print them as JSON lines where progress is JSON."""
    ours, root = logging.getLogger(LOGGER), logging.getLogger()
    before = ours.level
    is_json = is_json_lines(options)
    logger = root if is_json else ours
    handler = ToStderr()
    handler.setFormatter(JsonLineFormatter() if is_json else OfCommand())
    if options.quiet:
        ours.setLevel(logging.ERROR)
    if is_json or not ours.hasHandlers():  # else the program that calls us has its own
        logger.addHandler(handler)
    if is_json:
        logging.captureWarnings(True)
    try:
        with warnings.catch_warnings():
            # TVM's importers warn of what then ends as an error of ours, or is mended.
            warnings.filterwarnings("ignore", module=r"tvm\.relay\.frontend\.")
            yield
    finally:
        ours.setLevel(before)
        logger.removeHandler(handler)
        if is_json:
            logging.captureWarnings(False)


def _say(text: str, options: argparse.Namespace) -> None:
    """Print a line on standard error."""
    print(line_of(text, options), file=sys.stderr)


def make_parser() -> Parser:
    parser = Parser(
        prog="collage",
        description="Compile a neural network so that each part of it runs on the backend that was "
        "measured fastest on this machine. First `collage compile MODEL -o LIB.so`, then `collage "
        "run LIB.so --time` and `collage explain LIB.so`.",
        epilog="Exit codes: 0 done; 1 it cannot be done, or a check found a fault; 2 wrong "
        "arguments; 130 Ctrl-C.",
    )
    parser.add_argument("--version", action="version", version=tvm_collage.__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    completion.add_parser(commands, make_parser)
    for leaf in _leaves(parser):
        leaf.add_argument(
            "--quiet",
            action="store_true",
            help="print neither progress nor, without --json, results",
        )
        _add_json_lines(leaf)
        # Of commands whose output is for another program, not for people: it is never left out.
        leaf.set_defaults(gives_data=leaf.get_default("gives_data") or False)
    _tell_of_each_other([*_leaves(parser)])
    return parser


def _tell_of_each_other(leaves: Sequence[Parser]) -> None:
    """Make each command name the others that have an option which it lacks."""
    having = collections.defaultdict(list)
    for leaf in leaves:
        for flag in leaf._option_string_actions:
            having[flag].append(leaf.prog)
    for leaf in leaves:
        leaf.elsewhere = having


def _add_json_lines(leaf: argparse.ArgumentParser) -> None:
    """Add the flag of JSON lines to a command that shows its progress."""
    progress = leaf._option_string_actions.get("--progress")
    if progress is not None:
        leaf.add_argument(
            "--json-lines",
            dest=progress.dest,
            action="store_const",
            const="json",
            help="progress, warnings and errors as lines of JSON: --progress json",
        )


def _leaves(parser: Parser) -> Iterator[Parser]:
    """Yield the parsers of commands that have no commands below them, each once."""
    inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not inner:
        yield parser
    for action in inner:
        for child in action.choices.values():
            yield from _leaves(child)
