# SPDX-License-Identifier: Apache-2.0
"""Public names of a package that are imported at their first use. Test: test_collage_package.py."""

import importlib
import sys


def lazy_attributes(package, submodules):
    """Return a module ``__getattr__``: ``submodules`` maps each name to its submodule."""

    def getattr_of_package(name):
        if name not in submodules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{submodules[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return getattr_of_package
