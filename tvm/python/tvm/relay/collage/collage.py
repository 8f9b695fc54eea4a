# SPDX-License-Identifier: Apache-2.0
"""The names of TVM's own ``tvm.relay.collage.collage`` module, kept for scripts that use them.

Test: test_package.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.target import Target

from .backends.rule import make_byoc_partition_rule
from .costs.cost import CostStatus
from .estimators import CostEstimator, CustomCostEstimator, MockCostEstimator
from .process_wide import ffi_api as _ffi_api
from .rules import make_labelled_dfpattern_partition_rule_wrapper

__all__ = [
    "CostEstimator",
    "CustomCostEstimator",
    "MEASURE_NUMBER",
    "MEASURE_REPEAT",
    "MockCostEstimator",
    "WARMUP_MIN_REPEAT_MS",
    "_ffi_api",
    "arg_for",
    "estimate_seconds",
    "make_byoc_partition_rule",
    "make_labelled_dfpattern_partition_rule_wrapper",
    "vm_estimate_seconds",
]

MEASURE_NUMBER = 20
MEASURE_REPEAT = 5
WARMUP_MIN_REPEAT_MS = 250


def arg_for(arg_type: relay.TensorType, device: tvm.runtime.Device) -> tvm.nd.NDArray:
    """Return a random tensor of a static relay.TensorType on ``device``, uniform in [-1, 1)."""
    if not isinstance(arg_type, tvm.ir.TensorType):
        raise TypeError(f"arg_for takes a TensorType, got {type(arg_type).__name__}")
    values = np.random.uniform(-1.0, 1.0, size=arg_type.concrete_shape)
    return tvm.nd.array(values.astype(arg_type.dtype), device=device)


def vm_estimate_seconds(
    device: tvm.runtime.Device, the_vm: Any, func_name: str, args: Mapping[str, Any]
) -> Any:
    """Return TVM's benchmark result of ``the_vm``'s function, after a warm-up of 250 ms."""
    the_vm.benchmark(
        device, repeat=1, number=1, min_repeat_ms=WARMUP_MIN_REPEAT_MS, func_name=func_name, **args
    )
    return the_vm.benchmark(
        device, repeat=MEASURE_REPEAT, number=MEASURE_NUMBER, func_name=func_name, **args
    )


@functools.cache
def own_estimator() -> CostEstimator:
    """Return the process's own, so that workers and costs stay from one call to the next."""
    return CostEstimator()


def estimate_seconds(mod: tvm.IRModule, target: Target) -> float:
    """Return the median seconds of @main on ``target``, infinity when it cannot be run.

    The old protocol of one candidate at a time; measured as every candidate is, in a worker.
    """
    [cost] = own_estimator().estimate_batch([mod], [target], ["@main"])
    return math.inf if cost.seconds is None or cost.status != CostStatus.MEASURED else cost.seconds
