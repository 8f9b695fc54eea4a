# SPDX-License-Identifier: Apache-2.0
"""Has Ansor lay out the weights of dense layers anew, at which TVM 0.19 fails.

Ansor writes a layout as lengths and names of axes, such as 4j8k16j. The axes of TVM's product of
matrices are called i0, i1, ..., whose digits it then reads as lengths ("name_it !=
name_to_arg.end()"); and where a weight is laid out anew, an assertion of topi/nn/dense.py fails. So
the product has other names here while something is built, and knows the shape that its weight had.
A batch of one product fails too ("The indices must be expression"): its weight stays as it is.

TVM's pass that lays weights out keeps what it does in one place of the process, where another
thread's build would find it and get default schedules, and leaves it there when it raises. So one
thread at a time builds for Ansor's records.

Ansor's key of a kernel is a hash of a text with these names. It is made of TVM's own, so records
that people have still serve. Precondition: weights have two dimensions, as those of Relay's
operators. Test: compile/test_matmul_axes.py
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tvm
from tvm import auto_scheduler, te, tir, topi
from tvm.auto_scheduler.relay_integration import TracingEnvironment

from ..process_wide.shared_patch import SharedPatch

# What axis number 0, 1, ... is called: nothing else in TVM is, and a layout may hold it.
_LETTERS = "ABCDEFGH"
_NAMED = re.compile(rf"\baxis([{_LETTERS}])\b")
# Reentrant: a build has parts that are built.
_ONE_THREAD = threading.RLock()


def with_usual_names(text: str) -> str:
    """The text of a computation with TVM's own names of the axes."""
    return _NAMED.sub(lambda found: f"i{_LETTERS.index(found[1])}", text)


@contextlib.contextmanager
def matmul_axes() -> Iterator[None]:
    """Context in which builds for Ansor's records name the axes of products by letters. Where the
    PassContext has them use such records, it waits for other threads' such builds."""
    with contextlib.ExitStack() as stack:
        if auto_scheduler.is_auto_scheduler_enabled():
            stack.enter_context(traced_alone())
        for patch in _PATCHES:
            stack.enter_context(patch.inside())
        yield


@contextlib.contextmanager
def traced_alone() -> Iterator[None]:
    """Context in which no other thread has Ansor trace kernels; what failed while it did so leaves
    no trace."""
    with _ONE_THREAD:
        before = TracingEnvironment.current
        try:
            yield
        finally:
            # Not `before`: another's, from outside of such a context, may have ended meanwhile.
            if TracingEnvironment.current is not before:
                TracingEnvironment.current = None


def _name(axis: int) -> str:
    return f"axis{_LETTERS[axis]}"


def _healed(stock: Callable[..., Any]) -> Callable[..., Any]:
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
    def batch_matmul(tensor_a: Any, tensor_b: Any, *args: Any, **kwargs: Any) -> Any:
        product = stock(tensor_a, tensor_b, *args, **kwargs)
        is_one = isinstance(tensor_b.shape[0], tir.IntImm) and tensor_b.shape[0] == 1
        if not is_one or not auto_scheduler.is_auto_scheduler_enabled():
            return product
        return _remade(product.op, product.op.axis, product.op.body, {})

    return batch_matmul


def _with_letters(product: te.Tensor, may_lay_out: bool = True) -> te.Tensor:
    """The same computation, its axes named anew, with or without a weight to lay out: of a product
    whose data is transposed Relay would take the type wrongly then."""
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


def _remade(operation: te.ComputeOp, axes: Any, bodies: Any, attrs: Any) -> te.Tensor:
    """A computation of one result with other axes, bodies and attributes."""
    make = tvm.get_global_func("te.ComputeOp")
    return make(operation.name, operation.tag, attrs, axes, bodies).output(0)


# TVM calls the product by its name in topi.nn and in its own module, which a function hides.
_PATCHES = [
    *(
        SharedPatch.of_attribute(module, "matmul", _healed)
        for module in (topi.nn, sys.modules["tvm.topi.nn.dense"])
    ),
    SharedPatch.of_attribute(topi.nn, "batch_matmul", _of_batches),
    SharedPatch.of_attribute(
        auto_scheduler._ffi_api,
        "ComputeDAGPrintDAG",
        lambda stock: lambda dag, simple: with_usual_names(stock(dag, simple)),
    ),
]
