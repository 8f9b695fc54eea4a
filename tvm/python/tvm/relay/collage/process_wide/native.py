# SPDX-License-Identifier: Apache-2.0
"""Loads libtvm_collage_runtime.so and libtvm_collage.so and runs their one Init.

Precondition: libtvm.so is loaded with its symbols global, as ``import tvm`` does.
Test: relay/test_base_package.py.
"""

import ctypes

import tvm_collage
from tvm._ffi import get_global_func, libinfo

from ..messages.foreign import last_line

_LIBRARIES = ("tvm_collage_runtime", "tvm_collage")


def load() -> None:
    """Load both libraries once.

    ImportError names the library that was not built, or that does not fit this TVM package, and
    what to do about it.
    """
    for name in _LIBRARIES:
        path = tvm_collage.library_path(name)
        if path is None:
            looked = ", ".join(tvm_collage.library_directories())
            raise ImportError(
                f"lib{name}.so is not in {looked}: run `make build` or `pip install .` in "
                "tvm-collage's tree, name its folder in TVM_COLLAGE_LIBRARY_PATH, "
                "or set COLLAGE_DISABLE=1 to use TVM without Collage"
            )
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise ImportError(_misfit(f"{path}: {error}")) from None
    try:
        get_global_func("collage.Init")()
    except Exception as error:  # whatever the base package lacks, the user reads one line
        raise ImportError(_misfit(last_line(error))) from error


def _misfit(reason: str) -> str:
    return (
        f"tvm-collage {tvm_collage.__version__} does not fit the installed TVM "
        f"{libinfo.__version__} ({reason}): "
        f"run `pip install {tvm_collage.BASE_TVM_REQUIREMENT}` and build again, "
        "or set COLLAGE_DISABLE=1 to use TVM without Collage"
    )
