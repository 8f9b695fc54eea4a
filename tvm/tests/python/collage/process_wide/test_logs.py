# SPDX-License-Identifier: Apache-2.0
"""The option log_level: which lines come out, where to, and that all is as before afterwards."""

import io
import logging

import pytest
import tvm
import tvm_forks
from relay_text import parse
from tvm.relay.collage import CollageOptions, optimize
from tvm.relay.collage.process_wide.logs import LOGGER, logging_at


@pytest.fixture
def logger():
    """Collage's logger cut off from pytest's handlers."""
    logger = logging.getLogger(LOGGER)
    before = logger.level, logger.propagate
    logger.propagate = False
    yield logger
    logger.level, logger.propagate = before


WITHOUT_LOGGING = """
import logging
from tvm.relay.collage.process_wide.logs import logging_at
parent = logging.getLogger("tvm.relay.collage")
child = logging.getLogger("tvm.relay.collage.measured")
for level in ("debug", "info", "warning", "error", "notset"):
    with logging_at(level):
        for each in ("debug", "info", "warning", "error"):
            getattr(child, each)("%s at %s", each, level)
    assert parent.level == logging.NOTSET and not parent.handlers
"""


def test_lines_of_the_level_and_above_go_to_standard_error():
    """In a process of its own: pytest listens to every logger."""
    done = tvm_forks.run(WITHOUT_LOGGING)
    lines = done.stderr.splitlines()
    counts = {
        level: sum(line.endswith(f" at {level}") for line in lines)
        for level in ("debug", "info", "warning", "error", "notset")
    }
    # notset: Python's own last resort, from warning on.
    assert counts == {"debug": 4, "info": 3, "warning": 2, "error": 1, "notset": 2}
    assert lines[0] == "DEBUG tvm.relay.collage.measured: debug at debug" and done.stdout == ""


def test_the_programs_own_handlers_get_the_lines(logger):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    try:
        with logging_at("debug"):
            logger.debug("a line")
        logger.debug("too late")
    finally:
        logger.removeHandler(handler)
    assert stream.getvalue() == "a line\n"


def test_the_option_holds_during_optimize_and_ends_with_it(logger, monkeypatch):
    levels = []
    monkeypatch.setattr(
        "tvm.relay.collage.optimizer.check_module",
        lambda mod: levels.append(logger.getEffectiveLevel()),
    )
    mod = parse("def @main(%x: $T) { nn.relu(%x) }")
    optimize(mod, None, "llvm", CollageOptions(log_level="debug"))
    with tvm.transform.PassContext(config={"relay.collage.log_level": "error"}):
        optimize(mod, None, "llvm")
    assert levels == [logging.DEBUG, logging.ERROR] and logger.level == logging.NOTSET
