# SPDX-License-Identifier: Apache-2.0
"""Gives products that no record of Ansor's is for the kernels that TVM has for them without Ansor.

Where the PassContext has TVM use Ansor's records, TVM 0.19 takes all dense layers and batched
products for kernels that Ansor has a schedule for: weights are not packed, and one without a record
gets loops that nobody scheduled, many times slower than TVM's own. A log that serves one layer of a
net so makes its others slow. Here such a product is one as in a build without records.

A product has its record by the shapes of its operands, which the record's workload lists with those
of whatever is fused to it: one number after the other, without saying where a shape ends. That they
are there does not say that there is a record, since those of a larger product may look alike; that
they are not says that there is none, and nothing changes for the rest. While TVM extracts the
kernels that Ansor is to search for, all products are Ansor's.
Test: compile/test_unserved_products.py
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tvm import auto_scheduler
from tvm.auto_scheduler.dispatcher import DispatchContext, FallbackContext
from tvm.auto_scheduler.relay_integration import TracingEnvironment, TracingMode
from tvm.relay.backend import te_compiler
from tvm.relay.op.strategy.generic import get_auto_scheduler_rewritten_layout

from ..process_wide.shared_patch import SharedPatch
from ..relay_util.changed_context import changed_context
from .thread_contexts import of_this_thread

_PRODUCTS = ("nn.dense", "nn.matmul", "nn.batch_matmul")
_KEY = "relay.backend.use_auto_scheduler"
_Shape = tuple[int | None, ...]
# In this thread: the function is patched for all.
_is_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("is_inside", default=False)


@contextlib.contextmanager
def unserved_products() -> Iterator[None]:
    """Context in which builds, those for Ansor's records, too, take TVM's own kernels for them."""
    token = _is_inside.set(True)
    try:
        with _PATCH.inside():
            yield
    finally:
        _is_inside.reset(token)


def _select(stock: Callable[..., Any]) -> Callable[..., Any]:
    def select(
        op: Any, attrs: Any, inputs: Any, out_type: Any, target: Any, *args: Any, **keywords: Any
    ) -> Any:
        given = (op, attrs, inputs, out_type, target, *args)
        is_ansors = _is_inside.get() and auto_scheduler.is_auto_scheduler_enabled()
        if not is_ansors or op.name not in _PRODUCTS or _is_extracting():
            return stock(*given, **keywords)
        if _may_be_served(attrs, inputs, out_type, target):
            return stock(*given, **keywords)
        with changed_context({_KEY: False}, instruments=[]):
            return stock(*given, **keywords)

    return select


def _is_extracting() -> bool:
    tracing = TracingEnvironment.current
    return tracing is not None and tracing.tracing_mode != TracingMode.PREPARE_LAYOUT_REWRITE


def _may_be_served(attrs: Any, inputs: Sequence[Any], out_type: Any, target: Any) -> bool:
    if get_auto_scheduler_rewritten_layout(attrs):  # its weight has another shape by now
        return True
    operands = list(map(_shape, inputs))
    context = of_this_thread(DispatchContext.current)
    while not isinstance(context, FallbackContext):
        # A context of somebody's own, or one that takes records of other shapes, may serve all.
        if type(context) is not auto_scheduler.ApplyHistoryBest or context.include_compatible:
            return True
        for arguments in _workloads(context, target):
            if not arguments or _lists(arguments, operands, _shape(out_type)):
                return True
        context = of_this_thread(context._old_ctx)
    return False


def _workloads(context: auto_scheduler.ApplyHistoryBest, target: Any) -> Iterator[Any]:
    """The arguments of those that the context has a state for, on such a target."""
    for table in (context._best_user_defined, context.best_by_model, context.best_by_targetkey):
        for key in (target.model, *target.keys):
            for row in table.get(key, {}).values():
                yield from row


def _lists(arguments: Sequence[Any], operands: Sequence[_Shape], result: _Shape) -> bool:
    """Whether a workload's arguments, shapes in a row, may be a product's: its operands are there,
    and one follows the other or the row ends with the result, as unless a broadcast is fused."""
    return all(_has(arguments, each) for each in operands) and (
        _has(arguments, sum(operands, ())) or tuple(arguments[-len(result) :]) == result
    )


def _shape(tensor: Any) -> _Shape:
    return tuple(getattr(dim, "value", None) for dim in tensor.shape)


def _has(numbers: Sequence[Any], wanted: _Shape) -> bool:
    size = len(wanted)
    return any(
        tuple(numbers[start : start + size]) == wanted for start in range(len(numbers) - size + 1)
    )


_PATCH = SharedPatch.of_attribute(te_compiler, "select_implementation", _select)
