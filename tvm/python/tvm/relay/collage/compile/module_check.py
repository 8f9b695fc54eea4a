# SPDX-License-Identifier: Apache-2.0
"""Checks that refuse what no backend could compile before anything is measured.
Test: test_errors.py."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tvm
from tvm import relay
from tvm.ir import diagnostics

from ..errors import ModuleError
from ..messages.foreign import is_consequence, last_line
from ..relay_util.changed_context import changed_context
from ..tvm_fixes.apply import ScopedFix

# Sizes by input; a text stands for a number that the user has to know.
FixedShapes = Mapping[str, tuple[int | str, ...]]


def check_is_module(mod: object) -> None:
    """Raise ModuleError for what is no module, as a file's path."""
    if not isinstance(mod, tvm.IRModule):
        raise ModuleError(
            f"expected a tvm.IRModule, got {type(mod).__name__}: of an ONNX file "
            "collage.from_onnx(onnx.load(path)) gives one, and its parameters"
        )


def check_module(mod: tvm.IRModule) -> None:
    """Raise ModuleError for what no backend could compile: no main, or a type error."""
    check_is_module(mod)
    names = [var.name_hint for var in mod.get_global_vars()]
    if "main" not in names:
        raise ModuleError(
            f"the module has no function 'main' (it has {', '.join(sorted(names)) or 'none'}): "
            "name the function to compile 'main'"
        )
    with collected_diagnostics() as found:
        try:
            relay.transform.InferType()(mod)
        except (tvm.TVMError, TypeError, ValueError, AttributeError) as error:
            reasons = found or [last_line(error)]
            raise ModuleError(f"the module is ill-typed: {'; '.join(reasons)}") from None


def open_inputs(
    mod: object, params: Mapping[str, Any] | None = None
) -> dict[str, list[int | None]]:
    """Return the inputs of main that have an extent which only a call fixes, None in their shape,
    as is -1, which some exporters write for it; those that `params` bind are none. Empty where
    there is no main in Relay."""
    if isinstance(mod, tvm.IRModule) and "main" in {var.name_hint for var in mod.get_global_vars()}:
        mod = mod["main"]
    found: dict[str, list[int | None]] = {}
    for var in mod.params if isinstance(mod, relay.Function) else ():
        kind = var.type_annotation
        if var.name_hint in (params or {}) or not isinstance(kind, relay.TensorType):
            continue
        shape = [
            int(n) if isinstance(n, tvm.tir.IntImm) and int(n) >= 0 else None for n in kind.shape
        ]
        if None in shape:
            found[var.name_hint] = shape
    return found


def check_fixed_shapes(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    who: str,
    how: Callable[[FixedShapes], str],
    file: str = "",
) -> None:
    """Raise ModuleError for inputs with open dimensions, which `who` does not take; `how` says how
    to fix them, by shapes that have a 1 for an open batch and a letter for what else is open. file:
    the model's, where that is known."""
    found = open_inputs(mod, params)
    if found:
        fixed = {name: _with_letters(dims) for name, dims in found.items()}
        letters = sorted({n for dims in fixed.values() for n in dims if isinstance(n, str)})
        numbers = f" with numbers for {', '.join(letters)}" if letters else ""
        raise ModuleError(
            f"{file}{file and ': '}inputs have open dimensions ({shapes_text(found)}): {how(fixed)}"
            f"{numbers}; {who} takes fixed shapes alone"
        )


def _with_letters(dims: list[int | None]) -> tuple[int | str, ...]:
    """Name open sizes by letters, those of a picture as they usually are; an open batch is 1."""
    letters = ("N", "C", "H", "W") if len(dims) == 4 else [f"D{i}" for i in range(len(dims))]
    return tuple(
        (letter if i else 1) if size is None else size
        for i, (size, letter) in enumerate(zip(dims, letters, strict=True))
    )


def shapes_text(shapes: Mapping[str, list[int | None]]) -> str:
    """Return inputs as 'x [?, 8], y [2]'."""
    return ", ".join(
        f"{name} [{', '.join('?' if n is None else str(n) for n in shape)}]"
        for name, shape in shapes.items()
    )


def shape_flags(fixed: FixedShapes) -> str:
    """Return what to do about open dimensions on a command line of ours."""
    flags = " ".join(f"--shape {name}={','.join(map(str, dims))}" for name, dims in fixed.items())
    return f"fix them by {flags}"


class _Lists(threading.local):
    """Lists that each thread's errors go to, innermost last."""

    def __init__(self) -> None:
        self.found: list[list[str]] = []


_lists = _Lists()


@contextlib.contextmanager
def collected_diagnostics() -> Iterator[list[str]]:
    """Give a list that this thread's errors of TVM's go to, each once, rather than to stderr."""
    # A PassContext keeps the renderer of the first pass that ran in it, and of one that failed.
    # Were that ours, the context that a thread has by default would let go of it after Python's
    # end, and crash: so the block has a context of its own, which ends with it.
    with _RENDERER.inside(), changed_context(instruments=()):
        _lists.found.append([])
        try:
            yield _lists.found[-1]
        finally:
            _lists.found.pop()


def _collect(context: diagnostics.DiagnosticContext) -> None:
    found = _lists.found[-1]
    for item in context.diagnostics:
        is_error = item.level <= diagnostics.DiagnosticLevel.ERROR
        text = str(item.message).strip()
        if is_error and not is_consequence(text) and text not in found:
            found.append(text + _place(item.span))


def _make_renderers(before: Callable[[], Any] | None) -> Callable[[], Any]:
    """Return what TVM asks for a renderer: ours for a thread that collects, else as it was."""
    others = before or tvm.get_global_func("diagnostics.DefaultRenderer")
    return lambda: diagnostics.DiagnosticRenderer(_collect) if _lists.found else others()


_RENDERER = ScopedFix("diagnostics", _make_renderers)


def _place(span: relay.Span | None) -> str:
    """Tell where in a module's text it is, when it has one."""
    if not isinstance(span, relay.Span) or not span.line:
        return ""
    return f" (line {span.line}, column {span.column})"
