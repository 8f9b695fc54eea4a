# SPDX-License-Identifier: Apache-2.0
"""Keeps TVM's compile-time information at hand while kernels are scheduled.

TVM 0.19 asks for the whole table (a hundred FFI calls) for every dimension of every kernel's
output; the table is fixed when TVM is compiled.

Test: tests/python/collage/test_build_library.py
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from tvm.relay.backend import te_compiler


@contextlib.contextmanager
def remembered_build_info() -> Iterator[None]:
    """Context in which TVM's kernel compiler reads the table once."""
    original = getattr(te_compiler, "libinfo", None)
    if original is None:
        yield
        return
    te_compiler.libinfo = functools.lru_cache(maxsize=1)(original)
    try:
        yield
    finally:
        te_compiler.libinfo = original
