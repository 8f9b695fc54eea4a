# SPDX-License-Identifier: Apache-2.0
"""Collage: every part of a model on the backend that was measured fastest there.

Imported by ``tvm.relay`` itself, in every process, so it loads our libraries, puts our pass and
build wrappers in place and leaves all else to the first use. Test: test_package.py.
"""

from .process_wide import native as _native
from .process_wide.lazy import lazy_attributes, show_in

_native.load()

from . import backends, integration, ops, options, rules  # noqa: E402, F401 - needs the libraries; registers

options.register()
backends.register_builtin()
integration.install()
# Names that users know by a package below the module that has them.
show_in(backends, {"greedy_partition": ".plans.greedy"})
show_in(
    rules,
    {"backend_rule": ".backends.rule", "make_byoc_partition_rule": ".backends.rule"},
)

# Submodule -> the public names that it holds, imported at the first use.
_NAMES_IN = {
    "errors": "BackendUnavailableError CollageError DeviceError ExecutorError HostTargetError "
    "ModelError ModuleError OptionError PlacementError UnknownBackendError",
    "backends": "Backend NeededLibrary add_pattern_rule add_patterns c_source_module list_backends "
    "register_backend registered_function_module",
    "backends.targets": "available_targets",
    "collage": "MEASURE_NUMBER MEASURE_REPEAT WARMUP_MIN_REPEAT_MS",
    "compile": "host_target",
    "compile.built": "Runner load_runner",
    "estimators": "CostEstimator CustomCostEstimator MockCostEstimator",
    "estimators.analytic": "AnalyticCostEstimator",
    "estimators.work": "Machine",
    "importer": "from_onnx quick_import",
    "inspect": "Match Refusal candidates dataflow_graph find_matches partition_specs refusals",
    "loaded": "Library load",
    "optimizer": "optimize",
    "options": "CollageOptions",
    "precision.place": "optimize_precision",
    "plans.placement": "Placement load_placement",
    "plans.placement.measured_deployed": "compare_kernels",
    "process_wide.denormals": "flush_denormals flushes_denormals",
    "result": "Result",
    "rpc": "find_device",
    "tuning.from_options": "update_tuning_log",
    "views": "CandidatePartition DataflowGraph IndexSet OpKind PartitionSpec SubGraph "
    "SubGraphConfig",
}
_LAZY = {name: module for module, names in _NAMES_IN.items() for name in names.split()}

__all__ = [*_LAZY]


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
