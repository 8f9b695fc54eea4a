# SPDX-License-Identifier: Apache-2.0
"""Names that are imported at their first use, since TVM imports us in every process.

Test: test_package.py.
"""

from __future__ import annotations

import functools
import importlib
import operator
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def lazy_attributes(
    package: str, submodules: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Return a module ``__getattr__``: ``submodules`` maps each name to its submodule, ``modules``
    each attribute that is a module itself to where it is."""

    def getattr_of_package(name: str) -> Any:
        if modules and name in modules:
            return importlib.import_module(f".{modules[name]}", package)
        if name not in submodules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{submodules[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return getattr_of_package


def show_in(package: ModuleType, submodules: Mapping[str, str]) -> None:
    """Have a lazy package show names of modules above it as well."""
    package._LAZY.update(submodules)
    package.__all__.extend(submodules)


def late_function(package: str, where: str) -> Callable[..., Any]:
    """Return a function that hands over to the one that "submodule:name" names, from its first call
    on."""
    module, _, name = where.partition(":")

    @functools.cache
    def found() -> Callable[..., Any]:
        return operator.attrgetter(name)(importlib.import_module(f".{module}", package))

    return lambda *args, **kwargs: found()(*args, **kwargs)
