# SPDX-License-Identifier: Apache-2.0
"""Keeps TVM's compile-time information at hand while kernels are scheduled.

TVM 0.19 asks for the whole table (a hundred FFI calls) for every dimension of every kernel's
output; the table is fixed when TVM is compiled.

Test: compile/test_library.py
"""

from __future__ import annotations

import contextlib
import functools

from tvm.relay.backend import te_compiler

from ..shared_patch import SharedPatch

_patch = SharedPatch.of_attribute(te_compiler, "libinfo", functools.lru_cache(maxsize=1))


def remembered_build_info() -> contextlib.AbstractContextManager[object]:
    """Context in which TVM's kernel compiler reads the table once."""
    return _patch.inside()
