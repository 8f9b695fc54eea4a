# SPDX-License-Identifier: Apache-2.0
"""Collage's options in Python: the C++ table's names, types and defaults. Test: test_options.py."""

import dataclasses

import tvm
from tvm._ffi import get_global_func

PREFIX = "relay.collage."


def option_table():
    """Return [(name, default, meaning), ...] in the order of the C++ table (ffi/options.h)."""
    rows = get_global_func("collage.OptionTable")()
    return [(str(name), _plain(default), str(text)) for name, default, text in rows]


def _plain(value):
    if isinstance(value, tvm.ir.container.Array):
        return [str(item) for item in value]
    if isinstance(value, tvm.runtime.String):
        return str(value)
    return getattr(value, "value", value)


def _at_least(least):
    return lambda value: value >= least, f"an int >= {least}"


def _more_than_zero():
    return lambda value: value > 0, "a number > 0"


def _one_of(*names):
    return lambda value: value in names, "one of " + ", ".join(names)


# Option -> (is a value of its type allowed?, what is).
_RANGES = {
    "tvm_max_depth": _at_least(1),
    "byoc_max_depth": _at_least(1),
    "max_candidates_per_node": _at_least(1),
    "guard_rounds": _at_least(1),
    "measure_seconds": _more_than_zero(),
    "measure_timeout": _more_than_zero(),
    "workers": _at_least(0),
    "seed": _at_least(0),
    "progress": _one_of("auto", "rich", "quiet", "json"),
}


def check_options(options):
    """Raise a ValueError that names the first option whose value is out of its range."""
    for name, (is_allowed, takes) in _RANGES.items():
        value = getattr(options, name)
        if not is_allowed(value):
            raise ValueError(f"option {PREFIX}{name} takes {takes}, got {value!r}")


def _field(name, default):
    if isinstance(default, list):
        return (name, list, dataclasses.field(default_factory=lambda: list(default)))
    return (name, type(default), dataclasses.field(default=default))


def _to_config(self):
    """Return the options as a PassContext's config: {"relay.collage.<name>": value}."""
    return {PREFIX + field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def _current(cls):
    """Return the options of the innermost PassContext, defaults where it sets none."""
    config = tvm.transform.PassContext.current().config
    names = [field.name for field in dataclasses.fields(cls)]
    return cls(**{name: _plain(config[PREFIX + name]) for name in names if PREFIX + name in config})


CollageOptions = dataclasses.make_dataclass(
    "CollageOptions",
    [_field(name, default) for name, default, _ in option_table()],
    namespace={
        "__doc__": "Options of Collage, one field a row of the C++ table:\n\n"
        + "\n".join(f"{name} = {value!r}: {text}" for name, value, text in option_table()),
        "to_config": _to_config,
        "current": classmethod(_current),
    },
    kw_only=True,
)
