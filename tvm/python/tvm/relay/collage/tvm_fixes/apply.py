# SPDX-License-Identifier: Apache-2.0
"""Changes of TVM, made for rows of `table.FIXES`: this file alone writes to TVM.

Each function takes the name of a row, so nothing is changed that the table does not have.
Test: tvm_fixes/test_table.py.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tvm
from tvm._ffi.registry import remove_global_func

from ..process_wide.shared_patch import SharedPatch
from ..relay_util.operators import operators, operators_with
from .table import FIXES

# What makes of TVM's own what stands in its place.
Make = Callable[[Any], Any]
_KEPT = "_collage_stock_"  # before a name: where its owner keeps TVM's own
_MARK = "_collage_fix"  # on what stands in a place


def replace(name: str, make: Make | Mapping[str, Make]) -> None:
    """Put what `make` makes into the places of a row for good, where that was not done yet.

    make: for all places, or by the name of the function.
    """
    for place in FIXES[name].places:
        attribute = place.rpartition(":")[2].rpartition(".")[2]
        made = make if callable(make) else make[attribute]
        if place.startswith("global:"):
            function = place.partition(":")[2]
            stock = tvm.get_global_func(function, allow_missing=True)
            tvm.register_func(function, made(stock), override=True)
            continue
        owner, attribute = _find(place)
        stock = getattr(owner, attribute, None)  # which TVM may have been built without
        if getattr(stock, _MARK, None) == name:
            continue
        ours = made(stock)
        with contextlib.suppress(AttributeError):  # of what is no function of Python's
            setattr(ours, _MARK, name)
        setattr(owner, _KEPT + attribute.strip("_"), stock)
        setattr(owner, attribute, ours)


def stock(name: str, attribute: str) -> Any:
    """Return TVM's own function in a place of a row, whether or not `replace` has replaced it."""
    for place in FIXES[name].places:
        owner, found = _find(place)
        if found == attribute:
            return getattr(owner, _KEPT + attribute.strip("_"), None) or getattr(owner, attribute)
    raise KeyError(f"{name} has no place of the name {attribute}")


def put(name: str, value: Any) -> None:
    """Put a value into the one place of a row."""
    [place] = FIXES[name].places
    setattr(*_find(place), value)


def set_op_attributes(name: str, key: str, values: Mapping[str, Any]) -> None:
    """Have operators of these names, and no others, have these values of an attribute."""
    assert any(place.startswith("attribute:") for place in FIXES[name].places)
    for op in operators_with(key).values():
        op.reset_attr(key)
    for each in operators().keys() & values.keys():
        tvm.ir.register_op_attr(each, key, values[each])


class ScopedFix:
    """A row whose places are others while anybody, in any thread, is inside."""

    def __init__(self, name: str, make: Make) -> None:
        self._patches = [_patch(place, make) for place in FIXES[name].places]

    @contextlib.contextmanager
    def inside(self) -> Iterator[list[Any]]:
        """Have ours stand in the row's places during the block; give them."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(patch.inside()) for patch in self._patches]


def _patch(place: str, make: Make) -> SharedPatch:
    kind, _, name = place.partition(":")
    if kind == "logger":
        logger = logging.getLogger(name)
        return SharedPatch(lambda: logger.level, logger.setLevel, lambda level, _: make(level))
    if kind == "global":
        return SharedPatch(
            lambda: tvm.get_global_func(name, allow_missing=True),
            lambda function: _put_global(name, function),
            lambda before, _: make(before),
            same=lambda a, b: a is not None and b is not None and a.handle.value == b.handle.value,
        )
    return SharedPatch.of_attribute(*_find(place), make)


def _put_global(name: str, function: Any) -> None:
    if function is None:
        remove_global_func(name)
    else:
        tvm.register_func(name, function, override=True)


def _find(place: str) -> tuple[Any, str]:
    """Return the module or class of TVM that has a place, and the attribute that it is."""
    module, _, path = place.partition(":")
    *classes, attribute = path.split(".")
    owner: Any = importlib.import_module(module)
    for each in classes:
        owner = getattr(owner, each)
    return owner, attribute
