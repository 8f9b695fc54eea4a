# SPDX-License-Identifier: Apache-2.0
"""A library file of what was built, linked without the C++ library where that is possible.

Half of the linker's work is for C++'s library, and TVM's own kernels call C, mathematics and the
compiler's conversions of half floats at most. What else a library may be made of (C++ sources, a
backend's archives) is linked as TVM does; the code is the same either way.
Test: compile/test_link.py.
"""

from __future__ import annotations

import sys
from typing import Any

_WITHOUT_CPP = ("-nostdlib", "-lgcc", "-lm", "-lc")


def export(factory: Any, library: str, **keywords: Any) -> None:
    """Do factory.export_library(library, **keywords), faster where the library allows it."""
    if can_leave_cpp_out(factory):
        try:
            factory.export_library(library, options=list(_WITHOUT_CPP), **keywords)
            return
        except RuntimeError:  # a compiler without these options or libraries
            pass
    factory.export_library(library, **keywords)


def can_leave_cpp_out(factory: Any) -> bool:
    """Tell whether all objects of the library come from TVM's own LLVM."""
    module = getattr(factory, "module", None)
    if sys.platform != "linux" or module is None:
        return False
    return all(part.type_key == "llvm" for part in module._collect_dso_modules())
