# SPDX-License-Identifier: Apache-2.0
"""What is a backend's and what is TVM's: targets, functions, names in reports and costs.

Test: compile/test_library.py, backends/test_target_kind.py.
"""

from __future__ import annotations

from typing import Any

from tvm import relay
from tvm._ffi import get_global_func

# The backend, in candidates, costs and reports, of what TVM compiles itself.
TVM_BACKEND = "tvm"
# Not TVM_BACKEND: a layout transform alone is all border.
TRANSITION = "transition"
# Stands for a backend in the costs of whole plans.
WHOLE_PLAN = "plan"


def is_external(target: Any) -> bool:
    """Tell whether a backend with its own compiler serves the target, rather than TVM."""
    return bool(get_global_func("collage.IsExternalKind")(target.kind))


def is_external_function(function: Any) -> bool:
    """Whether a module's function is compiled by a backend rather than by TVM."""
    return isinstance(function, relay.Function) and "Compiler" in (function.attrs or {})
