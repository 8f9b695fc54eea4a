# SPDX-License-Identifier: Apache-2.0
"""TVM imported for a command of ours, which needs less of it than a program may. A program's own
`import tvm` is left as it is. Test: tvm_collage/test_loading.py.

Some modules of TVM, and of what it imports, are executed when somebody first asks for what is in
them. TVM's list of its global functions, which it reads anew for each of some eighty modules, is
read once. And TVM finds no xgboost, which its tuners import with scipy, unless the command tunes.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from tvm_collage_hook import hand_at_import

# Modules that no command needs whole. Each only binds names, and is bound by who imports it.
LATE = {
    "onnx.hub",  # downloads models, by Python's client of HTTPS
    "tvm.relax",  # TVM's other graph language
    "tvm.relay.frontend",  # importers of a dozen formats
}
_OF_TUNERS = "xgboost"
_REGISTRY = "tvm._ffi.registry"


@contextlib.contextmanager
def quick_loading(tunes: bool = True) -> Iterator[None]:
    """Have TVM loaded so by an import in the block; where it is loaded already nothing changes.
    `tunes`: whether its tuners will be used."""
    if "tvm" in sys.modules:
        yield
        return
    finder = _LateFinder(hidden=() if tunes else (_OF_TUNERS,))
    sys.meta_path.insert(0, finder)
    hand_at_import(_REGISTRY, _read_names_once)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _LateFinder:
    """Import finder for the modules of LATE, and for packages that are `hidden`."""

    def __init__(self, hidden: Sequence[str]) -> None:
        self._hidden = hidden

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec by which the module is there, and not executed; None for all others.
        ModuleNotFoundError for what is hidden, as for what is not installed."""
        if name in self._hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        spec = PathFinder.find_spec(name, path) if name in LATE else None
        if spec is not None:
            spec.loader = _LateLoader(spec.loader)  # type: ignore[assignment] # as a loader is
        return spec


class _LateLoader:
    """Loads a module later."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _LateModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__.loader = module.__loader__ = self._loader  # type: ignore[union-attr]


class _LateModule(ModuleType):
    """A module that is executed when it is asked for a name that it has not. A package is asked for
    its modules as well, and gives them without that."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if "__path__" in vars(self) and find_spec(full) is not None:
            __import__(full)
            return sys.modules[full]
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__loader__.exec_module(self)  # type: ignore[union-attr]
        return getattr(self, name)


def _read_names_once(registry: Any) -> None:
    """Have the names of global functions read again only where their number has changed."""
    stock = registry.list_global_func_names
    known: list[str] = []

    def names() -> list[str]:
        found, count = ctypes.POINTER(ctypes.c_char_p)(), ctypes.c_uint()
        function = registry._LIB.TVMFuncListGlobalNames
        registry.check_call(function(ctypes.byref(count), ctypes.byref(found)))
        if count.value != len(known):
            known[:] = stock()
        return list(known)

    registry.list_global_func_names = names
