# SPDX-License-Identifier: Apache-2.0
"""Text files that are written at once or not at all, JSON of others, and the report, as the option
`report` asks.
Test: files/test_text.py, plans/placement/test_file.py."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import secrets
import tempfile
from typing import Any

from ..errors import OptionError
from ..options.named import option

_logger = logging.getLogger(__name__)

# Python's parser recurses on the stack of its thread, as deep as TVM's limit of 10,000 lets it: a
# file of brackets ends a process whose stack is a megabyte. Nothing that is read here is this deep.
DEEPEST_JSON = 500
_WIDTH = 200  # of a line of JSON, about
_TEXT_OR_BRACKET = re.compile(r'"(?:[^"\\]+|\\.?)*"?|[\[{]|[\]}]', re.DOTALL)


def check_report_path(path: str) -> None:
    """check_file_path of the option `report`."""
    check_file_path(path, option("report"))


def check_file_path(path: str, called: str, is_appended: bool = False) -> None:
    """OptionError when no file can be written there: better before measuring than after.

    An empty path stands for no file; `called` is what names it. is_appended: a file that is there
    is written to, not replaced.
    """
    if not path:
        return
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        reason = "it is a folder"
    elif not is_appended and os.path.exists(path) and not os.path.isfile(path):
        reason = "it is no plain file"
    elif is_appended and os.path.exists(path):
        if os.access(path, os.W_OK):
            return
        reason = "it may only be read"
    elif not os.path.isdir(folder):
        reason = f"there is no folder {folder!r}"
    else:
        try:
            with tempfile.NamedTemporaryFile(dir=folder):
                return
        except OSError as error:
            reason = f"files cannot be made in {folder!r} ({error.strerror})"
    raise OptionError(
        called + f": {path!r} cannot be written: {reason}; name a file in a "
        "folder that exists and can be written to"
    )


def make_folder(path: str | os.PathLike, called: str) -> None:
    """Make the folder if it is not there. OptionError where that cannot be; `called` is what names
    it, or a file in it."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise OptionError(
            called + f": the folder {os.fspath(path)!r} cannot be made ({error.strerror}); name "
            "another"
        ) from error


def why_no_file(path: str | os.PathLike) -> str:
    """Return why there is no file that can be read at a path; "" where there is one."""
    if os.path.isdir(path):
        return "it is a folder"
    if not os.path.exists(path):
        return "there is no such file"
    return "" if os.access(path, os.R_OK) else "it may not be read"


def write_report(result: Any, path: str) -> None:
    """Write a Result's report, unless the path is empty.

    What fails is logged: the result is worth more than its report.
    """
    if not path:
        return
    try:
        write_whole(path, json_text(result.report) + "\n")
    except (OSError, ValueError) as error:
        _logger.error("report %r was not written: %s", path, error)


def json_text(value: Any, indent: str = "") -> str:
    """Write JSON for people: what fits a line, or holds plain values alone, is one; ValueError for
    what JSON has no number for."""
    inner = indent + " "
    items = list(value.values()) if isinstance(value, dict) else value
    is_nested = isinstance(items, (list, tuple)) and any(
        isinstance(item, (dict, list, tuple)) for item in items
    )
    if is_nested:
        if isinstance(value, dict):
            lines = [f"{json.dumps(key)}: {json_text(item, inner)}" for key, item in value.items()]
        else:
            lines = [json_text(item, inner) for item in value]
        if sum(map(len, lines)) > _WIDTH or any("\n" in line for line in lines):
            left, right = "{}" if isinstance(value, dict) else "[]"
            text = f",\n{inner}".join(lines)
            return f"{left}\n{inner}{text}\n{indent}{right}"
    return json.dumps(value, allow_nan=False)


def write_whole(path: str, contents: str | bytes) -> None:
    """Write the file; another process sees the old one or the whole new one. Raises OSError,
    which names the file."""
    temporary = f"{path}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(contents if isinstance(contents, bytes) else contents.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):  # of the user's file, not of ours
            raise OSError(error.errno, error.strerror, path) from None
        raise


def append_line(path: str | os.PathLike[str], text: str) -> None:
    """Add a line to a file so that several writers' lines stay whole.

    Where a killed writer left half a line, that is ended first. The lock, which a killed writer
    lets go, tells such a line from one that is being written.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    fd = os.open(path, flags, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        size = os.fstat(fd).st_size
        is_cut = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        os.write(fd, (("\n" if is_cut else "") + text + "\n").encode())
    finally:
        os.close(fd)


def parse_json(text: str | bytes, **how: Any) -> Any:
    """json.loads(text, **how) of what others may have written; a ValueError where that nests too
    deeply, is no UTF-8 or no JSON."""
    text = text if isinstance(text, str) else text.decode()
    if text.count("[") + text.count("{") > DEEPEST_JSON:
        depth = 0
        for match in _TEXT_OR_BRACKET.finditer(text):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
            if depth > DEEPEST_JSON:
                raise ValueError(f"nested more than {DEEPEST_JSON} deep")
    return json.loads(text, **how)
