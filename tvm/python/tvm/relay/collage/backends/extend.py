# SPDX-License-Identifier: Apache-2.0
"""More patterns for a backend that is known already, its own or one that comes with Collage.

They last as long as that registration: a second backend of the name starts without them. What is
added is offered to the backend's codegen, which has to know its composites: where it does not, the
candidate fails with the codegen's message. Test: backends/test_extend.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..rules import PatternRule
from ..rules.pattern_entry import check_entries
from .interface import Backend
from .registry import get_backend, tell_tvm


def add_patterns(backend_name: str, entries: Iterable[tuple]) -> Backend:
    """Add rows to the backend's pattern table, behind those that it has; return the backend.

    ``entries``: (composite name, pattern[, predicate[, attrs]]) as ``Backend.patterns`` gives them.
    UnknownBackendError for a name that nobody registered, TypeError or ValueError for what is no
    entry; then nothing is added.
    """
    backend = get_backend(backend_name)
    if isinstance(entries, (str, dict)) or not isinstance(entries, Iterable):
        raise TypeError(
            f"backend {backend_name}: add_patterns takes a list of entries, "
            f"got {type(entries).__name__}"
        )
    new = tuple(entries)
    check_entries(backend_name, new)
    backend.added_patterns = (*backend.added_patterns, *new)
    if any(len(entry) > 2 for entry in new):
        # The backend's word about its own predicates says nothing about these.
        backend.local_predicates = False
    tell_tvm(backend)
    return backend


def add_pattern_rule(
    backend_name: str,
    op_rule: Callable[..., Any],
    fusion_rule: Callable[..., Any] | None = None,
    verify: Callable[..., Any] | None = None,
    *,
    name: str = "rule",
) -> Backend:
    """Add all sub-graphs that the functions describe, as composites ``<backend_name>.<name>``.

    The functions are those of ``rules.PatternRule``: op_rule(call), fusion_rule(upstream call,
    downstream call), verify(SubGraph). They take part in the search of plans and in the plan of
    the backend alone. A second rule of that name replaces the first. UnknownBackendError, TypeError
    or ValueError, naming the backend, for what is none.
    """
    backend = get_backend(backend_name)
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"backend {backend_name}: the name of a pattern rule is a text that is not empty, "
            f"got {name!r}"
        )
    label = f"{backend_name}.{name}"
    try:
        rule = PatternRule(label, op_rule, fusion_rule, verify=verify)
    except TypeError as error:
        raise TypeError(f"backend {backend_name}: {error}") from None
    backend.added_rules = {**backend.added_rules, label: rule}
    return backend
