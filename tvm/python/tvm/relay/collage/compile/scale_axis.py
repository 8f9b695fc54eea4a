# SPDX-License-Identifier: Apache-2.0
"""Keeps TVM's FoldScaleAxis from scaling weights at run time.

The pass moves a factor of a layer's operand or result into the layer's weights even if the factor
is only known at run time: the gate of a squeeze-and-excite block, x * sigmoid(x) in front of a 1x1
convolution, dense(x, w) * dense(y, v). Then a vector's product becomes a matrix's, weights can't be
packed any more, and backends that want constant weights are out. So such products are fenced in
while it runs, and it folds the constant factors around them as ever.

One number that such a product is multiplied by stays with it: GELU's half in the weights of the
next convolution is a GELU that no backend knows, and is no pass over memory less.

Test: compile/test_scale_axis.py
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, wildcard

from .rewriting import Rewrite, is_call, rewrite_in_place

# An identity that the pass moves nothing across, told from the user's own by its name.
_FENCE = "annotation.compiler_begin"
_NAME = "collage.fence"


def fence_products(mod: tvm.IRModule) -> bool:
    """Fences in, in place, the products of two unknown values of `mod`, a typed module, which is
    typed again; returns whether there are any."""
    return rewrite_in_place(mod, Rewrite(_Fence.is_meant, _Fence))


def remove_fences(mod: tvm.IRModule) -> bool:
    """Undoes fence_products on what a pass has made of its module."""
    return rewrite_in_place(mod, Rewrite(_Open.is_meant, _Open))


class _Fence(DFPatternCallback):
    """What the pass moves forwards would leave a product's result, backwards an operand."""

    def __init__(self) -> None:
        super().__init__(rewrite_once=True)
        self.pattern = is_op("multiply")(wildcard(), wildcard())

    @staticmethod
    def is_meant(node: Any) -> bool:
        return _is_product_of_unknowns(node) or _is_scaled_product(node)

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        if not self.is_meant(pre):
            return post
        operands = [_fenced(operand) for operand in post.args]
        return _fenced(relay.Call(post.op, operands, post.attrs, post.type_args, post.span))


class _Open(DFPatternCallback):
    def __init__(self) -> None:
        super().__init__(rewrite_once=True)
        self.pattern = is_op(_FENCE)(wildcard())

    @staticmethod
    def is_meant(node: Any) -> bool:
        return is_call(node, _FENCE) and str(node.attrs.compiler) == _NAME

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        return post.args[0] if self.is_meant(post) else post


def _is_product_of_unknowns(node: Any) -> bool:
    return is_call(node, "multiply") and not any(
        isinstance(operand, relay.Constant) for operand in node.args
    )


def _is_scaled_product(node: Any) -> bool:
    """A product of unknowns times one number."""
    if not is_call(node, "multiply"):
        return False
    numbers = [operand for operand in node.args if _is_number(operand)]
    return len(numbers) == 1 and any(map(_is_product_of_unknowns, node.args))


def _is_number(expr: Any) -> bool:
    return isinstance(expr, relay.Constant) and math.prod(expr.data.shape) == 1


def _fenced(expr: Any) -> Any:
    return relay.annotation.compiler_begin(expr, _NAME)
