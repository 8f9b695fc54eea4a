# SPDX-License-Identifier: Apache-2.0
"""Text files that are written at once or not at all. Test: placement/test_file.py."""

from __future__ import annotations

import contextlib
import os
import secrets


def write_whole(path: str, text: str) -> None:
    """Write the file; another process sees the old one or the whole new one. Raises OSError."""
    temporary = f"{path}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
