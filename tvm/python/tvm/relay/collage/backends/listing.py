# SPDX-License-Identifier: Apache-2.0
"""What `collage backends` lists: each registered backend, looked up now.

Test: cli/test_backends.py.
"""

from __future__ import annotations

from typing import Any

from .interface import Backend, why_unavailable


def describe_backend(backend: Backend) -> dict[str, Any]:
    """The backend as JSON values.

    version is "" when it has none or cannot be asked; reason, why it is not available, is "" when
    it is; patterns are the names of its composites, those of added rules too, bare_operators what
    it takes outside of them; options are those of its target, with their defaults; trades_accuracy
    is the type that it computes in for less accuracy, "" for none.
    """
    reason = why_unavailable(backend)
    return {
        "name": backend.name,
        "kind": backend.kind,
        "version": _version(backend) if reason is None else "",
        "is_available": reason is None,
        "reason": reason or "",
        "patterns": [*(entry[0] for entry in backend.all_patterns()), *backend.added_rules],
        "options": dict(backend.options),
        "bare_operators": sorted(backend.op_predicates),
        "restrictions": list(backend.restrictions),
        "trades_accuracy": backend.trades_accuracy,
        "defined_in": type(backend).__module__,
    }


def _version(backend: Backend) -> str:
    try:
        return backend.version()
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a backend's own code; it is listed all the same
        return f"? ({type(error).__name__}: {error})"
