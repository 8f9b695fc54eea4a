# SPDX-License-Identifier: Apache-2.0
"""`collage backends`: which there are, whether they can run here, what they take.

Docs: docs/tools.md. Test: cli/test_backends.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..backends import find_backend, get_backend, list_backends, which_was_meant
from ..backends.interface import Backend, OwnKernels, describe_backend, why_unavailable
from ..errors import CollageError, OptionError, UnknownBackendError

# That a row of the whole list names; several backends take a hundred, mostly the same.
_MOST_OPERATORS = 10


def list_all(options: argparse.Namespace) -> int:
    if options.modules:
        sys.path.insert(0, "")  # as for `python -m`: modules of the current folder too
    for module in options.modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
            # A module that is there may import another that is not.
            is_absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(
                f"{error.name}."
            )
            wrong = OptionError if is_absent else CollageError
            raise wrong(f"--import {module}: {kind}{error}") from error
    owned = [(each, own) for each in _available() for own in each.own_kernels()]
    backends = list_backends()
    if options.name:
        _check_known(options.name, [each.name for each in backends], [own.name for _, own in owned])
        backends = [get_backend(name) for name in options.name if find_backend(name)]
        owned = [(owner, own) for owner, own in owned if own.name in options.name]
    rows = [describe_backend(backend) for backend in backends]
    if options.json:
        # Without a name each backend's row has those of its own.
        rows += [_own_row(owner, own) for owner, own in owned if options.name]
        print(json.dumps(rows, indent=1))
        return 0
    texts = [_text(row, is_long=bool(options.name)) for row in rows]
    texts += [_own_text(owner, own) for owner, own in owned]
    print("\n".join(texts) if texts else "no backend is registered")
    return 0


def _check_known(asked: Sequence[str], backends: Sequence[str], owned: Sequence[str]) -> None:
    """UnknownBackendError for a name that is neither a backend's nor that of kernels of ours."""
    known = {*backends, *owned}
    for name in asked:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise UnknownBackendError(
                f"unknown backend {name!r}{which_was_meant(name, known)}; known: {listed}"
            )


def _available() -> list[Backend]:
    return [each for each in list_backends() if why_unavailable(each) is None]


def _own_row(owner: Backend, own: OwnKernels) -> dict[str, Any]:
    """Return the kernels of ours as JSON values, with the backend in whose parts they run."""
    return {**dataclasses.asdict(own), "owner": owner.name}


def _own_text(owner: Backend, own: OwnKernels) -> str:
    """Return the row of kernels of ours, which run inside another backend's parts."""
    return "\n".join(
        [
            f"{own.name}  kernels of Collage's own in parts of {owner.name}, "
            f"where measured to be faster  available, version {own.version}",
            "  takes: " + "; ".join(own.takes),
            f"  without it: {own.without}",
        ]
    )


def _text(row: dict[str, Any], is_long: bool) -> str:
    state = f"available, version {row['version']}" if row["version"] else "available"
    lines = [
        f"{row['name']}  {row['kind']}  "
        + (state if row["is_available"] else f"NOT AVAILABLE: {row['reason']}")
    ]
    names = [name.removeprefix(f"{row['name']}.") for name in row["patterns"]]
    if names:
        patterns = f"{len(names)} pattern{'s' * (len(names) > 1)}"
        lines.append(f"  {patterns}: " + ", ".join(names if is_long else _heads(names)))
    if operators := row["bare_operators"]:
        is_listed = is_long or len(operators) <= _MOST_OPERATORS
        elsewhere = f"{len(operators)}, which `collage backends {row['name']}` lists"
        lines.append("  operators: " + (", ".join(operators) if is_listed else elsewhere))
    if row["options"]:
        options = (f"-{name}={_as_option(value)}" for name, value in row["options"].items())
        lines.append("  options: " + " ".join(options))
    if row["trades_accuracy"]:
        kind = row["trades_accuracy"]
        of = f" in {', '.join(row['traded_ops'])}" if row["traded_ops"] else ""
        lines.append(f"  trades accuracy: computes in {kind}{of}, needs option accuracy_budget")
    if row["restrictions"]:
        lines.append("  does not take: " + "; ".join(row["restrictions"]))
    return "\n".join(lines)


def _as_option(value: object) -> str:
    """Return a default as Target's text has it."""
    return str(int(value)) if isinstance(value, bool) else str(value) or "''"


def _heads(names: list[str]) -> list[str]:
    """Return the names that go on from a shorter one counted with it: "conv2d (12)"."""
    counts = Counter(_head(name, frozenset(names)) for name in names)
    return [head if count == 1 else f"{head} ({count})" for head, count in counts.items()]


def _head(name: str, names: frozenset[str]) -> str:
    """Return the shortest of the names that `name` goes on from by an underscore, itself
    included."""
    words = name.split("_")
    starts = ("_".join(words[:count]) for count in range(1, len(words) + 1))
    return next(start for start in starts if start in names)
