# SPDX-License-Identifier: Apache-2.0
"""Collage: every part of a model on the backend that was measured fastest there.

Imported by ``tvm.relay`` itself, in every process, so it loads our libraries, puts our pass and
build wrappers in place and leaves all else to the first use. Test: test_package.py.
"""

from .process_wide import native as _native
from .process_wide.lazy import lazy_attributes, show_in

_native.load()

from . import backends, integration, ops, options, rules  # noqa: E402, F401 - needs the libraries; registers
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

options.register()
backends.register_builtin()
integration.install()
# Names that users know by a package below the module that has them.
show_in(backends, {"greedy_partition": ".plans.greedy"})
show_in(
    rules,
    {"backend_rule": ".backends.rule", "make_byoc_partition_rule": ".backends.rule"},
)

# Public name -> the submodule that holds it, imported at the first use.
_LAZY = {
    "AnalyticCostEstimator": "estimators.analytic",
    "CostEstimator": "estimators",
    "CustomCostEstimator": "estimators",
    "MEASURE_NUMBER": "collage",
    "MEASURE_REPEAT": "collage",
    "Machine": "estimators.work",
    "MockCostEstimator": "estimators",
    "WARMUP_MIN_REPEAT_MS": "collage",
    "host_target": "compile",
    "available_targets": "backends.targets",
    "find_device": "rpc",
    "from_onnx": "importer",
    "quick_import": "importer",
    "Backend": "backends",
    "register_backend": "backends",
    "add_pattern_rule": "backends",
    "add_patterns": "backends",
    "update_tuning_log": "tuning.from_options",
    "NeededLibrary": "backends",
    "c_source_module": "backends",
    "registered_function_module": "backends",
    "list_backends": "backends",
    "flush_denormals": "process_wide.denormals",
    "flushes_denormals": "process_wide.denormals",
    "optimize": "optimizer",
    "Library": "loaded",
    "Result": "result",
    "CollageOptions": "options",
    "Placement": "plans.placement",
    "load": "loaded",
    "load_placement": "plans.placement",
    "load_runner": "compile.built",
    "Runner": "compile.built",
    "CandidatePartition": "views",
    "Match": "inspect",
    "find_matches": "inspect",
    "DataflowGraph": "views",
    "IndexSet": "views",
    "OpKind": "views",
    "PartitionSpec": "views",
    "SubGraph": "views",
    "SubGraphConfig": "views",
    "candidates": "inspect",
    "compare_kernels": "plans.placement.measured_deployed",
    "dataflow_graph": "inspect",
    "partition_specs": "inspect",
    "Refusal": "inspect",
    "refusals": "inspect",
}

__all__ = [
    "BackendUnavailableError",
    "CollageError",
    "DeviceError",
    "ExecutorError",
    "HostTargetError",
    "ModelError",
    "ModuleError",
    "OptionError",
    "PlacementError",
    "UnknownBackendError",
    *_LAZY,
]


# Those that users reach as attributes: collage.rules.Union, and TVM's own collage.collage.
_MODULES = {
    "analytic": "estimators.analytic",
    "collage": "collage",
    "compile": "compile",
    "estimators": "estimators",
    "measure": "measure",
    "options": "options",
    "rules": "rules",
    "targets": "backends.targets",
}

__getattr__ = lazy_attributes(__name__, _LAZY, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})
