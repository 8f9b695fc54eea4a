# SPDX-License-Identifier: Apache-2.0
"""A report at the end of a library's file, where the loader of shared libraries does not look: so
it goes wherever the library is copied. Test: test_loaded.py.

The report as compressed JSON, its length in eight bytes, and a mark, which are the file's last.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from typing import Any

from .files import parse_json

_MARK = b"tvm-collage report 1"
_TAIL = struct.Struct(f"<Q{len(_MARK)}s")
# A report of a net of 10,000 nodes has some 50 MB: more is none of ours.
_MOST_BYTES = 1 << 30


def attach_report(path: str | os.PathLike, report: dict[str, Any]) -> None:
    """Append it to a file that has none yet. OSError."""
    packed = zlib.compress(json.dumps(report, allow_nan=False).encode(), 6)
    with open(path, "ab") as file:
        file.write(packed + _TAIL.pack(len(packed), _MARK))


def attached_report(path: str | os.PathLike) -> dict[str, Any] | None:
    """What was attached to the file; None where nothing was. OSError, ValueError for a report that
    is damaged."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < _TAIL.size:
            return None
        file.seek(size - _TAIL.size)
        length, mark = _TAIL.unpack(file.read(_TAIL.size))
        if mark != _MARK:
            return None
        if length > size - _TAIL.size:
            raise ValueError(f"the report at the end of {os.fspath(path)!r} is cut off")
        file.seek(size - _TAIL.size - length)
        unpack = zlib.decompressobj()
        try:
            text = unpack.decompress(file.read(length), _MOST_BYTES)
            if not unpack.eof:
                raise ValueError("it is cut off")
            return parse_json(text)
        except (ValueError, zlib.error) as error:
            raise ValueError(
                f"the report at the end of {os.fspath(path)!r} is damaged: {error}"
            ) from error
