# SPDX-License-Identifier: Apache-2.0
"""A report inside the file of what it is of, so that it goes wherever that is copied: at the end of
a shared library, where its loader does not look, or as a member of tvmc's package. Test:
test_loaded.py.

At a library's end are the report as compressed JSON, its length in eight bytes, and a mark. TVM
extracts all members of a package and reads those that it knows.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import shutil
import struct
import tarfile
import zlib
from typing import Any

from tvm_collage.runner import check_whole

from ..errors import FileError
from .text import parse_json

_MARK = b"tvm-collage report 1"
_TAIL = struct.Struct(f"<Q{len(_MARK)}s")
_ELF = b"\x7fELF"  # begins a shared library
_MEMBER = "collage_report.json.gz"
# A report of a net of 10,000 nodes has some 50 MB: more is none of ours.
_MOST_BYTES = 1 << 30
_LEVEL = 6  # of compression


def attach_report(path: str | os.PathLike, report: dict[str, Any]) -> None:
    """Append it to a library that has none yet. OSError."""
    packed = zlib.compress(_text(report), _LEVEL)
    with open(path, "ab") as file:
        file.write(packed + _TAIL.pack(len(packed), _MARK))


def add_report(package: str | os.PathLike, report: dict[str, Any]) -> None:
    """Add it to tvmc's package, or the one that a link names, at once or not at all. OSError,
    ValueError for what JSON has no number for."""
    package = os.path.realpath(package)
    packed = gzip.compress(_text(report), _LEVEL, mtime=0)
    member = tarfile.TarInfo(_MEMBER)
    member.size = len(packed)
    temporary = f"{package}.{os.getpid()}.tmp"
    try:
        shutil.copyfile(package, temporary)
        with tarfile.open(temporary, "a") as file:
            file.addfile(member, io.BytesIO(packed))
        os.replace(temporary, package)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def attached_report(path: str | os.PathLike) -> dict[str, Any] | None:
    """Return what was attached to the library or package; None where nothing was. OSError,
    ValueError for a report that is damaged, FileError for a library that was cut off."""
    try:
        packed = _packed(path)
        if packed is None:
            _check_whole(os.fspath(path))
            return None
        unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # of both kinds
        text = unpack.decompress(packed, _MOST_BYTES)
        if not unpack.eof:
            raise ValueError("it is cut off")
        return parse_json(text)
    except FileError:
        raise
    except (ValueError, zlib.error, tarfile.TarError, EOFError) as error:
        raise ValueError(f"the report in {os.fspath(path)!r} is damaged: {error}") from None


def _check_whole(path: str) -> None:
    try:
        check_whole(path, path)
    except ValueError as error:
        raise FileError(str(error)) from None


def is_library(path: str | os.PathLike) -> bool:
    """Return whether a file is a shared library or a package of tvmc's."""
    with open(path, "rb") as file:
        is_shared = file.read(len(_ELF)) == _ELF
    return is_shared or tarfile.is_tarfile(path)


def no_report(path: str | os.PathLike) -> str:
    """Return what an error says of a library that carries no report."""
    return (
        f"the library {os.fspath(path)} carries no report: write it by `collage compile`, `tvmc "
        "compile --collage` or Result.save_library"
    )


def _text(report: dict[str, Any]) -> bytes:
    return json.dumps(report, allow_nan=False).encode()


def _packed(path: str | os.PathLike) -> bytes | None:
    """Return the compressed report. ValueError, or one of tarfile's, for a file that is cut off."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size >= _TAIL.size:
            file.seek(size - _TAIL.size)
            length, mark = _TAIL.unpack(file.read(_TAIL.size))
            if mark == _MARK:
                if length > size - _TAIL.size:
                    raise ValueError("it is cut off")
                file.seek(size - _TAIL.size - length)
                return file.read(length)
    if not tarfile.is_tarfile(path):
        return None
    with tarfile.open(path) as package:
        found = package.extractfile(_MEMBER) if _MEMBER in package.getnames() else None
        return found.read() if found else None
