# SPDX-License-Identifier: Apache-2.0
"""The operators of a model that each kernel of its plan computes, recorded while it is built.

TVM gives equal kernels, and equal parts, one symbol. So what tells them apart is the order in which
the executor calls them, which is that of the calls in main behind TVM's fusion.
Precondition: `stamp_nodes` was applied to the prepared module before the plan was made.
Test: measure/profiler/test_plan_kernels.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

import tvm
from tvm import relay
from tvm._ffi import get_global_func
from tvm.ir.instrument import pass_instrument

from ...compile.fast_passes import joined
from ...costs.shares import OperatorCall
from ...files.records import read_json
from ...relay_util.external import TVM_BACKEND, is_external_function
from ...relay_util.node_spans import node_of
from ...relay_util.walk import nodes_of, operator_calls

_logger = logging.getLogger(__name__)

# It makes each call anew without its span, and does nothing without control flow.
_DROPS_SPANS = "ToBasicBlockNormalForm"
_CONTROL_FLOW = (relay.If, relay.Let, relay.Match, relay.RefCreate)


@dataclasses.dataclass(frozen=True)
class PlanKernel:
    """A step of the executor: it calls a backend's part, or a kernel of TVM's."""

    symbol: str  # of a part; "" for TVM's
    backend: str
    # Its operator calls in their order: the node of each, None for one that a pass made.
    nodes: list[int | None]


@dataclasses.dataclass(frozen=True)
class PlanCalls:
    """A model's operator calls, and the kernels by which a plan runs them; JSON values alone."""

    calls: list[OperatorCall]  # of the prepared module's main
    kernels: list[PlanKernel]  # in the order in which the executor calls them


def calls_with_work(prepared: tvm.IRModule) -> list[OperatorCall]:
    """Return the operator calls of a typed module's main, with an estimate of the work of each."""
    return read_json(list[OperatorCall], get_global_func("collage.WorkOfCalls")(prepared["main"]))


@contextlib.contextmanager
def recorded_kernels(plan: tvm.IRModule) -> Iterator[list[PlanKernel]]:
    """Give a list that a build of the plan for the graph executor in the block fills."""
    recorder = _Recorder(plan)
    with joined(tvm.transform.PassContext.current(), recorder):
        yield recorder.kernels


@pass_instrument
class _Recorder:
    """The instrument that looks at what TVM has fused."""

    def __init__(self, plan: tvm.IRModule) -> None:
        self._plan = plan
        self.kernels: list[PlanKernel] = []

    def should_run(self, mod: tvm.IRModule, info: tvm.ir.transform.PassInfo) -> bool:
        return info.name != _DROPS_SPANS or bool(nodes_of(mod, *_CONTROL_FLOW))

    def run_after_pass(self, mod: tvm.IRModule, info: tvm.ir.transform.PassInfo) -> None:
        if info.name != "FuseOps":
            return
        try:
            calls = nodes_of(mod["main"].body, relay.Call)
            found = [self._kernel_of(call.op) for call in calls]
        except Exception as error:  # noqa: BLE001 - a plan is built whoever looks on
            _logger.warning("which operators the kernels compute is not known: %s", error)
            found = []
        self.kernels[:] = [kernel for kernel in found if kernel is not None]

    def _kernel_of(self, callee: relay.Expr) -> PlanKernel | None:
        function: Any = callee
        if isinstance(callee, relay.GlobalVar):
            function = self._plan[callee.name_hint]
        attrs = (function.attrs or {}) if isinstance(function, relay.Function) else {}
        if "Primitive" not in attrs:
            return None  # an operator inside a kernel, or a composite inside a part
        is_part = is_external_function(function)
        return PlanKernel(
            str(attrs["global_symbol"]) if is_part else "",
            str(attrs["Compiler"]) if is_part else TVM_BACKEND,
            [node_of(call) for call in operator_calls(function)],
        )
