# SPDX-License-Identifier: Apache-2.0
"""Log lines of Collage's Python side, at the level that the option `log_level` names.

All loggers stand under `tvm.relay.collage`. Docs: docs/tools.md. Test: test_logs.py.
"""

import contextlib
import logging

LOGGER = "tvm.relay.collage"
NOTSET = "notset"


@contextlib.contextmanager
def logging_at(level: str):
    """Log lines of that level ("debug" ... "error") and above for the block, as before after it.

    They go where the program sends its logs, to standard error when it has set nothing up.
    """
    if level == NOTSET:
        yield
        return
    logger = logging.getLogger(LOGGER)
    before = logger.level
    handler = None if logger.hasHandlers() else _to_stderr()
    logger.setLevel(level.upper())
    if handler is not None:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.setLevel(before)
        if handler is not None:
            logger.removeHandler(handler)


def _to_stderr():
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    return handler
