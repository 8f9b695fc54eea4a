# SPDX-License-Identifier: Apache-2.0
"""Which functions of a module are a backend's. Test: test_build_library.py."""

from typing import Any

from tvm import relay


def is_external_function(function: Any) -> bool:
    """Whether a module's function is compiled by a backend rather than by TVM."""
    return isinstance(function, relay.Function) and "Compiler" in (function.attrs or {})
