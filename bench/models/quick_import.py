# SPDX-License-Identifier: Apache-2.0
"""TVM's ONNX importer without what it does again for all of the net at each node.

It infers types from the inputs on, folds constants from there on, and has LLVM compile each bit of
shape arithmetic: minutes in BERT. Here types are kept in their expressions, only a node's own
expressions are folded, and equal constant expressions are computed once. The module is the same.
Test: test_bench_models.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock


@contextlib.contextmanager
def quick_import() -> Iterator[None]:
    """`relay.frontend.from_onnx` is quick within the block; not for several threads."""
    from tvm.relay import transform
    from tvm.relay.frontend import common, onnx

    inferring = _inferring(common.infer_type)
    with (
        mock.patch.object(common, "infer_type", inferring),
        mock.patch.object(onnx, "infer_type", inferring),
        mock.patch.object(transform, "FoldConstantExpr", _folding(transform.FoldConstantExpr)),
    ):
        yield


def _inferring(stock: Callable) -> Callable:
    """infer_type that goes back to the nearest expressions of known type."""
    from tvm import relay

    def infer_type(node: Any, mod: Any = None) -> Any:
        if mod is not None or not isinstance(node, (relay.Call, relay.TupleGetItem)):
            return stock(node, mod)
        relay.transform.InferTypeLocal(node)  # node keeps it
        return node

    return infer_type


def _folding(stock: Callable) -> Callable:
    """FoldConstantExpr of what no earlier node has folded, and of each constant expression once."""
    import tvm
    from tvm import relay

    known: dict[int, list[tuple[Any, Any]]] = {}

    def is_folded(expr: Any) -> bool:
        """The importer gives a span to what it has folded; a tuple's field is folded with it."""
        is_field = isinstance(expr, relay.TupleGetItem) and isinstance(expr.tuple_value, relay.Call)
        return (is_field or isinstance(expr, relay.Call)) and bool(expr.span)

    class WithoutFolded(relay.ExprMutator):
        """Variables for what earlier nodes have folded."""

        def __init__(self) -> None:
            super().__init__()
            self.folded: dict[Any, Any] = {}

        def visit(self, expr: Any) -> Any:
            if expr not in self.memo_map and is_folded(expr):
                self.memo_map[expr] = relay.var(f"folded_{len(self.folded)}")
                self.folded[self.memo_map[expr]] = expr
            return super().visit(expr)

    def fold(expr: Any, mod: Any) -> Any:
        mutator = WithoutFolded()
        own = mutator.visit(expr)
        if relay.analysis.free_vars(own):
            return relay.bind(stock(own, mod), mutator.folded)
        entries = known.setdefault(tvm.ir.structural_hash(expr), [])
        for asked, answer in entries:
            if tvm.ir.structural_equal(asked, expr):
                return answer
        entries.append((expr, stock(expr, mod)))
        return entries[-1][1]

    return fold
