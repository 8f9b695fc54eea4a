# SPDX-License-Identifier: Apache-2.0
"""Checks that `collage doctor` makes before anything is measured. Docs: docs/tools.md.

Test: doctor/test_checks.py.
"""

from .checks import CHECKS, Finding, examine
from .machine import MachineFacts, read_machine
from .noise import Noise, measure_noise

__all__ = [
    "CHECKS",
    "Finding",
    "MachineFacts",
    "Noise",
    "examine",
    "measure_noise",
    "read_machine",
]
