# SPDX-License-Identifier: Apache-2.0
"""Warnings that come once in a process. Test: test_measure_context.py."""

import logging

_logger = logging.getLogger(__name__)
_warned = set()


def warn_once(message):
    if message not in _warned:
        _warned.add(message)
        _logger.warning("%s", message)
