# SPDX-License-Identifier: Apache-2.0
"""Backends: what they are, which are known, and the ones that come with Collage.

Imported with ``tvm.relay`` in every process, so that ``Target("dnnl")`` is known from the start;
everything but the target kinds waits for its first use. Test: test_backends.py.
"""

import importlib

from tvm._ffi import get_global_func

# Target kind of each backend that comes with Collage -> (device type, module, class).
_CPU = 1
BUILTIN = {"dnnl": (_CPU, ".dnnl", "DnnlBackend")}

# Public name -> the submodule that holds it.
_LAZY = {
    "Backend": "interface",
    "GRAPH_LEVEL": "interface",
    "OP_LEVEL": "interface",
    "BackendUnavailableError": "errors",
    "UnknownBackendError": "errors",
    "UnsupportedOpError": "errors",
    "find_backend": "registry",
    "get_backend": "registry",
    "greedy_partition": "greedy",
    "list_backends": "registry",
    "register_backend": "registry",
    "require_backend": "registry",
}

__all__ = ["BUILTIN", "register_target_kinds", *_LAZY]


def register_target_kinds():
    """Make ``Target("<name>")`` known for each backend that comes with Collage."""
    for name, (device_type, _, _) in BUILTIN.items():
        get_global_func("collage.RegisterTargetKind")(name, device_type)


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value
