# SPDX-License-Identifier: Apache-2.0
"""Backends: what they are, which are known, and the ones that come with Collage.

Imported with ``tvm.relay`` in every process, so that ``Target("dnnl")`` is known from the start;
everything but the target kinds waits for its first use. Test: backends/test_registry.py.
"""

from typing import Any

from tvm._ffi import get_global_func, register_func

from ..process_wide.interrupts import carried
from ..process_wide.lazy import late_function, lazy_attributes
from .stock import serve_tvms_partitioning

# Target kind of each backend that comes with Collage -> (device type, module, class).
_CPU = 1
BUILTIN = {
    "dnnl": (_CPU, ".dnnl", "DnnlBackend"),
    "dnnl_bf16": (_CPU, ".dnnl", "DnnlBf16Backend"),
    "onnxruntime": (_CPU, ".onnxruntime", "OnnxRuntimeBackend"),
    "openvino": (_CPU, ".openvino", "OpenVinoBackend"),
    "openvino_bf16": (_CPU, ".openvino", "OpenVinoBf16Backend"),
    "openvino_w8": (_CPU, ".openvino", "OpenVinoW8Backend"),
    "cblas": (_CPU, ".cblas", "CblasBackend"),
    "mkl": (_CPU, ".mkl", "MklBackend"),
    "xnnpack": (_CPU, ".xnnpack", "XnnpackBackend"),
}

# Public name -> the submodule that holds it; with a leading dot, a module below this package.
_LAZY = {
    "Backend": "interface",
    "add_pattern_rule": "extend",
    "add_patterns": "extend",
    "CompilerError": "own_code",
    "NeededLibrary": "own_code",
    "c_source_module": "own_code",
    "GRAPH_LEVEL": "interface",
    "OP_LEVEL": "interface",
    "BackendUnavailableError": ".errors",
    "UnknownBackendError": ".errors",
    "UnsupportedOpError": ".errors",
    "declared_colours": "registry",
    "list_traders": "registry",
    "find_backend": "registry",
    "get_backend": "registry",
    "list_backends": "registry",
    "register_backend": "registry",
    "registered_function_module": "own_code",
    "require_backend": "registry",
    "which_was_meant": "registry",
    "why_unavailable": "interface",
}

__all__ = ["BUILTIN", "register_builtin", *_LAZY]


def register_builtin() -> None:
    """Make target kinds and ``relay.ext.<name>`` known for each backend that comes with Collage.

    Cheap: the backend itself is imported when TVM first asks it to compile something.
    """
    for name, (device_type, _, _) in BUILTIN.items():
        get_global_func("collage.RegisterTargetKind")(name, device_type)
        _register_late(f"relay.ext.{name}", name, "compile")
        _register_late(f"relay.ext.{name}.constant_updater", name, "constants")
    serve_tvms_partitioning(BUILTIN)


def _register_late(global_name: str, backend: str, method: str) -> None:
    def late(*args: Any) -> Any:
        return getattr(_get_backend(backend), method)(*args)

    register_func(global_name, carried(late), override=True)


_get_backend = late_function(__name__, "registry:get_backend")

__getattr__ = lazy_attributes(__name__, _LAZY)
