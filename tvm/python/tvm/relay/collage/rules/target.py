# SPDX-License-Identifier: Apache-2.0
"""Rules by name, and rules that a target brings (RFC 0062, phase 1). Test: rules/test_target.py.

``Target("llvm -partition_rule=mine")`` asks for the rule registered as "mine", here or by a plugin
in C++ (docs/rules.md); ``set_partition_rule`` is for all targets of a kind.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any

import tvm
from tvm._ffi import get_global_func

from ..process_wide.interrupts import carried
from .rule import PartitionRule, check


def register_rule(name: str, rule: PartitionRule) -> PartitionRule:
    """Make the rule known as ``name``; a second one of that name replaces the first."""
    check("register_rule", "name", name, str, "a str")
    if not name:
        raise ValueError("register_rule: a name is not empty")
    check("register_rule", "rule", rule, PartitionRule, "a rule of collage.rules")
    get_global_func("collage.rules.Register")(name, rule)
    return rule


def registered_rule(name: str, whose: str = "collage.rules") -> PartitionRule:
    """Return the rule of that name; ValueError, for whoever asks, lists the known ones."""
    rule = get_global_func("collage.rules.Registered")(name)
    if rule is None:
        known = registered_rules()
        if name in known:
            what = f"what is registered as {name!r} made no rule but null"
        else:
            names = ", ".join(known) or "none"
            what = f"no rule is registered as {name!r}; registered are: {names}"
        raise ValueError(f"{whose}: {what}")
    return rule


def registered_rules() -> list[str]:
    """Return the names of all registered rules, sorted."""
    return [str(name) for name in get_global_func("collage.rules.RegisteredNames")()]


def load_plugin(path: str | os.PathLike) -> list[str]:
    """Load a library that registers rules (docs/rules.md) and return the names that are new.

    It stays loaded. OSError, with the loader's reason, when it cannot be loaded.
    """
    before = set(registered_rules())
    try:
        ctypes.CDLL(os.fspath(path))
    except OSError as error:
        raise OSError(f"cannot load the plugin {os.fspath(path)}: {error}") from error
    return sorted(set(registered_rules()) - before)


def set_partition_rule(
    kind: str, rule: PartitionRule | Callable[[], PartitionRule] | str | None
) -> None:
    """Give all targets of a kind their rule: itself, what makes it anew for each run of the pass,
    or its registered name. None takes it back. ValueError for a kind that TVM does not know.

    What the function raises is, in the pass, a RuntimeError that names the kind.
    """
    if kind not in tvm.target.Target.list_kinds():
        raise ValueError(f"set_partition_rule: TVM knows no target kind {kind!r}")
    if not (rule is None or callable(rule)):
        check("set_partition_rule", "rule", rule, (PartitionRule, str), "a rule, function or name")
    if callable(rule) and not isinstance(rule, PartitionRule):
        rule = _named_when_it_raises(kind, rule)
    get_global_func("collage.SetPartitionRule")(kind, "" if rule is None else rule)


def own_rule(target: tvm.target.Target) -> PartitionRule | None:
    """Return the rule that a target brings itself, None where it has none.

    It is registered under the target's attribute ``partition_rule``, else its kind's attribute of
    that name: a rule, a function that makes one, or a registered name. ValueError or TypeError
    names the target.
    """
    whose = f"target {target.kind.name}"
    value = target.attrs.get("partition_rule")
    if value is None:
        value = get_global_func("target.TargetKindGetAttr")(target.kind, "partition_rule")
    if isinstance(value, str):
        return registered_rule(value, whose) if value else None
    if value is None:
        return None
    if callable(value) and not isinstance(value, PartitionRule):
        value = value()
    if not isinstance(value, PartitionRule):
        raise TypeError(
            f"{whose}: its partition_rule is no rule of collage.rules, no function that makes one "
            "and no registered name"
        )
    return value


def _named_when_it_raises(kind: str, make: Callable[[], PartitionRule]) -> Callable:
    @carried
    @functools.wraps(make, updated=())
    def named() -> Any:
        try:
            return make()
        except MemoryError:
            raise
        except Exception as error:
            raise RuntimeError(
                f"target {kind}: its partition_rule function raised {error!r}"
            ) from error

    return named
