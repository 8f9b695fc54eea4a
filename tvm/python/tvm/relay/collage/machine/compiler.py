# SPDX-License-Identifier: Apache-2.0
"""The C++ compiler that links what is measured: which one, and whether it works at all.

Test: exec/test_machine_fault.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping

from ..errors import MachineError

# In the order in which TVM looks for them (contrib/cc.py).
_NAMES = ("g++", "gcc", "clang++", "clang", "c++", "cc")
_PROBE_SECONDS = 30.0


def find_compiler(environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of the compiler that TVM links libraries with: CXX or CC where that is set,
    else one of the usual names on PATH; "" for none."""
    named = _named(environment)[1]
    path = environment.get("PATH")
    names = [named] if named else _NAMES
    return next((found for name in names if (found := shutil.which(name, path=path))), "")


def require_compiler() -> None:
    """MachineError when there is none, so that it is said once, before anything is measured."""
    if not find_compiler():
        variable, named = _named(os.environ)
        what = (
            f"{variable} names {named!r}, which is no program on PATH"
            if named
            else (f"CXX is not set, and PATH has none of {', '.join(_NAMES)}")
        )
        raise MachineError(
            f"no C++ compiler, which links each candidate that is measured: {what}. Install g++ "
            "(Debian, Ubuntu: apt install g++), or set CXX to the path of a compiler"
        )


def why_it_does_not_link(compiler: str = "") -> str:
    """Return what keeps a compiler (the usual one by default) from linking even an empty library;
    "" when it does that. Takes a tenth of a second."""
    compiler = compiler or find_compiler()
    if not compiler:
        return "there is no C++ compiler"
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "empty.so")
        command = [compiler, "-shared", "-fPIC", "-x", "c", os.devnull, "-o", library]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"the compiler {compiler} does not run: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return f"{compiler} cannot link an empty library: {' | '.join(said[-2:])[:300]}"


def _named(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable that names a compiler, and the name; empty texts for none."""
    found = ((variable, environment.get(variable, "")) for variable in ("CXX", "CC"))
    return next((pair for pair in found if pair[1]), ("", ""))
