# SPDX-License-Identifier: Apache-2.0
"""Values of Collage's options given as flags (tvm_collage/options.py), and as texts.

Test: cli/test_compile.py, tvmc/test_tvmc.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Container
from typing import Any

from tvm_collage.options import DEST, Option, flag, flag_rows

from ..errors import OptionError
from . import PREFIX, check_options
from .named import OptionName, OptionText

_BOOLS = {"0": False, "1": True, "false": False, "true": True}


def given_flags(args: argparse.Namespace, prefix: str) -> list[str]:
    """Return the flags that were given, as the user writes them."""
    return [flag(prefix, row.name) for row in flag_rows() if _value(args, row) is not None]


def values_of(args: argparse.Namespace, prefix: str) -> dict[str, Any]:
    """Return the options that were given, by name. OptionError names the flag, what it takes and
    what it got."""
    found = {}
    for row in flag_rows():
        value = _value(args, row)
        if value is not None:
            is_list = isinstance(row.default, list)
            values = value if is_list and isinstance(value, list) else [value]
            parsed = [parse_option(row, each, flag(prefix, row.name)) for each in values]
            found[row.name] = sum(parsed, []) if is_list else parsed[0]
    return found


def parse_option(row: Option, value: object, called: str) -> Any:
    """Read a text, or a value of a file, as the option's own type, checked. OptionError, with the
    option `called` as the user wrote it."""
    key = PREFIX + row.name
    try:
        parsed = _typed(row, value) if isinstance(value, str) else value
    except ValueError:
        raise OptionError(f"{called} takes {row.takes}, got {value!r}") from None
    try:
        check_options({key: parsed})
    except (TypeError, ValueError) as error:
        text: OptionText = error.args[0]
        raise OptionError(text.with_options(lambda _: called)) from None
    return parsed


def as_flags(text: str, given: Container[str]) -> str:
    """Return an error's text with the options that it names as the flags of a command, which are
    among the names of its parsed arguments."""

    def called(option: OptionName) -> str:
        if option.name not in given and f"{DEST}{option.name}" not in given:
            return option.written
        return f"{flag('', option.name)} {option.value}".rstrip()

    return text.with_options(called) if isinstance(text, OptionText) else text


def _value(args: argparse.Namespace, row: Option) -> Any:
    """Return what was given; None for nothing."""
    return getattr(args, f"{DEST}{row.name}", None)


def _typed(row: Option, text: str) -> Any:
    """Return the text as a value of the default's type; ValueError when it is none."""
    if isinstance(row.default, bool):
        if text.lower() not in _BOOLS:
            raise ValueError(text)
        return _BOOLS[text.lower()]
    if isinstance(row.default, list):
        return [item for item in map(str.strip, text.split(",")) if item]
    return type(row.default)(text)
