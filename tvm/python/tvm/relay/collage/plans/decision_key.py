# SPDX-License-Identifier: Apache-2.0
"""The key of the decision for a model: all that decides which plan of it ships.

Test: test_replays.py.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any

import tvm
from tvm_collage.options import deciding

from ..backends import find_backend
from ..backends.interface import KEPT
from ..candidate.pass_context import context_to_json
from ..files.text import why_no_file
from ..machine.environment import cpu_model, thread_text, tvm_build
from ..store import DecisionKey
from ..store.decision_row import deciding_version
from ..store.key import stored_version
from ..tuning import records_in_force
from .how_built import how_built
from .original import NONE as NO_ORIGINAL
from .original.runtimes import runtime_versions
from .request import Request


def decision_key(request: Request, original: Any) -> DecisionKey | str:
    """Return the key of what is decided for a request, whose model's file is `original`; or why
    there is none, so that decisions for it are neither looked up nor kept."""
    if reason := _why_none(request, original):
        return reason
    targets, functions = request.targets, request.plans.described
    versions = {str(target): stored_version(target.kind.name) for target in targets.external}
    with request.records.in_force():
        records = records_in_force(targets.host)[0].of_module(request.prepared)
    given: dict[str, Any] = {"tuning": records.digest() if len(records) else ""}
    if original and original != NO_ORIGINAL:
        given |= {"original": _digest_of(original), "judges": runtime_versions()}
    if kept := KEPT.get():
        given |= {"kept": sorted(kept)}
    return DecisionKey(
        model=_digest(f"{each.name} {each.key}" for each in functions),
        weights=_digest(each.weights for each in functions),
        backends=_json(versions),
        target=str(targets.host),
        cpu=cpu_model(),
        threads=thread_text(),
        options=_json({**deciding(request.options), **how_built(request)}),
        given=_json(given),
        tvm=tvm_build(),
        collage=deciding_version(),
    )


def _why_none(request: Request, original: Any) -> str:
    """Return what of a request no key can tell; "" where there is nothing."""
    options = request.options
    if not request.targets.external:
        return "no backend competes with TVM"
    if not options.guard:
        return "without the guard no plan is chosen by its figures"
    if options.devices.tracker:
        return "devices elsewhere measure"
    if options.tuning.tries() or options.tuning.shipped:
        return "schedules of TVM's kernels are looked for, which no placement holds"
    if isinstance(original, (str, os.PathLike)):
        if why := _why_unread(original):
            return f"the model's file: {why}"
    elif original and not hasattr(original, "SerializeToString"):
        return "the model's file is none"
    for name in (target.kind.name for target in request.targets.external):
        backend = find_backend(name)
        if backend is None or stored_version(name) is None:
            return f"backend {name} has no version"
        if backend.added_patterns or backend.added_rules:
            return f"backend {name} got patterns that its version does not tell of"
    left_out = context_to_json(tvm.transform.PassContext.current())[1]
    left_out += records_in_force(request.targets.host)[1]
    if left_out:
        return f"{left_out[0]} holds what has no text"
    return ""


def _why_unread(original: str | os.PathLike) -> str | None:
    return why_no_file(original) if original and original != NO_ORIGINAL else None


def _digest_of(original: Any) -> str:
    """Return the hash of a model's file, or of an ONNX model. What an ONNX file keeps beside it are
    weights, which the module has, too."""
    if isinstance(original, (str, os.PathLike)):
        with open(original, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    return hashlib.sha256(original.SerializeToString(deterministic=True)).hexdigest()[:16]


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)
