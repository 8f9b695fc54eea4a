# SPDX-License-Identifier: Apache-2.0
"""End to end: whole plans measured beside each other, since parts measured alone do not add up."""

from .guard import GuardResult, choose, guard
from .guard_progress import guard_progress

__all__ = ["GuardResult", "choose", "guard", "guard_progress"]
