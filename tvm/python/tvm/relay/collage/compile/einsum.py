# SPDX-License-Identifier: Apache-2.0
"""Writes an einsum of two operands as a product of matrices between transposes.

No library takes TVM's operator, and its own kernel is one loop without a schedule: 20 of them, with
relative positions, took a fifth of MViTv2's time.

Assumptions: each letter stands once in an operand and in the result, with one extent; one that
stands in one operand alone is in the result; some letter is summed over. Another einsum
stays as it is.

Test: compile/test_einsum.py
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, wildcard

from .fold_ops import static_shape
from .rewriting import Rewrite, is_call


class _Product(DFPatternCallback):
    """nn.dense where the second operand is a matrix of weights, nn.batch_matmul elsewhere."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.pattern = is_op("einsum")(wildcard())

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        operands, equation = post.args[0], str(pre.attrs.equation).replace(" ", "")
        is_float = "float" in pre.checked_type.dtype  # products of bytes TVM computes otherwise
        if not is_float or not isinstance(operands, relay.Tuple) or len(operands.fields) != 2:
            return post
        first, second, result = _letters(equation)
        extents = _extents((first, second), pre.args[0].checked_type.fields)
        if not extents or 0 in extents.values() or not _is_product(first, second, result):
            return post
        a, b = operands.fields
        if isinstance(a, relay.Constant):
            (a, first), (b, second) = (b, second), (a, first)
        shared = [letter for letter in first if letter in second]
        batch = [letter for letter in shared if letter in result]
        summed = [letter for letter in shared if letter not in result]
        rows = [letter for letter in first if letter not in second]
        columns = [letter for letter in second if letter not in first]
        groups = (batch, rows, columns, summed)
        n, m, k, depth = (math.prod(extents[letter] for letter in group) for group in groups)
        left = _laid_out(a, first, [*batch, *rows, *summed])
        right = _laid_out(b, second, [*batch, *columns, *summed])
        if batch or not isinstance(b, relay.Constant):
            left, right = relay.reshape(left, (n, m, depth)), relay.reshape(right, (n, k, depth))
            product = relay.nn.batch_matmul(left, right)
        else:
            left, right = relay.reshape(left, (m, depth)), relay.reshape(right, (k, depth))
            product = relay.nn.dense(left, right)
        axes = [*batch, *rows, *columns]
        whole = relay.reshape(product, [extents[letter] for letter in axes])
        return _laid_out(whole, axes, list(result))


LOWER_EINSUM = Rewrite(lambda node: is_call(node, "einsum"), _Product)


def _letters(equation: str) -> tuple[str, str, str]:
    """Of the operands and the result; nothing of an equation that does not name the result."""
    operands, _, result = equation.partition("->")
    first, _, second = operands.partition(",")
    return (first, second, result) if "->" in equation else ("", "", "")


def _is_product(first: str, second: str, result: str) -> bool:
    is_plain = all(text.isalpha() and len(set(text)) == len(text) for text in (first, second))
    alone, shared = set(first) ^ set(second), set(first) & set(second)
    is_summed = not shared <= set(result)
    return is_plain and is_summed and len(set(result)) == len(result) and alone <= set(result)


def _extents(operands: tuple[str, str], types: Any) -> Mapping[str, int] | None:
    """By letter; None where a shape is open, or a letter has two extents."""
    found: dict[str, int] = {}
    for letters, each in zip(operands, types, strict=True):
        shape = static_shape(each)
        if shape is None or len(letters) != len(shape):
            return None
        for letter, extent in zip(letters, shape, strict=True):
            if found.setdefault(letter, extent) != extent:
                return None
    return found


def _laid_out(value: Any, letters: Any, wanted: list[str]) -> Any:
    """With axes in another order."""
    order = [list(letters).index(letter) for letter in wanted]
    return value if order == sorted(order) else relay.transpose(value, order)
