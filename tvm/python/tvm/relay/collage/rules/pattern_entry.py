# SPDX-License-Identifier: Apache-2.0
"""An entry of a backend's pattern table, and its rule.

It is (name, pattern), (name, pattern, predicate) or (name, pattern, predicate, attrs getter). The
predicate gets the matched expression and answers with a bool, or a text that says why not; the
attrs getter gets it too and gives a dict of further attributes of the composite function. Entries
are checked when the backend is registered and when its rule is made, since a table may change.
Test: backends/test_registry.py, rules/test_pattern_entry.py, rules/test_target.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tvm._ffi import get_global_func
from tvm.relay.dataflow_pattern import DFPattern

from .predicates import ask, attrs_or_reason, raised_is_reason


class PatternEntry(NamedTuple):
    """The fields of one."""

    name: str
    pattern: DFPattern
    predicate: Callable[..., Any] | None = None
    attrs: Callable[..., Any] | None = None


def pattern_entry(backend: str, entry: object) -> PatternEntry:
    """Return the entry with its fields by name.

    ValueError or TypeError, naming the backend and the entry, for one that is none.
    """
    if not isinstance(entry, (tuple, list)):
        raise TypeError(
            f"backend {backend}: a pattern entry is a tuple, got {type(entry).__name__}; "
            "use (name, pattern[, predicate[, attrs]])"
        )
    if not 2 <= len(entry) <= 4:
        first = f": {entry[0]!r}" if entry else ""
        raise ValueError(
            f"backend {backend}: a pattern entry has 2 to 4 fields, got {len(entry)}{first}; "
            "use (name, pattern[, predicate[, attrs]])"
        )
    found = PatternEntry(*entry)
    _check(backend, found, "name", is_right=isinstance(found.name, str), wanted="a str")
    _check(
        backend,
        found,
        "pattern",
        is_right=isinstance(found.pattern, DFPattern),
        wanted="a DFPattern",
    )
    for field in ("predicate", "attrs"):
        value = getattr(found, field)
        _check(
            backend, found, field, is_right=value is None or callable(value), wanted="a function"
        )
    return found


def check_entries(backend: str, entries: Iterable[Any]) -> None:
    """ValueError or TypeError for the first that is no entry, or not named after the backend."""
    for entry in entries:
        name = pattern_entry(backend, entry).name
        if not name.startswith(f"{backend}."):
            raise ValueError(
                f"backend {backend}: composite name {name!r} must begin with '{backend}.'"
            )


def make_labelled_dfpattern_partition_rule_wrapper(compiler: str, pattern_tuple: object) -> Any:
    """Return the rule of one pattern-table entry of ``compiler``.

    ValueError or TypeError, naming the backend and the entry, for one that is none.
    """
    name, pattern, predicate, attrs = pattern_entry(compiler, pattern_tuple)
    predicate = predicate and raised_is_reason(predicate)
    attrs = attrs and attrs_or_reason(attrs)
    return get_global_func("collage.MakePatternEntry")(compiler, name, pattern, predicate, attrs)


def entry_rules(compiler: str, table: Iterable[Any]) -> list[Any]:
    """Return the rules of the entries of a pattern table, in their order."""
    return [make_labelled_dfpattern_partition_rule_wrapper(compiler, row) for row in table]


def prototypes_entry(
    compiler: str, name: str, pattern: DFPattern, predicate: Callable[..., Any] | None = None
) -> Any:
    """Return what answers to two functions of TVM's prototype: the rule of an entry, by its
    fields."""
    # It is TVM's handle on the predicate, in which an interrupt would be lost.
    asked = predicate and functools.partial(ask, predicate)
    entry = (str(name), pattern, asked)
    return make_labelled_dfpattern_partition_rule_wrapper(str(compiler), entry)


def _check(backend: str, entry: PatternEntry, field: str, is_right: bool, wanted: str) -> None:
    if not is_right:
        what = "attrs getter" if field == "attrs" else field
        raise TypeError(
            f"backend {backend}: the {what} of a pattern entry is {wanted}, "
            f"got {type(getattr(entry, field)).__name__} in entry {entry.name!r}"
        )
