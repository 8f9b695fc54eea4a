# SPDX-License-Identifier: Apache-2.0
"""`--target` with backends among the targets, and target kinds as stock tvmc lists them.

tvmc wants its one or two TVM targets last and knows of no external kind but its own composite ones;
our kinds, and the attribute `partition_rule` that ours adds to all, would else appear in its help
and in what it takes without --collage. Test: tvmc/test_targets.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import tvm
from tvm._ffi import get_global_func
from tvm.target import Target

from ..backends import get_backend, list_backends
from ..backends.target_options import options_of
from ..backends.targets import parse_targets, split_targets
from ..compile import host_target
from ..errors import CollageError
from ..messages.foreign import last_line
from ..relay_util.external import is_external
from ..tvm_fixes.apply import replace
from .compilation import before, current

# Whether TVM's lists of target kinds and of their options are to be those of TVM alone.
_is_stock: ContextVar[bool] = ContextVar("collage_tvmc_stock_kinds", default=False)

# Beside which backends are looked at, before the host itself is.
_ANY_HOST = "llvm"


def wrap(_module: Any) -> None:
    """Put our view into tvm.driver.tvmc.target."""
    names = ("generate_target_args", "reconstruct_target_args", "parse_target", "validate_targets")
    makes: dict[str, Any] = dict.fromkeys(names, _with_stock_kinds)
    makes["target_from_cli"] = lambda stock: _with_backends(_with_stock_kinds(stock))
    replace("tvmc targets", makes)
    _hide_from_lists()


def split_target(text: str) -> tuple[str, list[str]]:
    """Return what of a target text is tvmc's, and the backends in it, in any order.

    A file's name and inline JSON, which are one target, are all tvmc's, as are its composite
    targets; a name that nobody knows is taken for a backend's. Where no host is named, it is
    this CPU.
    """
    from tvm.driver.tvmc import target as module

    if os.path.isfile(text) or module.is_inline_json(text):
        return text, []
    composites = module.get_codegen_names()

    def is_backend(name: str) -> bool:
        return name not in composites and (
            name not in Target.list_kinds() or is_external(Target(name))
        )

    theirs, backends = list[str](), list[str]()
    for each in split_targets(text, "--target"):
        (backends if is_backend(each.split()[0]) else theirs).append(each)
    if (theirs or backends) and all(each.split()[0] in composites for each in theirs):
        theirs.append(str(host_target()))
    return ", ".join(theirs), backends


def make_backends(texts: list[str]) -> list[Target]:
    """Make targets of the backends; UnknownBackendError and others as of a target list, ValueError
    for an attribute that a backend does not take."""
    if not texts:
        return []
    list_backends()  # their target kinds have their options only then
    targets = list(parse_targets([_ANY_HOST, *texts]).external)
    for target in targets:
        backend = get_backend(target.kind.name)
        backend.with_options(options_of(backend, target))
    return targets


@before
def _with_backends(
    stock: Callable, target: Any, additional_target_options: Any = None
) -> tuple[Any, Any]:
    """Call tvmc's target_from_cli; during a compilation with Collage leave it the backends."""
    from tvm.driver.tvmc import TVMCException

    compilation = current()
    if compilation is None:
        return stock(target, additional_target_options)
    target, backends = split_target(target)
    if not target:
        raise TVMCException("--target is empty: name targets, or leave it out for all")
    try:
        compilation.backends = make_backends(backends)
        return stock(target, additional_target_options)
    except CollageError:
        raise
    except (ValueError, TypeError, tvm.TVMError) as error:
        raise TVMCException(f"--target: {last_line(error)}") from error


class StockTargetKind(NamedTuple):
    """A target kind of TVM's own, as it is without Collage (border.schema.json)."""

    name: str
    options: dict[str, str]  # their types by name


@before
def _with_stock_kinds(stock: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a function of tvmc so that it sees the target kinds of TVM alone."""
    token = _is_stock.set(True)
    try:
        return stock(*args, **kwargs)
    finally:
        _is_stock.reset(token)


def _hide_from_lists() -> None:
    """Let TVM's two lists have TVM's kinds and options alone, in its order, where _is_stock asks.

    That order is a hash table's, so that it cannot be had back by leaving ours out.
    """
    kinds = json.loads(get_global_func("collage.StockTargetKinds")())
    stock = {kind.name: kind.options for kind in (StockTargetKind(**fields) for fields in kinds)}

    def list_kinds(stock_list: Callable) -> list[str]:
        return list(stock) if _is_stock.get() else stock_list()

    def options_from_name(stock_options: Callable, kind_name: str) -> dict[str, str]:
        return dict(stock[kind_name]) if _is_stock.get() else stock_options(kind_name)

    def static(ours: Callable) -> Callable:
        return lambda stock_one: staticmethod(before(ours)(stock_one))

    replace(
        "target kinds",
        {"list_kinds": static(list_kinds), "options_from_name": static(options_from_name)},
    )
