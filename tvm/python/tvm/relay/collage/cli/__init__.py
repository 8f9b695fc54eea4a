# SPDX-License-Identifier: Apache-2.0
"""The commands of `collage`, by their arguments, which tvm_collage.cli reads; and how their errors
and warnings are told. Test: cli/test_cli.py.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator

import tvm
from tvm_collage.cli import WRONG_ARGUMENTS
from tvm_collage.cli.parser import is_json_lines, line_of

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

# Advice of TVM's, once a build, to tune what was not: `collage` says what is to be done.
_TVMS_LOGGERS = ("te_compiler", "autotvm")

# The variable by which a command that fails shows where in the code.
TRACEBACK = "COLLAGE_TRACEBACK"

# By these errors the command line itself is wrong: it names what there is not or cannot be. By
# their subclasses, as FileError, it is right, and what it names lacks something.
_OF_ARGUMENTS = {
    OptionError,
    ShapeError,
    UnknownPlanError,
    UnknownBackendError,
    BackendUnavailableError,
    HostTargetError,
}


def run_command(options: argparse.Namespace) -> int:
    """Run the function that `options.run` names in this folder; its exit code."""
    for name in _TVMS_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    if options.quiet and "progress" in options and not is_json_lines(options):
        options.progress = "quiet"
    is_silent = options.quiet and not (options.json or options.gives_data)
    module, _, function = options.run.rpartition(".")
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()) if is_silent else contextlib.nullcontext(),
            _warnings(options),
        ):
            run = getattr(importlib.import_module(f".{module}", __package__), function)
            code = int(run(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever is at fault, a command ends in one line
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        text = _text_of(error, options)
        if options.json:
            print(json.dumps({"error": text, "kind": type(error).__name__}), flush=True)
        else:
            print(line_of(text, options), file=sys.stderr)
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


def tell(options: argparse.Namespace, value: object, lines: Iterable[str]) -> None:
    """Print a command's answer: `value` as JSON if that is asked for, else the lines."""
    print(json.dumps(value, indent=1) if options.json else "\n".join(lines))


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
