# SPDX-License-Identifier: Apache-2.0
"""Import finder that makes ``tvm.relay.collage`` ours without touching a stock file.

``_collage.pth`` calls install() at every interpreter start of the environment: this module
imports nothing that the interpreter has not loaded by then (under 1 ms), and all that costs more
waits in ``tvm_collage`` for the first ``import tvm``. Test: tvm_collage/test_hook.py.
"""

import _signal  # what `signal` is made of; the interpreter has it already
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for mypy alone
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

INTERRUPTED = 130  # the exit code, as shells have it for Ctrl-C
# Modules that are handed to a function when they were executed, before any other module has
# imported a name from them.
_HANDED: "dict[str, Callable[[ModuleType], None]]" = {}


class CollageFinder:
    """Meta-path finder: prepares the process when ``tvm`` is imported and places our package."""

    def find_spec(
        self, name: str, path: "Any" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Return our spec for ``tvm.relay.collage``, one that lets us act at its import for ``tvm``
        and for modules of hand_at_import, else None."""
        if name == "tvm":
            return self._find(name, path, target, _PreparingLoader)
        if name == "tvm.relay.collage":
            return _collage_spec()
        if name in _HANDED:
            return self._find(name, path, target, _HandingLoader)
        return None

    def _find(
        self,
        name: str,
        path: "Any",
        target: "ModuleType | None",
        make_loader: "Callable[[Any], Any]",
    ) -> "ModuleSpec | None":
        """Find a module as the finders after us do, with a loader of ours before its own."""
        others = sys.meta_path
        if self in others:
            others = others[others.index(self) + 1 :]
        for finder in others:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = make_loader(spec.loader)
                return spec
        return None


class _LoaderBefore:
    """Stands before a module's loader until the import begins, then steps out of the way.

    Finding a spec must not change the process (libraries ask "is TVM there?" that way); creating
    the module may.
    """

    def __init__(self, loader: "Any") -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._loader, name)


class _PreparingLoader(_LoaderBefore):
    """Prepares the process before ``tvm``."""

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        from tvm_collage.prepare import prepare_process

        spec.loader = self._loader
        prepare_process()
        return self._loader.create_module(spec)

    def exec_module(self, module: "ModuleType") -> None:
        self._loader.exec_module(module)


class _HandingLoader(_LoaderBefore):
    """Hands a module over when it was executed."""

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        return self._loader.create_module(spec)

    def exec_module(self, module: "Any") -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _HANDED[module.__name__](module)


def hand_at_import(name: str, take: "Callable[[ModuleType], None]") -> None:
    """Have a module that is not imported yet handed to ``take`` once it was executed."""
    _HANDED[name] = take


def _collage_spec() -> "ModuleSpec | None":
    from importlib.util import spec_from_file_location

    from tvm_collage import check_base_version, location

    check_base_version(getattr(sys.modules.get("tvm"), "__version__", "of an unknown version"))
    directory = location()
    return spec_from_file_location(
        "tvm.relay.collage",
        os.path.join(directory, "__init__.py"),
        submodule_search_locations=[directory],
    )


def end_interrupted(line: str) -> None:
    """End the process at once as Ctrl-C does: a line on standard error, if anybody reads that, and
    the shells' exit code. It is for tvm_collage.supervisor too, whose import costs more."""
    try:
        # Python's own stream, which may be another than native code's (tvm_collage/supervisor.py).
        stream = sys.stderr.fileno() if sys.stderr else 2
        begin = "\r\x1b[K" if os.isatty(stream) and line[:1] != "{" else ""  # in place of a bar
        os.write(stream, f"{begin}{line}\n".encode())
    finally:
        os._exit(INTERRUPTED)


def end_on_interrupt(_number: int, _frame: "Any") -> None:
    """End on Ctrl-C where nothing is under way yet that would have to be cleaned up, also where
    libraries that are imported would swallow or wrap an exception."""
    end_interrupted("tvmc: interrupted")


def is_tvmc_with_collage(words: list[str]) -> bool:
    """Tell whether a command line is `tvmc compile` with Collage asked for on it."""
    command = words[: words.index("compile")] if "compile" in words else []
    return any(
        word == "tvm.driver.tvmc" or os.path.basename(word) == "tvmc" for word in command
    ) and any(
        word.startswith("--collage") or "relay.collage.enable_collage=" in word for word in words
    )


def is_disabled() -> bool:
    """Tell whether COLLAGE_DISABLE asks for wholly stock TVM: any value but empty and 0."""
    return os.environ.get("COLLAGE_DISABLE", "0") not in ("", "0")


def install() -> None:
    """Put the finder first, once; nothing at all when disabled."""
    if is_disabled() or any(isinstance(finder, CollageFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, CollageFinder())
    is_default = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if is_default and is_tvmc_with_collage(sys.orig_argv):
        _signal.signal(_signal.SIGINT, end_on_interrupt)
