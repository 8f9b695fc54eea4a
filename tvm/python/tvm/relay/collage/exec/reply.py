# SPDX-License-Identifier: Apache-2.0
"""Outcomes of a request to a worker, and the line that says so. Test: exec/test_pool.py."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from typing import Any

from ..files.text import parse_json
from ..messages.foreign import describe


class Unsupported(Exception):
    """Raised by a builder that cannot take a candidate at all; becomes the status `unsupported`."""


class WrongResult(Exception):
    """Raised when outputs are not the reference's; becomes the status `wrong_result`."""


@dataclasses.dataclass(frozen=True)
class Reply:
    """The end of one request."""

    # "ok" with `value`; else "failed" (by an exception), "timeout" or "died", with a message
    outcome: str
    value: Any = None
    type: str = ""  # the exception's
    message: str = ""
    # the kind of fault of the machine that it failed or died of (machine_fault.ADVICE), "" for what
    # is the candidate's own doing
    fault: str = ""
    code: int | None = None  # the return code of a process that ended by itself


def failure(error: BaseException) -> dict[str, Any]:
    """Return what a process answers of an exception."""
    return {"ok": False, "type": type(error).__name__, "message": describe(error)}


def parse_reply(line: bytes) -> dict[str, Any] | None:
    """Read a line as the reply that the worker's own code writes, None for anything else."""
    try:
        reply = parse_json(line)
        is_ok = reply["ok"]
        texts = () if is_ok else (reply["type"], reply["message"], reply["fault"])
        has_value = not is_ok or "value" in reply
    except (ValueError, KeyError, TypeError):
        return None
    is_reply = "id" in reply and has_value and all(isinstance(text, str) for text in texts)
    return reply if is_reply else None


def how_it_ended(code: int | None) -> str:
    """Say how a process of this return code ended."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"
    return f"exited with code {code}"
