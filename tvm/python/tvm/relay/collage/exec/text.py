# SPDX-License-Identifier: Apache-2.0
"""An exception in one line, for people. Test: timing/test_timing.py."""

from __future__ import annotations


def describe(error: BaseException) -> str:
    """The telling line of an exception: TVM's carry a long C++ stack before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    if not lines:
        return kind
    telling = lines[-1] if "Traceback" in lines[0] else lines[0]
    return (telling if telling.startswith(kind) else f"{kind}: {telling}")[:500]
