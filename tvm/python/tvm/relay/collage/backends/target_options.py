# SPDX-License-Identifier: Apache-2.0
"""A backend's own options: `Target("<name> -option=value")`, typed by their defaults.

Values that are no defaults travel as the attribute TARGET_OPTIONS of the composites that were found
with them, in measuring, placements and deployment alike. So they are part of what a candidate is,
hence of its cost's key. Test: backends/test_target_options.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from ..relay_util.walk import nodes_of
from .interface import TARGET_OPTIONS, Backend

# By the type of the default; bool comes before int, since a bool is one.
_TYPES = ((bool, "bool"), (int, "int"), (str, "str"))


def check_options(backend: Backend) -> dict[str, str]:
    """Return the types of the backend's options by name.

    TypeError or ValueError, naming backend and option, for what can be none.
    """
    return {name: _type_name(backend, name) for name in backend.options}


def register_options(backend: Backend) -> None:
    """Make the backend's target kind, which exists, accept its options.

    ValueError for one that the kind has already, with another type or for something else.
    """
    types = check_options(backend)
    list_known = tvm.get_global_func("target.ListTargetKindOptionsFromName")
    known = dict(list_known(backend.name).items())
    for name, kind in types.items():
        key = f"{backend.name} -{name}"
        if name in known and _REGISTERED.get(key) != kind:
            has = _REGISTERED.get(key, "another meaning, for TVM")
            raise ValueError(
                f"backend {backend.name}: option {name!r} cannot be of type {kind}: the target "
                f"kind has one of that name already ({has}); take another name"
            )
        _REGISTERED[key] = kind
    tvm.get_global_func("collage.AddTargetOptions")(backend.name, types)


# A target kind's options stay for the life of the process: "<kind> -<option>" -> type.
_REGISTERED: dict[str, str] = {}


def options_of(backend: Backend, target: tvm.target.Target | None) -> dict[str, Any]:
    """Return the options that the target sets, of the types of their defaults."""
    attrs = {} if target is None else target.attrs
    return {
        name: type(default)(getattr(attrs[name], "value", attrs[name]))
        for name, default in backend.options.items()
        if name in attrs
    }


def options_in(function: relay.Function) -> Mapping[str, Any]:
    """Return the options with which a part's composites were found."""
    found: dict[str, Any] = {}
    for each in nodes_of(function, relay.Function):
        if each.attrs and TARGET_OPTIONS in each.attrs:
            found.update(json.loads(str(each.attrs[TARGET_OPTIONS])))
    return found


def _type_name(backend: Backend, name: object) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(
            f"backend {backend.name}: an option's name is letters, digits and _, not {name!r}"
        )
    default = backend.options[name]
    for kind, text in _TYPES:
        if isinstance(default, kind):
            return text
    raise TypeError(
        f"backend {backend.name}: the default of option {name!r} is a bool, an int or a str, "
        f"got {type(default).__name__}"
    )
