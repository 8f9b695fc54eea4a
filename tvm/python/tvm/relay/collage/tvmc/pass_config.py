# SPDX-License-Identifier: Apache-2.0
"""Collage's options as texts: of `--pass-config relay.collage.<name>=value` and `--collage-<name>`.

tvmc takes no bool, int, float or list of options that are not TVM's own. Test: tvmc/test_tvmc.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from ..integration import OPTION
from ..options import PREFIX, Option, check_options, option_table
from .compilation import current

_BOOLS = {"0": False, "1": True, "false": False, "true": True}


def wrap(module: Any) -> None:
    """Put ours before tvm.driver.tvmc.pass_config."""
    module.parse_configs = _with_options(module.parse_configs)


def options_in(configs: Iterable[str] | None) -> dict[str, Any]:
    """The Collage options among texts "name=value" as a PassContext takes them; lists are joined.

    TVMCException names the option, what it takes and what it got.
    """
    rows = {PREFIX + row.name: row for row in option_table()}
    found: dict[str, Any] = {}
    for text in configs or ():
        key, has_value, value = (part.strip() for part in text.partition("="))
        if key in rows and has_value:
            parsed = parse_option(rows[key], value, f"option {key}")
            found[key] = (
                found[key] + parsed if isinstance(parsed, list) and key in found else parsed
            )
    return found


def enables(config: dict[str, Any]) -> bool:
    """Whether these options ask for Collage."""
    return bool(config.get(OPTION, False))


def parse_option(row: Option, value: Any, called: str) -> Any:
    """A text, or the value in a file of tvmc's --config, as the option's own type, checked.

    TVMCException as options_in, with the option `called` as the user wrote it.
    """
    from tvm.driver.tvmc import TVMCException

    key = PREFIX + row.name
    try:
        parsed = _typed(row, value) if isinstance(value, str) else value
    except ValueError as error:
        raise TVMCException(f"{called} takes {row.takes}, got {value!r}") from error
    try:
        check_options({key: parsed})
    except (TypeError, ValueError) as error:
        raise TVMCException(str(error).replace(f"option {key}", called)) from error
    return parsed


def _typed(row: Option, text: str) -> Any:
    """The text as a value of the default's type; ValueError when it is none."""
    if isinstance(row.default, bool):
        if text.lower() not in _BOOLS:
            raise ValueError(text)
        return _BOOLS[text.lower()]
    if isinstance(row.default, list):
        return [item for item in map(str.strip, text.split(",")) if item]
    return type(row.default)(text)


def _with_options(stock: Callable) -> Callable:
    @functools.wraps(stock)
    def parse_configs(input_configs: Any) -> Any:
        ours = options_in(input_configs)
        theirs = [
            text for text in input_configs or () if text.partition("=")[0].strip() not in ours
        ]
        config = stock(theirs)
        compilation = current()
        return {**config, **ours, **(compilation.config if compilation else {})}

    return parse_configs
