# SPDX-License-Identifier: Apache-2.0
"""Builds with Ansor's records: weights of dense layers laid out anew, and layers without a record.

Ansor writes a layout as lengths and names of axes, such as 4j8k16j. The axes of TVM's product of
matrices are called i0, i1, ..., whose digits it then reads as lengths ("name_it !=
name_to_arg.end()"); and where a weight is laid out anew, an assertion of topi/nn/dense.py fails. So
the product has other names here while something is built, and knows the shape that its weight had.
A batch of one product fails too ("The indices must be expression"): its weight stays as it is.
Ansor's key of a kernel is a hash of a text with these names. It is made of TVM's own, so records
that people have still serve. Precondition: weights have two dimensions, as those of Relay's
operators.

TVM's pass that lays weights out keeps what it does in one place of the process, where another
thread's build would find it and get default schedules, and leaves it there when it raises. So one
thread at a time builds for Ansor's records.

Where the PassContext has TVM use Ansor's records, TVM 0.19 takes all dense layers and batched
products for kernels that Ansor has a schedule for: weights are not packed, and one without a record
gets loops that nobody scheduled, many times slower than TVM's own. A log that serves one layer of a
net so makes its others slow. Here such a product is one as in a build without records. A product
has its record by the shapes of its operands, which the record's workload lists with those of
whatever is fused to it: one number after the other, without saying where a shape ends. That they
are there does not say that there is a record, since those of a larger product may look alike; that
they are not says that there is none, and nothing changes for the rest. While TVM extracts the
kernels that Ansor is to search for, all products are Ansor's.

Test: tvm_fixes/test_ansor.py, tvm_fixes/test_unserved_products.py
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tvm
from tvm import auto_scheduler, relay, te, tir
from tvm.auto_scheduler.dispatcher import DispatchContext, FallbackContext
from tvm.auto_scheduler.relay_integration import TracingEnvironment, TracingMode
from tvm.relay.op.strategy.generic import get_auto_scheduler_rewritten_layout

from ..relay_util.changed_context import changed_context
from .apply import ScopedFix, put
from .thread_contexts import of_this_thread

# What axis number 0, 1, ... is called: nothing else in TVM is, and a layout may hold it.
_LETTERS = "ABCDEFGH"
_NAMED = re.compile(rf"\baxis([{_LETTERS}])\b")
# Reentrant: a build has parts that are built.
_ONE_THREAD = threading.RLock()

_PRODUCTS = ("nn.dense", "nn.matmul", "nn.batch_matmul")
_KEY = "relay.backend.use_auto_scheduler"
_Shape = tuple[int | None, ...]
# In this thread: the function is another for all.
_is_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("is_inside", default=False)


def with_usual_names(text: str) -> str:
    """Return the text of a computation with TVM's own names of the axes."""
    return _NAMED.sub(lambda found: f"i{_LETTERS.index(found[1])}", text)


@contextlib.contextmanager
def ansors_products() -> Iterator[None]:
    """Have builds in the block take Ansor's records for dense layers, and TVM's own kernels for
    those without."""
    token = _is_inside.set(True)
    try:
        with matmul_axes(), _SELECT.inside():
            yield
    finally:
        _is_inside.reset(token)


@contextlib.contextmanager
def matmul_axes() -> Iterator[None]:
    """Have builds in the block name the axes of products by letters. Where the PassContext has them
    use Ansor's records, wait for other threads' such builds."""
    is_ansors = auto_scheduler.is_auto_scheduler_enabled()
    with (
        traced_alone() if is_ansors else contextlib.nullcontext(),
        _MATMUL.inside(),
        _BATCH_MATMUL.inside(),
        _KEYS.inside(),
    ):
        yield


@contextlib.contextmanager
def traced_alone() -> Iterator[None]:
    """Let no other thread have Ansor trace kernels during the block; what failed while it did so
    leaves no trace."""
    with _ONE_THREAD:
        before = TracingEnvironment.current
        try:
            yield
        finally:
            # Not `before`: another's, from outside of such a context, may have ended meanwhile.
            if TracingEnvironment.current is not before:
                put("tracing", None)


def _name(axis: int) -> str:
    return f"axis{_LETTERS[axis]}"


def with_named_axes(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return topi's matmul of two operands whose axes a layout of Ansor's may name."""
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def matmul(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        if not auto_scheduler.is_auto_scheduler_enabled() or given.get("bias") is not None:
            return stock(*args, **kwargs)
        axes = len(given["tensor_a"].shape)
        if axes > len(_LETTERS):
            return stock(*args, **kwargs)
        layout = given.pop("auto_scheduler_rewritten_layout", "")
        if not layout:
            return _with_letters(stock(**given), may_lay_out=not given.get("transpose_a"))
        weight = given["tensor_b"]
        names = [_name(axes - 1), "k"]
        if not given.get("transpose_b"):
            names.reverse()
        laid_out = weight.shape
        shape = auto_scheduler.get_shape_from_rewritten_layout(layout, names)
        auto_scheduler.rewrite_tensor_shape(weight, shape)
        try:
            product = _with_letters(stock(**given))
        finally:
            auto_scheduler.rewrite_tensor_shape(weight, laid_out)
        return auto_scheduler.rewrite_compute_body(product, layout)

    return matmul


def _of_batches(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def batch_matmul(tensor_a: te.Tensor, tensor_b: te.Tensor, *args: Any, **kwargs: Any) -> Any:
        product = stock(tensor_a, tensor_b, *args, **kwargs)
        is_one = isinstance(tensor_b.shape[0], tir.IntImm) and tensor_b.shape[0] == 1
        if not is_one or not auto_scheduler.is_auto_scheduler_enabled():
            return product
        return _remade(product.op, product.op.axis, product.op.body, {})

    return batch_matmul


def _with_letters(product: te.Tensor, may_lay_out: bool = True) -> te.Tensor:
    """Return the same computation, its axes named anew, with or without a weight to lay out: of a
    product whose data is transposed Relay would take the type wrongly then."""
    operation = product.op
    attrs = dict(operation.attrs.items()) if may_lay_out else {}
    axes = [
        tir.IterVar(
            axis.dom, tir.Var(_name(place), axis.var.dtype), axis.iter_type, axis.thread_tag
        )
        for place, axis in enumerate(operation.axis)
    ]
    new = {old.var: axis.var for old, axis in zip(operation.axis, axes, strict=True)}
    # Substitution is defined on statements.
    bodies = [tir.stmt_functor.substitute(tir.Evaluate(b), new).value for b in operation.body]
    return _remade(operation, axes, bodies, attrs)


def _remade(
    operation: te.ComputeOp,
    axes: Sequence[tir.IterVar],
    bodies: Sequence[tir.PrimExpr],
    attrs: Mapping[str, Any],
) -> te.Tensor:
    """Return a computation of one result with other axes, bodies and attributes."""
    make = tvm.get_global_func("te.ComputeOp")
    return make(operation.name, operation.tag, attrs, axes, bodies).output(0)


def _select(stock: Callable[..., Any]) -> Callable[..., Any]:
    def select(
        op: tvm.ir.Op,
        attrs: tvm.ir.Attrs,
        inputs: Sequence[te.Tensor],
        out_type: relay.TensorType,
        target: tvm.target.Target,
        *args: Any,
        **keywords: Any,
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


def _may_be_served(
    attrs: tvm.ir.Attrs,
    inputs: Sequence[Any],
    out_type: relay.TensorType,
    target: tvm.target.Target,
) -> bool:
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


def _workloads(
    context: auto_scheduler.ApplyHistoryBest, target: tvm.target.Target
) -> Iterator[Any]:
    """Give the arguments of those that the context has a state for, on such a target."""
    for table in (context._best_user_defined, context.best_by_model, context.best_by_targetkey):
        for key in (target.model, *target.keys):
            for row in table.get(key, {}).values():
                yield from row


def _lists(arguments: Sequence[Any], operands: Sequence[_Shape], result: _Shape) -> bool:
    """Tell whether a workload's arguments, shapes in a row, may be a product's: its operands are
    there, and one follows the other or the row ends with the result, as unless a broadcast is
    fused."""
    return all(_has(arguments, each) for each in operands) and (
        _has(arguments, sum(operands, ())) or tuple(arguments[-len(result) :]) == result
    )


def _shape(tensor: te.Tensor) -> _Shape:
    return tuple(getattr(dim, "value", None) for dim in tensor.shape)


def _has(numbers: Sequence[Any], wanted: _Shape) -> bool:
    size = len(wanted)
    return any(
        tuple(numbers[start : start + size]) == wanted for start in range(len(numbers) - size + 1)
    )


# TVM calls the product by its name in topi.nn and in its own module.
_MATMUL = ScopedFix("matmul", with_named_axes)
_BATCH_MATMUL = ScopedFix("batch_matmul", _of_batches)
_KEYS = ScopedFix(
    "keys of Ansor's kernels",
    lambda stock: lambda dag, simple: with_usual_names(stock(dag, simple)),
)
_SELECT = ScopedFix("products without a record", _select)
