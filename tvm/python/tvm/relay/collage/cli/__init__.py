# SPDX-License-Identifier: Apache-2.0
"""The command `collage`, also `python -m tvm.relay.collage`. Test: cli/test_cli.py.

Exit codes: 0 done; 1 it cannot be done, or `check` found a fault; 2 wrong arguments; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence

import tvm
import tvm_collage

from ..errors import CollageError
from ..messages import last_line
from ..option_flags import as_flags
from . import (
    backends,
    bench,
    cache,
    compile,
    completion,
    doctor,
    explain,
    report,
    run,
    store,
    tt,
)
from .parser import Parser

# Each module's add_parser(commands) adds a parser whose default `run` takes the parsed arguments
# and returns the exit code.
_COMMANDS = (compile, run, report, explain, bench, doctor, backends, store, cache, tt)


# Advice of TVM's, once a build, to tune what was not: `collage` says what is to be done.
_TVMS_LOGGERS = ("te_compiler", "autotvm")

INTERRUPTED = 130  # as shells have it for Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    options = make_parser().parse_args(arguments)
    for name in _TVMS_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    is_silent = options.quiet and not (options.json or options.gives_data)
    try:
        with contextlib.redirect_stdout(io.StringIO()) if is_silent else contextlib.nullcontext():
            code = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever reads has seen enough; Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("collage: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (CollageError, OSError, tvm.TVMError) as error:
        if isinstance(error, CollageError):
            text = as_flags(error.text, vars(options))
        else:
            text = str(error) if isinstance(error, OSError) else last_line(error)
        if options.json:
            print(json.dumps({"error": text, "kind": type(error).__name__}))
        else:
            print(f"collage: {text}", file=sys.stderr)
        return 1


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="collage",
        description="Collage for TVM: each part of a model on the backend measured fastest.",
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
        # Of commands whose output is for another program, not for people: it is never left out.
        leaf.set_defaults(gives_data=leaf.get_default("gives_data") or False)
    return parser


def _leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of commands that have no commands below them, each once."""
    inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not inner:
        yield parser
    for action in inner:
        for child in action.choices.values():
            yield from _leaves(child)
