# SPDX-License-Identifier: Apache-2.0
"""Arguments of rules, checked where the user wrote them. Test: rules/test_rule.py."""

from typing import Any


def check(rule: str, argument: str, value: Any, kinds: Any, wanted: str) -> Any:
    """Return ``value``; TypeError that names rule and argument when it is of none of ``kinds``."""
    if not isinstance(value, kinds) or (kinds is int and isinstance(value, bool)):
        raise TypeError(f"rule {rule}: {argument} is {wanted}, got {type(value).__name__}")
    return value


def check_function(rule: str, argument: str, value: Any) -> Any:
    """Return ``value``, a function or None; TypeError otherwise."""
    if value is not None and not callable(value):
        raise TypeError(f"rule {rule}: {argument} is a function, got {type(value).__name__}")
    return value


def check_limit(rule: str, argument: str, value: Any, least: int = 0) -> int:
    """Return ``value``; ValueError when it is an int below ``least``, TypeError when it is none."""
    check(rule, argument, value, int, "an int")
    if value < least:
        raise ValueError(f"rule {rule}: {argument} is an int >= {least}, got {value}")
    return value
