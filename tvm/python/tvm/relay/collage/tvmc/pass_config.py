# SPDX-License-Identifier: Apache-2.0
"""Collage's options as texts: of `--pass-config relay.collage.<name>=value` and `--collage-<name>`.

tvmc takes no bool, int, float or list of options that are not TVM's own. Test: tvmc/test_tvmc.py.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..errors import OptionError
from ..integration import OPTION
from ..options import PREFIX, option_table
from ..options.flags import parse_option
from ..tvm_fixes.apply import replace
from .compilation import current


def wrap(_module: Any) -> None:
    """Put ours before tvm.driver.tvmc.pass_config."""
    replace("tvmc options", _with_options)


def options_in(configs: Iterable[str] | None) -> dict[str, Any]:
    """Return the Collage options among texts "name=value" as a PassContext takes them; lists are
    joined.

    TVMCException names the option, what it takes and what it got.
    """
    rows = {PREFIX + row.name: row for row in option_table()}
    found: dict[str, Any] = {}
    for text in configs or ():
        key, has_value, value = (part.strip() for part in text.partition("="))
        if key in rows and has_value:
            with as_tvmc_errors():
                parsed = parse_option(rows[key], value, f"option {key}")
            found[key] = (
                found[key] + parsed if isinstance(parsed, list) and key in found else parsed
            )
    return found


def enables(config: dict[str, Any]) -> bool:
    """Return whether these options ask for Collage."""
    return bool(config.get(OPTION, False))


@contextlib.contextmanager
def as_tvmc_errors() -> Iterator[None]:
    """Raise an OptionError in the block as a TVMCException."""
    from tvm.driver.tvmc import TVMCException

    try:
        yield
    except OptionError as error:
        raise TVMCException(str(error)) from error


def _with_options(stock: Callable) -> Callable:
    @functools.wraps(stock)
    def parse_configs(input_configs: Sequence[str] | None) -> Any:
        ours = options_in(input_configs)
        theirs = [
            text for text in input_configs or () if text.partition("=")[0].strip() not in ours
        ]
        config = stock(theirs)
        compilation = current()
        return {**config, **ours, **(compilation.config if compilation else {})}

    return parse_configs
