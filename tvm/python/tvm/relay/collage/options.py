# SPDX-License-Identifier: Apache-2.0
"""Collage's options in Python, as the C++ table has them. Test: test_options.py."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, NamedTuple

import tvm
from tvm._ffi import get_global_func

PREFIX = "relay.collage."


class Option(NamedTuple):
    """A row of the table; takes: what values it takes, as errors say it."""

    name: str
    default: Any
    meaning: str
    takes: str


def option_table() -> list[Option]:
    """Return the rows in the order of the C++ table (api/options.h)."""
    return [Option(**row) for row in json.loads(get_global_func("collage.OptionTable")())]


def _plain(value: Any) -> Any:
    if isinstance(value, tvm.ir.container.Array):
        return [str(item) for item in value]
    if isinstance(value, tvm.runtime.String):
        return str(value)
    return getattr(value, "value", value)


def check_options(config: Any) -> None:
    """Raise what is wrong with the options of a PassContext's config, or of what is to be one.

    TypeError or ValueError that names the first such option, what it takes and what it got.
    """
    get_global_func("collage.CheckOptions")(config)


def _field(name: str, default: Any) -> Any:
    if isinstance(default, list):
        return (name, list, dataclasses.field(default_factory=lambda: list(default)))
    return (name, type(default), dataclasses.field(default=default))


def _to_config(self: Any) -> dict[str, Any]:
    """Return the options as a PassContext's config: {"relay.collage.<name>": value}."""
    return {PREFIX + field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def _current(cls: Any) -> Any:
    """Return the options of the innermost PassContext, defaults where it sets none.

    ValueError names an option whose value is out of its range.
    """
    config = tvm.transform.PassContext.current().config
    check_options(config)
    names = [field.name for field in dataclasses.fields(cls)]
    return cls(**{name: _plain(config[PREFIX + name]) for name in names if PREFIX + name in config})


# Any: mypy cannot know the fields that C++ names.
CollageOptions: Any = dataclasses.make_dataclass(
    "CollageOptions",
    [_field(option.name, option.default) for option in option_table()],
    namespace={
        "__doc__": "Options of Collage, one field a row of the C++ table:\n\n"
        + "\n".join(f"{row.name} = {row.default!r}: {row.meaning}" for row in option_table()),
        "to_config": _to_config,
        "current": classmethod(_current),
    },
    kw_only=True,
)
