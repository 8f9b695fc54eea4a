# SPDX-License-Identifier: Apache-2.0
"""Collage: every part of a model on the backend that was measured fastest there.

Imported by ``tvm.relay`` itself, in every process, so it loads our libraries, puts our pass and
build wrappers in place and leaves all else to the first use. Test: test_collage_package.py.
"""

from . import _native
from ._lazy import lazy_attributes

_native.load()

from . import backends, integration  # noqa: E402 - needs the libraries
from .analytic import AnalyticCostEstimator, Machine  # noqa: E402
from .collage import (  # noqa: E402
    MEASURE_NUMBER,
    MEASURE_REPEAT,
    WARMUP_MIN_REPEAT_MS,
    CostEstimator,
    CustomCostEstimator,
    MockCostEstimator,
)
from .errors import (  # noqa: E402
    BackendUnavailableError,
    CollageError,
    DeviceError,
    ExecutorError,
    HostTargetError,
    ModelError,
    ModuleError,
    OptionError,
    PlacementError,
    UnknownBackendError,
)

backends.register_builtin()
integration.install()

# Public name -> the submodule that holds it, imported at the first use.
_LAZY = {
    "host_target": "build",
    "available_targets": "targets",
    "find_device": "rpc",
    "from_onnx": "importer",
    "quick_import": "importer",
    "Backend": "backends",
    "register_backend": "backends",
    "add_pattern_rule": "backends",
    "add_patterns": "backends",
    "update_tuning_log": "tuning.standing_logs",
    "c_source_module": "backends",
    "registered_function_module": "backends",
    "list_backends": "backends",
    "flush_denormals": "denormals",
    "flushes_denormals": "denormals",
    "optimize": "optimizer",
    "Result": "result",
    "CollageOptions": "options",
    "Placement": "placement",
    "load_placement": "placement",
    "load_runner": "built",
    "Runner": "built",
    "CandidatePartition": "views",
    "Match": "matches",
    "find_matches": "matches",
    "DataflowGraph": "views",
    "IndexSet": "views",
    "OpKind": "views",
    "PartitionSpec": "views",
    "SubGraph": "views",
    "SubGraphConfig": "views",
    "candidates": "views",
    "compare_kernels": "report.kernels",
    "dataflow_graph": "views",
    "partition_specs": "views",
    "Refusal": "refusal",
    "refusals": "refusal",
}

__all__ = [
    "AnalyticCostEstimator",
    "Machine",
    "BackendUnavailableError",
    "CollageError",
    "CostEstimator",
    "CustomCostEstimator",
    "DeviceError",
    "ExecutorError",
    "HostTargetError",
    "MEASURE_NUMBER",
    "MEASURE_REPEAT",
    "MockCostEstimator",
    "ModelError",
    "ModuleError",
    "OptionError",
    "PlacementError",
    "UnknownBackendError",
    "WARMUP_MIN_REPEAT_MS",
    *_LAZY,
]


__getattr__ = lazy_attributes(__name__, _LAZY)


def __dir__():
    return sorted({*globals(), *_LAZY})
