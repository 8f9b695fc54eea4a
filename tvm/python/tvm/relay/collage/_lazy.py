# SPDX-License-Identifier: Apache-2.0
"""Names that are imported at their first use, since TVM imports us in every process.

Test: test_package.py.
"""

import functools
import importlib
import operator
import sys


def lazy_attributes(package, submodules, modules=()):
    """Return a module ``__getattr__``: ``submodules`` maps each name to its submodule; ``modules``
    are submodules that are attributes themselves."""

    def getattr_of_package(name):
        if name in modules:
            return importlib.import_module(f".{name}", package)
        if name not in submodules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{submodules[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return getattr_of_package


def late_function(package, where):
    """Return a function that hands over to the one that "submodule:name" names, from its first call
    on."""
    module, _, name = where.partition(":")

    @functools.cache
    def found():
        return operator.attrgetter(name)(importlib.import_module(f".{module}", package))

    return lambda *args, **kwargs: found()(*args, **kwargs)
