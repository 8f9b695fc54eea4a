# SPDX-License-Identifier: Apache-2.0
"""The compilation with Collage that tvmc is about, seen by each of the functions that ours stand
before; and two of these: a model is imported quickly, and what fails is one line; Collage's options
are read as texts, of `--pass-config relay.collage.<name>=value` and `--collage-<name>`, of which
tvmc takes no bool, int, float or list. Test: tvmc/test_tvmc.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from tvm.target import Target

from ..errors import OptionError
from ..integration import OPTION
from ..messages.foreign import last_line
from ..options import PREFIX, option_table
from ..options.flags import parse_option
from ..tvm_fixes.apply import replace

LOGGER = logging.getLogger("TVMC")
_current: ContextVar[Compilation | None] = ContextVar("collage_tvmc", default=None)


@dataclasses.dataclass
class Compilation:
    """A compilation of tvmc's."""

    # Collage's options, as the PassContext takes them, besides those of --pass-config
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    backends: list[Target] = dataclasses.field(default_factory=list)  # the external targets
    # the library or executable, once it is, whose ``collage`` is what was decided
    built: Any = None


def current() -> Compilation | None:
    """Return the compilation under way in this thread; None where TVM's functions are to do as they
    always do."""
    return _current.get()


@contextlib.contextmanager
def under_way(compilation: Compilation) -> Iterator[Compilation]:
    """Make it the current one for the block."""
    token = _current.set(compilation)
    try:
        yield compilation
    finally:
        _current.reset(token)


def before(ours: Callable[..., Any]) -> Callable[[Callable], Callable]:
    """Make of a function that takes TVM's one, and what that is called with, what `replace` puts in
    its place."""

    def wrap(stock: Callable) -> Callable:
        @functools.wraps(stock)
        def called(*args: Any, **kwargs: Any) -> Any:
            return ours(stock, *args, **kwargs)

        return called

    return wrap


def wrap_pass_config(_module: Any) -> None:
    """Put ours before tvm.driver.tvmc.pass_config."""
    replace("tvmc options", _with_options)


def wrap_frontends(_module: Any) -> None:
    """Put ours before tvm.driver.tvmc.frontends."""
    replace("tvmc import", _with_errors)


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


@before
def _with_options(stock: Callable, input_configs: Sequence[str] | None) -> Any:
    ours = options_in(input_configs)
    theirs = [text for text in input_configs or () if text.partition("=")[0].strip() not in ours]
    config = stock(theirs)
    compilation = current()
    return {**config, **ours, **(compilation.config if compilation else {})}


@before
def _with_errors(stock: Callable, path: str, *args: Any, **kwargs: Any) -> Any:
    if current() is None:
        return stock(path, *args, **kwargs)
    from tvm.driver.tvmc import TVMCException

    from ..importer import quick_import

    try:
        with quick_import():
            return stock(path, *args, **kwargs)
    except TVMCException:
        raise
    except Exception as error:
        LOGGER.info("import of %s", path, exc_info=True)
        kind = type(error).__name__
        raise TVMCException(
            f"'{path}' cannot be imported: {kind}: {last_line(error)}; -vv shows where"
        ) from error
