# SPDX-License-Identifier: Apache-2.0
"""argparse's parser with errors of one line, each of the command that it is about, and with the
nearest name for what is misspelt; and the line of what goes wrong later. Test: cli/test_cli.py.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from ..errors import did_you_mean
from ..messages.progress import KINDS
from ..process_wide.logs import json_line

# What a parser's add_subparsers() gives: each command adds its own parser to it.
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
# Where the parsed arguments of a command have it, if it shows its progress.
_PROGRESS = ("progress", "collage_progress")
# Of the commands that have an option, those that are named.
_MOST_NAMED = 3


class Parser(argparse.ArgumentParser):
    """A parser whose commands have parsers of the same class."""

    reads = ""  # what the command's file is, told where an option of another command is given
    # commands by the options that they have and this one may not have
    elsewhere: Mapping[str, Sequence[str]] = MappingProxyType({})

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


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Add the progress flag to a command that works for more than a second, and does not have the
    options of Collage."""
    parser.add_argument(
        "--progress",
        choices=KINDS,
        default="auto",
        help="what is shown meanwhile: auto means rich on a terminal, else lines (default: auto)",
    )


def is_json_lines(options: argparse.Namespace) -> bool:
    """Return whether all of the command's standard error is JSON."""
    return any(getattr(options, name, None) == "json" for name in _PROGRESS)


def line_of(text: str, options: argparse.Namespace) -> str:
    """Return what went wrong, as the command tells it."""
    return json_line("error", text) if is_json_lines(options) else f"collage: {text}"
