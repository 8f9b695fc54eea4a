# SPDX-License-Identifier: Apache-2.0
"""What BLAS takes: matrix products, with the bias and relu that follow them.

A predicate lowers what was matched and accepts it only if that gives one product.
Test: backends/blas/test_patterns.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tvm import relay
from tvm.relay.dataflow_pattern import DFPattern, is_op, wildcard

from ..partition.flatten import flatten_calls, takes_any
from .lower import lower

ANCHORS = {"dense": "nn.dense", "matmul": "nn.matmul", "batch_matmul": "nn.batch_matmul"}
_CHAINS = (("bias", "relu"), ("bias",), ("relu",), ())


def pattern_table(backend: str) -> list[tuple]:
    """Return (composite name, pattern, predicate) entries, those of more ops first."""
    return [
        ("_".join([f"{backend}.{label}", *chain]), _pattern(op, chain), _predicate(chain, backend))
        for chain in _CHAINS
        for label, op in ANCHORS.items()
    ]


def _pattern(op: str, chain: Sequence[str]) -> DFPattern:
    result = is_op(op)(wildcard(), wildcard())
    if "bias" in chain:
        result = is_op("add")(result, wildcard()) | is_op("nn.bias_add")(result, wildcard())
    return is_op("nn.relu")(result) if "relu" in chain else result


def _predicate(chain: Sequence[str], backend: str) -> Callable[[relay.Expr], bool | str]:
    def accepts(expr: relay.Expr) -> bool | str:
        def is_product(calls: list[relay.Call]) -> bool:
            return len(lower(flatten_calls(backend, expr, calls)).nodes) == 1

        return takes_any(_matched_calls(expr, chain), is_product)

    return accepts


def _matched_calls(expr: relay.Expr, chain: Sequence[str]) -> Iterator[list[relay.Call]]:
    """Yield the calls that the pattern may have matched, from expr to the product.

    A sum of two products fits twice: the pattern does not say which one is meant.
    """
    calls = [expr]
    if "relu" in chain:
        calls.append(calls[-1].args[0])
    if "bias" not in chain:
        yield calls
        return
    for operand in calls[-1].args:
        if isinstance(operand, relay.Call) and _is_product(operand):
            yield [*calls, operand]


def _is_product(call: relay.Call) -> bool:
    return getattr(call.op, "name", None) in ANCHORS.values()
