# SPDX-License-Identifier: Apache-2.0
"""Log lines of Collage's Python side, at the level that the option `log_level` names.

All loggers stand under `tvm.relay.collage`. Docs: docs/tools.md.
Test: process_wide/test_logs.py.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any

from tvm_collage.words import json_line

from .shared_patch import SharedPatch

LOGGER = "tvm.relay.collage"
NOTSET = "notset"
# What warn_once has said; a test puts another set here.
warned: set[str] = set()


def warn_once(message: str) -> None:
    """Log a warning that comes once in a process."""
    if message not in warned:
        warned.add(message)
        _LOGGER.warning("%s", message)


@contextlib.contextmanager
def logging_at(level: str) -> Iterator[None]:
    """Log lines of that level ("debug" ... "error") and above for the block, as before after it.

    They go where the program sends its logs, to standard error when it has set nothing up. While
    blocks of several threads overlap, the lowest of their levels holds for all.
    """
    if level == NOTSET:
        yield
        return
    with _LEVEL.inside(logging.getLevelName(level.upper())), _HANDLER.inside():
        yield


class JsonLineFormatter(logging.Formatter):
    """A record as a line of JSON, beside those of the progress; docs/progress.schema.json."""

    def format(self, record: logging.LogRecord) -> str:
        return json_line(record.levelname.lower(), record.getMessage())


class ToStderr(logging.StreamHandler):
    """To what is standard error at the time: a progress bar puts a stream of its own there."""

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, _given: object) -> None:
        """Do nothing: the constructor sets it."""


class OfCommand(logging.Formatter):
    """A record as a line of the command `collage`: as its errors, but for what only a log has."""

    def format(self, record: logging.LogRecord) -> str:
        who = "collage"
        if record.levelno < logging.WARNING:
            who = f"{record.levelname} {record.name}"
        return f"{who}: {record.getMessage()}"


class _ToStderr:
    """A handler of ours on the logger, or none."""

    handler: logging.Handler | None = None

    def read(self) -> logging.Handler | None:
        return self.handler

    def write(self, handler: logging.Handler | None) -> None:
        if self.handler is not None:
            _LOGGER.removeHandler(self.handler)
        self.handler = handler
        if handler is not None:
            _LOGGER.addHandler(handler)

    def make(self, _before: object, _wants: object) -> logging.Handler | None:
        if _LOGGER.hasHandlers():
            return None
        handler = ToStderr()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        return handler


_LOGGER = logging.getLogger(LOGGER)
_LEVEL = SharedPatch(lambda: _LOGGER.level, _LOGGER.setLevel, lambda _, levels: min(levels))
_to_stderr = _ToStderr()
_HANDLER = SharedPatch(_to_stderr.read, _to_stderr.write, _to_stderr.make)
