# SPDX-License-Identifier: Apache-2.0
"""End to end: whole plans measured beside each other, since parts measured alone do not add up."""

from .guard import GuardResult, GuardUnavailable, choose, guard

__all__ = ["GuardResult", "GuardUnavailable", "choose", "guard"]
