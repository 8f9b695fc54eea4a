# SPDX-License-Identifier: Apache-2.0
"""The known backends, by name. Test: backends/test_registry.py."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from typing import Any

import tvm
from tvm import relay
from tvm._ffi.registry import remove_global_func
from tvm.relay.op.contrib import register as _tables
from tvm_collage.words import nearest

from ..costs.rounding import RELATIVE
from ..errors import BackendUnavailableError, UnknownBackendError
from ..messages.foreign import last_line
from ..process_wide.interrupts import carried
from ..relay_util.external import TRANSITION, TVM_BACKEND, WHOLE_PLAN, is_external
from ..relay_util.operators import operators
from ..rules.pattern_entry import check_entries
from ..rules.predicates import never_raises
from ..tvm_fixes.apply import set_op_attributes
from . import BUILTIN
from .interface import GRAPH_LEVEL, OP_LEVEL, Backend, why_unavailable
from .target_options import check_options, options_in, options_of, register_options

REGISTERED: dict[str, Backend] = {}
_NAMES_IN_USE = {
    TVM_BACKEND: "TVM's own kernels",
    TRANSITION: "a cost of a change of layout",
    WHOLE_PLAN: "a cost of a whole plan",
    "collage": "the plan that the search finds",
}


def register_backend(backend: Backend) -> Backend:
    """Make a backend known here and to TVM; a second one of the same name replaces the first.

    Registers ``relay.ext.<name>``, its naming of constants and TVM's pattern table of that name.
    Its op_predicates become ones that answer with a bool and never raise. ValueError or TypeError,
    naming the backend and the entry, when the name (of a target that TVM compiles for, too), the
    kind, trades_accuracy, traded_ops, the colour, a pattern's entry, an option or an op's predicate
    is none.
    """
    if isinstance(backend, type):
        raise TypeError(
            f"register_backend takes a backend, not a class: give it {backend.__name__}()"
        )
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", backend.name):
        raise ValueError(f"a backend's name is letters, digits and _, not {backend.name!r}")
    if owner := _owner_of(backend.name):
        raise ValueError(f"backend {backend.name}: that is the name of {owner}: take another name")
    is_colour = re.fullmatch("#[0-9a-f]{6}", backend.colour or "")
    for attribute, is_right, wanted in (
        ("kind", backend.kind in (OP_LEVEL, GRAPH_LEVEL), f"{OP_LEVEL!r} or {GRAPH_LEVEL!r}"),
        (
            "trades_accuracy",
            backend.trades_accuracy in ("", *RELATIVE),
            f"the type that it computes in, one of {', '.join(RELATIVE)}, or empty for none",
        ),
        (
            "traded_ops",
            _are_traded(backend),
            "a set of Relay's operators beside trades_accuracy, as {'nn.dense'}, or None for all",
        ),
        (
            "colour",
            not backend.colour or is_colour,
            "red, green and blue as '#0072b2', or empty for one that is free",
        ),
    ):
        if not is_right:
            given = getattr(backend, attribute)
            raise ValueError(f"backend {backend.name}: {attribute} is {wanted}, not {given!r}")
    check_entries(backend.name, _patterns_of(backend))
    check_options(backend)
    for_tvm = _guarded(backend, "annotate_predicates")
    backend.op_predicates = _guarded(backend, "op_predicates")
    tvm.get_global_func("collage.RegisterTargetKind")(backend.name, backend.device_type)
    register_options(backend)
    REGISTERED[backend.name] = backend
    prefix = f"relay.ext.{backend.name}"
    tvm.register_func(prefix, carried(_of_part(backend, "compile")), override=True)
    updater = f"{prefix}.constant_updater"
    if type(backend).constants is not Backend.constants:
        tvm.register_func(updater, carried(_of_part(backend, "constants")), override=True)
    else:  # TVM's own naming; a backend that had the name before may have had another
        remove_global_func(updater)
    tell_tvm(backend)
    # Where AnnotateTarget looks, in place of any others; and where our rules look first, with
    # reasons.
    guarded: dict[str, Any] = backend.op_predicates
    for_rules = {op: each.with_reason for op, each in guarded.items()}
    for key, predicates in (("target", {**guarded, **for_tvm}), ("collage.target", for_rules)):
        values = {op: carried(each) for op, each in predicates.items()}
        set_op_attributes("predicates", f"{key}.{backend.name}", values)
    return backend


def _owner_of(name: str) -> str:
    """Return whose a name is that a target list, the store or a report could not tell from a
    backend's; "" when it is free."""
    if name in tvm.target.Target.list_kinds() and not is_external(tvm.target.Target(name)):
        return "a target that TVM compiles for itself"
    return _NAMES_IN_USE.get(name, "")


def _patterns_of(backend: Backend) -> list[tuple]:
    """Return the backend's patterns; ValueError, naming it, for what making them raises (an op that
    is none)."""
    try:
        return backend.all_patterns()
    except MemoryError:
        raise
    except Exception as error:
        what = last_line(error)
        raise ValueError(f"backend {backend.name}: making its patterns failed: {what}") from error


def _of_part(backend: Backend, method: str) -> Callable[..., Any]:
    """Return the method, of the backend with the options that the part was found with."""

    def call(function: relay.Function, *args: Any) -> Any:
        found = getattr(backend.with_options(options_in(function)), method)(function, *args)
        if method == "compile" and not isinstance(found, tvm.runtime.Module):
            raise TypeError(
                f"backend {backend.name}: compile() returns a runtime module, "
                f"got {type(found).__name__}"
            )
        return found

    return call


def tell_tvm(backend: Backend) -> None:
    """Put the backend's patterns, as they are now, where TVM looks for them."""
    _tables.register_pattern_table(backend.name, lambda: _table_for_tvm(backend))
    tvm.get_global_func("collage.SetLocalPredicates")(backend.name, backend.local_predicates)


def _table_for_tvm(backend: Backend) -> list[tuple]:
    """Return the patterns for TVM's MergeComposite, to which a predicate's reason is no answer."""
    rows = []
    for name, pattern, *rest in backend.all_patterns():
        if rest and rest[0]:
            rest[0] = carried(never_raises(name, rest[0]))
        rows.append((name, pattern, *rest))
    return rows


def _guarded(backend: Backend, attribute: str) -> dict[str, Any]:
    """Return the backend's predicates of ops as ones that never raise; ValueError or TypeError for
    what is none."""
    known = operators()
    for op, predicate in getattr(backend, attribute).items():
        if op not in known:
            near = nearest(op, known)
            hint = f"; did you mean {near!r}?" if near else ""
            raise ValueError(f"backend {backend.name}: {attribute}: Relay has no op {op!r}{hint}")
        if not callable(predicate):
            raise TypeError(
                f"backend {backend.name}: {attribute}[{op!r}] must be a function of a call, "
                f"not {type(predicate).__name__}"
            )
    return {
        op: never_raises(f"{backend.name}: {op}", predicate)
        for op, predicate in getattr(backend, attribute).items()
    }


def _are_traded(backend: Backend) -> bool:
    """Return whether a backend's traded_ops are None, or operators of one that trades accuracy."""
    ops = backend.traded_ops
    if ops is None:
        return True
    is_set = isinstance(ops, (set, frozenset)) and bool(ops)
    return is_set and bool(backend.trades_accuracy) and ops <= set(tvm.ir.Op.list_op_names())


def find_backend(name: str) -> Backend | None:
    """Return the backend of that name, None when there is none."""
    return REGISTERED.get(name)


def backend_of(target: tvm.target.Target) -> Backend | None:
    """Return the target's backend with the options that it sets; None for a target without one."""
    backend = find_backend(target.kind.name)
    return backend and backend.with_options(options_of(backend, target))


def declared_colours() -> dict[str, str]:
    """Return by backend, of those that are registered in this process, the colour that it
    declares, as #rrggbb."""
    return {each.name: each.colour for each in list_backends() if each.colour}


def list_traders() -> list[Backend]:
    """Return the backends that are registered in this process and trade accuracy."""
    return [each for each in list_backends() if each.trades_accuracy]


def which_was_meant(name: str, among: Iterable[str]) -> str:
    """Return the backend that was meant, as did_you_mean does: by its name, or by its library's."""
    words = {each.lower(): each for each in among}
    for backend in list_backends():
        if backend.library and backend.name in words.values():
            words[backend.library.lower()] = backend.name
    near = words.get(nearest(name.lower(), words))
    return f", did you mean {near}?" if near else ""


def get_backend(name: str) -> Backend:
    """Return the backend of that name; UnknownBackendError lists the known ones."""
    if name not in REGISTERED:
        known = ", ".join(sorted(REGISTERED)) or "none"
        meant = which_was_meant(name, REGISTERED)
        raise UnknownBackendError(f"unknown backend {name!r}{meant}; known: {known}")
    return REGISTERED[name]


def require_backend(name: str) -> Backend:
    """Return the backend; BackendUnavailableError says why when it cannot run here."""
    backend = get_backend(name)
    reason = why_unavailable(backend)
    if reason is not None:
        raise BackendUnavailableError(f"backend {name!r} is not available: {reason}")
    return backend


def why_not_here(name: str) -> str | None:
    """Return why the backend of that name cannot run here; None when it can, or is not known."""
    backend = find_backend(name)
    return None if backend is None else why_unavailable(backend)


def has_own_threads(name: str) -> bool:
    """Return whether a backend of that name, if there is one, runs its parts on threads of its
    own."""
    backend = find_backend(name)
    return backend is not None and backend.own_threads


def list_backends() -> list[Backend]:
    """Return all known backends, available or not, by name."""
    return [REGISTERED[name] for name in sorted(REGISTERED)]


for _, _module, _class in BUILTIN.values():
    register_backend(getattr(importlib.import_module(_module, __package__), _class)())
