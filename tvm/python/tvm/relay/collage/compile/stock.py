# SPDX-License-Identifier: Apache-2.0
"""TVM's own build functions, whether or not Collage has wrapped them.

The wrapper that serves `relay.collage.enable_collage` keeps each original on the module it wrapped.

Test: compile/test_library.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.relay import build_module
from tvm.relay.backend import vm


def stock_build() -> Callable[..., Any]:
    """TVM's `relay.build`."""
    return getattr(build_module, "_collage_stock_build", None) or build_module.build


def stock_vm_compile() -> Callable[..., Any]:
    """TVM's `relay.vm.compile`."""
    return getattr(vm, "_collage_stock_compile", None) or vm.compile
