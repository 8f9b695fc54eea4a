# SPDX-License-Identifier: Apache-2.0
"""The backend ``mkl``: what ``cblas`` takes, by Intel's Math Kernel Library.

Test: backends/test_blas.py.
"""

from __future__ import annotations

import ctypes

from .cblas import VERSION, CblasBackend
from .own_code import NeededLibrary

_LP64, _SEQUENTIAL = 0, 1  # sizes of 32 bits, and neither Intel's OpenMP nor TBB


class MklBackend(CblasBackend):
    """Intel's MKL, its sequential layer."""

    name = "mkl"
    colour = "#56b4e9"
    needs = NeededLibrary(
        title="MKL (libmkl_rt.so.3)",
        soname="libmkl_rt.so.3",
        variable="COLLAGE_MKL_LIBRARY",
        package="mkl==2026.2.0",
        patterns=("../../libmkl_rt.so.3", "../../../lib/libmkl_rt.so.3"),
    )
    prefix = ""
    setup = (
        "int MKL_Set_Interface_Layer(int), MKL_Set_Threading_Layer(int); "
        f"MKL_Set_Interface_Layer({_LP64}); MKL_Set_Threading_Layer({_SEQUENTIAL});"
    )

    def version(self) -> str:
        """Return MKL's version and kind of processor; RuntimeError where it is in other use."""
        file = self.needs.file()
        library, text = ctypes.CDLL(file), ctypes.create_string_buffer(256)
        # Before all else, which opens the layers.
        if library.MKL_Set_Interface_Layer(_LP64) != _LP64:
            raise RuntimeError(f"{file}: is in use already with 64-bit sizes")
        if (layer := library.MKL_Set_Threading_Layer(_SEQUENTIAL)) != _SEQUENTIAL:
            raise RuntimeError(f"{file}: is in use already with threads of its own (layer {layer})")
        library.MKL_Get_Version_String(text, len(text) - 1)
        return f"{text.value.decode()}, {VERSION}"
