# SPDX-License-Identifier: Apache-2.0
"""Functions named by text, so that what crosses to a worker is never code.

Test: exec/test_pool.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def resolve(path: str) -> Callable:
    """Return the callable that "package.module:name" names; ValueError that names the path
    otherwise."""
    module, separator, name = path.partition(":")
    if not separator:
        raise ValueError(f"{path!r} is not of the form 'package.module:name'")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{path!r} cannot be imported in the worker: {error}") from error
    if not callable(found):
        raise ValueError(f"{path!r} is not callable")
    return found


def path_of(function: Callable) -> str:
    """Return the text that resolve() turns back into a module-level function."""
    return f"{function.__module__}:{function.__qualname__}"


def call_of(function: Callable | str, /, **arguments: Any) -> dict[str, Any]:
    """Return what a worker's command "call" takes, for a module-level function or its path."""
    path = function if isinstance(function, str) else path_of(function)
    return {"function": path, "arguments": arguments}
