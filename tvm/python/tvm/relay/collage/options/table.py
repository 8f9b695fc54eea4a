# SPDX-License-Identifier: Apache-2.0
"""Collage's options as a PassContext has them: read, checked, and made known to TVM.

It is read in every process that imports TVM, since a PassContext takes no option that it does not
know. The table is tvm_collage/options.py. Test: options/test_table.py.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import tvm
from tvm._ffi import get_global_func
from tvm_collage.options import TYPES, OptionTable, option_table
from tvm_collage.words import Effort, did_you_mean, nearest

from ..process_wide.interrupts import carried
from .groups import (
    CandidateOptions,
    DeviceOptions,
    GraphSearchOptions,
    Group,
    GuardOptions,
    MeasuringOptions,
    PassOptions,
    SearchOptions,
    SessionOptions,
    StoreOptions,
    TuningOptions,
)
from .named import option

PREFIX = "relay.collage."


@dataclasses.dataclass(kw_only=True)
class CollageOptions(OptionTable):
    of_pass = Group(PassOptions)
    searching = Group(SearchOptions)
    candidates = Group(CandidateOptions)
    session = Group(SessionOptions)
    measuring = Group(MeasuringOptions)
    storing = Group(StoreOptions)
    devices = Group(DeviceOptions)
    tuning = Group(TuningOptions)
    guarding = Group(GuardOptions)
    graph_searching = Group(GraphSearchOptions)

    def __post_init__(self) -> None:
        """TypeError or ValueError of check_options; values become plain ones, and the effort a
        word that its readers can compare by its name."""
        vars(self).update(check_options(self.to_config()))
        self.effort = Effort(self.effort)

    def to_config(self) -> dict[str, Any]:
        """Return the options as a PassContext's config: {"relay.collage.<name>": value}."""
        return {PREFIX + name: value for name, value in vars(self).items()}

    def __new__(cls, **options: Any) -> CollageOptions:
        """TypeError for what is no option."""
        for name in options:
            if name not in cls.__dataclass_fields__:
                near = did_you_mean(name, cls.__dataclass_fields__)
                hint = near or ": docs/options.md lists them"
                raise TypeError(f"there is no option {name!r}{hint}")
        return super().__new__(cls)

    @classmethod
    def current(cls) -> CollageOptions:
        """Return the options of the innermost PassContext, defaults where it sets none.

        For what TVM, C++ or a user's rule calls, and for the ways in of a build, alone: the rest is
        handed the group that it needs (options/test_groups.py lists who calls it). ValueError names
        an option whose value is out of its range.
        """
        config = tvm.transform.PassContext.current().config
        return cls(**{field.name: config[key] for key, field in _FIELDS.items() if key in config})


# By the type of an option's default: TVM's box of its values.
_BOXES = {
    bool: "runtime.BoxBool",
    int: "runtime.BoxInt",
    float: "runtime.BoxFloat",
    str: "runtime.String",
    list: "Array",
}
_FIELDS = {PREFIX + field.name: field for field in dataclasses.fields(OptionTable)}
_DEFAULTS = {PREFIX + row.name: row.default for row in option_table()}

CollageOptions.__doc__ = "Options of Collage, one field a row of the table:\n\n" + "\n".join(
    f"{row.name} = {row.default!r}: {row.meaning}" for row in option_table()
)


def check_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return Collage's options of a PassContext's config, or of what is to be one, as plain values.

    TypeError or ValueError that names the first option with a wrong value, what it takes and what
    it got.
    """
    return {
        field.name: _checked(key, field, config[key])
        for key, field in _FIELDS.items()
        if key in config
    }


def _checked(key: str, field: dataclasses.Field[Any], value: object) -> Any:
    plain, values = _typed(key, value), field.metadata["values"]
    if values and not values.holds(plain):
        raise ValueError(option(field.name) + f" takes {values.takes}, got {plain!r}")
    return plain


def _typed(key: str, value: object) -> Any:
    """Return the value as one of the option's type; TypeError."""
    kind, plain = type(_DEFAULTS[key]), _plain(value)
    if kind is float and type(plain) is int:
        plain = float(plain)
    is_of_kind = type(plain) is kind
    if is_of_kind and kind is list:
        is_of_kind = all(type(item) is str for item in plain)
    if not is_of_kind:
        is_plain = plain is None or type(plain) in TYPES
        shown = repr(plain) if is_plain else f"a {type(plain).__name__}"
        takes = f" takes {TYPES[kind]}, got {shown}"
        raise TypeError(option(_FIELDS[key].name) + takes)
    return plain


def _plain(value: object) -> Any:
    if isinstance(value, (list, tuple, tvm.ir.container.Array)):
        return [_plain(item) for item in value]
    if isinstance(value, tvm.tir.IntImm):  # as older scripts pass it
        return bool(value.value) if value.dtype == "bool" else int(value.value)
    if isinstance(value, Integral):
        return value if isinstance(value, bool) else int(value)
    if isinstance(value, Real):
        return float(value)
    return str(value) if isinstance(value, str) else value


def unknown_option(config: Mapping[str, Any] | None) -> str:
    """Return what to say of the first key of a PassContext's config that is called as an option of
    Collage, and is none; "" where there is no such key."""
    for key in config or ():
        if str(key).startswith(PREFIX) and key not in _FIELDS:
            near = nearest(key, _FIELDS)
            hint = f"did you mean {near}?" if near else "docs/options.md lists those there are"
            return f"there is no option {key}: {hint}"
    return ""


@carried
def _check_type(key: str, value: object) -> None:
    _typed(str(key), value)


def register() -> None:
    """Make PassContexts take the options: a value of a wrong type is then a TypeError.

    Those that TVM, or a second copy of Collage, registered before are left as they are.
    """
    boxes = {key: _BOXES[type(default)] for key, default in _DEFAULTS.items()}
    get_global_func("collage.RegisterOptions")(boxes, _check_type)


def pass_options() -> str:
    """Return the current options that the pass itself reads, as JSON of PassOptions for C++."""
    return json.dumps(dataclasses.asdict(CollageOptions.current().of_pass))
