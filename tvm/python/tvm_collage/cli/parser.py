# SPDX-License-Identifier: Apache-2.0
"""argparse's parser with errors of one line, each of the command that it is about, and with the
nearest name for what is misspelt; arguments of many commands; and the line of what goes wrong
later. Test: collage/cli/test_cli.py.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from ..words import PROGRESS, did_you_mean, json_line

# What a parser's add_subparsers() gives: each command adds its own parser to it.
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
# Of the commands that have an option, those that are named.
_MOST_NAMED = 3


class Parser(argparse.ArgumentParser):
    """A parser whose commands have parsers of the same class."""

    reads = ""  # what the command's file is, told where an option of another command is given
    # commands by the options that they have and this one may not have
    elsewhere: Mapping[str, Sequence[str]] = MappingProxyType({})
    # what is wrong with arguments together; "" where nothing is
    why_wrong: Callable[[argparse.Namespace], str] = staticmethod(lambda _: "")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see `{self.prog} --help`)\n")

    def parse_known_args(
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse as argparse does, which leaves what it does not know to the parser above; ask for
        what is missing first: an error here."""
        args = sys.argv[1:] if args is None else list(args)
        self._check_flags(args)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        if reason := self.why_wrong(found):
            self.error(reason)
        return found, unknown

    def _check_flags(self, args: Sequence[str]) -> None:
        """Check that each --flag, those of a command excepted, is one or begins one."""
        known = self._option_string_actions
        own: Iterable[str] = itertools.takewhile(lambda arg: arg != "--", args)
        if self._subparsers is not None:
            own = itertools.takewhile(lambda arg: arg.startswith("-"), own)
        for arg in own:
            name = arg.partition("=")[0]
            is_flag = name.startswith("--") and " " not in name
            if is_flag and not any(flag.startswith(name) for flag in known):
                self.error(f"unrecognized option {name}{self._instead_of(name)}")

    def _instead_of(self, name: str) -> str:
        """Return what may have been meant by an option that the command does not have."""
        if name not in self.elsewhere:
            return did_you_mean(name, self._option_string_actions)
        having = self.elsewhere[name]
        named = [f"`{command}`" for command in having[:_MOST_NAMED]]
        if len(having) > _MOST_NAMED:
            named.append("others")
        commands = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
        reads = self.reads and f"; {self.prog} reads {self.reads}"
        return f", which belongs to {commands}{reads}"

    def _check_value(self, action: argparse.Action, value: object) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(str(value), map(str, action.choices or ()))
            raise


def add_command(
    commands: Commands, name: str, run: str | Callable[[argparse.Namespace], int], help: str
) -> Parser:
    """Add a command; `run` is its function, or "module.function" in tvm.relay.collage.cli, which
    takes the parsed arguments and returns the exit code."""
    parser = commands.add_parser(name, help=help, description=help)
    parser.set_defaults(run=run)
    return parser


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Add the progress flag to a command that works for more than a second, and does not have the
    options of Collage."""
    parser.add_argument(
        "--progress",
        choices=PROGRESS,
        default="auto",
        help="what is shown meanwhile: auto means rich on a terminal, else lines (default: auto)",
    )


def add_shape(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shape",
        metavar="INPUT=DIMS",
        type=_shape,
        action="append",
        default=[],
        help="sizes of an input that the model leaves open, as x=1,3,224,224",
    )


def add_output(parser: argparse.ArgumentParser, metavar: str, help: str, **how: Any) -> None:
    """Add the option for what a command writes, which must be given unless `how` says otherwise."""
    how = {"type": Path, "required": True, **how}
    parser.add_argument("--output", "-o", metavar=metavar, help=help, **how)


def add_count(parser: argparse.ArgumentParser, flag: str, help: str, **how: Any) -> None:
    """Add an option that takes a number of 1 or more; its default, if it has one, is told."""
    default = how.get("default")
    help += "" if default is None else f" (default: {default})"
    parser.add_argument(flag, help=help, **{"type": positive, "metavar": "N", **how})


def is_json_lines(options: argparse.Namespace) -> bool:
    """Return whether all of the command's standard error is JSON."""
    return progress_of(options) == "json"


def progress_of(options: argparse.Namespace) -> str:
    """Return the kind of progress that is asked for; "" of a command that shows none."""
    given = vars(options)
    return given.get("progress") or given.get("collage_progress") or ""


def line_of(text: str, options: argparse.Namespace) -> str:
    """Return what went wrong, as the command tells it."""
    return json_line("error", text) if is_json_lines(options) else f"collage: {text}"


def seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds above 0")
    return number


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _shape(text: str) -> tuple[str, list[int]]:
    name, equals, dims = text.rpartition("=")
    try:
        sizes = [int(dim) for dim in dims.split(",")] if name and equals else []
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no INPUT=DIMS with sizes of 1 or more, as x=1,3,224,224"
        )
    return name, sizes
