# SPDX-License-Identifier: Apache-2.0
"""The pattern table of the backend dnnl: chains that oneDNN computes in one primitive.

Of floats: a convolution or product with bias, residual sum and activation. Of bytes: a quantised
product with a bias or without, back to bytes, with a residual sum or without.

Patterns find chains by their ops; the predicate of an entry then lowers what was found, as if it
were a partition of its own, and accepts it only when that is one primitive of just this chain, so
table and codegen cannot disagree. Precondition: types are inferred.
Test: backends/dnnl/test_patterns.py, backends/dnnl/test_qnn.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence

from tvm import relay
from tvm._ffi import get_global_func
from tvm.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard

from ...errors import UnsupportedOpError
from ..partition.flatten import flatten_calls, takes_any
from ..partition.graph import Graph, Operation
from ..partition.spelled import function_piece, gelu, op_of
from .fuse import fuse
from .lower import SUPPORTED_OPS, lower
from .norms import layer_norm_calls, layer_norm_pattern
from .types import BYTES, check_types, is_quantised

ANCHORS = {
    op: f"nn.{op}"
    for op in ("conv1d", "conv2d", "conv3d", "conv2d_transpose", "dense", "batch_matmul")
}
# Chains of an anchor, parted by commas, the last one of itself alone; "act" stands for each
# activation.
_CHAINS = {
    "conv": "bias sum act, bias act sum, bias sum, bias act, sum act, bias, act, sum, ",
    "conv2d_transpose": "bias act, bias, act, ",
    "dense": "bias sum act, bias act sum, bias sum, bias act, bias, act, sum, ",
    "batch_matmul": "",
}
# A product of bytes, and op of a step behind it -> how many of its operands, the first ones, may be
# the chain so far.
_QNN_PRODUCTS = {"conv2d": "qnn.conv2d", "dense": "qnn.dense"}
_QNN_STEPS = {"add": 2, "nn.bias_add": 1, "qnn.requantize": 1, "clip": 1, "cast": 1, "qnn.add": 2}
_MOST_QNN_STEPS = 8
_tensor_type_json = get_global_func("collage.TensorTypeJson")


def lower_calls(root: relay.Expr, calls: list) -> Graph:
    """Return the primitives of these calls, of which root is the result."""
    graph = fuse(lower(flatten_calls("dnnl", root, calls)))
    graph.remove_unused()
    return check_types(graph)


def _hardswish(x: DFPattern) -> DFPattern:
    """x * clip(x + 3, 0, 6) / 6 in the orders in which exporters write it."""
    clipped = is_op("clip")(is_op("add")(x, is_constant()))
    scaled = is_op("divide")(clipped, is_constant()) | is_op("multiply")(clipped, is_constant())
    line = is_op("add")(is_op("multiply")(x, is_constant()), is_constant())
    product = is_op("multiply")(x, clipped)
    return (
        is_op("multiply")(x, scaled)
        | is_op("multiply")(x, is_op("clip")(line))
        | is_op("divide")(product, is_constant())
        | is_op("multiply")(product, is_constant())
    )


def _mish(x: DFPattern) -> DFPattern:
    """x * tanh(log(1 + exp(x))), by the formulas of TVM's importer and of ours."""
    add, multiply, divide = is_op("add"), is_op("multiply"), is_op("divide")
    e = is_op("exp")(is_op("minimum")(x, is_constant()))
    n = multiply(e, add(e, is_constant()))
    plain = is_op("log")(add(is_op("exp")(x), is_constant()))
    whole = divide(n, add(n, is_constant()))
    return multiply(x, is_op("tanh")(plain) | whole)


_ACTIVATIONS: dict[str, Callable] = {
    "gelu": gelu,
    "mish": _mish,
    "hardswish": _hardswish,
    "swish": lambda x: is_op("multiply")(x, is_op("sigmoid")(x)),
    "leaky_relu": is_op("nn.leaky_relu"),
    "prelu": lambda x: is_op("nn.prelu")(x, is_constant()),
    "relu": is_op("nn.relu"),
    **{op: is_op(op) for op in ("clip", "sigmoid", "tanh")},
}
# The kinds of post-op that an activation may become where it is not that of its name.
_KINDS = {"gelu": ("gelu_erf", "gelu_tanh"), "leaky_relu": ("relu",)}
_MANY_OPS = ("gelu", "mish", "hardswish", "swish")


def _pattern(anchor_op: str | None, chain: list[str]) -> DFPattern:
    result = is_op(anchor_op)(wildcard(), wildcard()) if anchor_op else wildcard()
    for step in chain:
        if step == "bias":
            result = is_op("add")(result, wildcard()) | is_op("nn.bias_add")(result, wildcard())
        elif step == "sum":
            result = is_op("add")(result, wildcard())
        else:
            result = _ACTIVATIONS[step](result)
    return result


def _predicate(anchor_op: str | None, chain: list[str]) -> Callable[[relay.Expr], bool | str]:
    """Return what tells if one of the chains that end at an expression is one primitive.

    A predicate does not learn which of them was matched; codegen computes any, at worst in more
    primitives, and the candidate is measured.
    """

    def accepts(expr: relay.Expr) -> bool | str:
        def is_primitive(calls: list[relay.Call]) -> bool:
            nodes = lower_calls(expr, calls).nodes
            return len(nodes) == 1 and _is_chain(nodes[0], anchor_op, chain)

        return takes_any(_find_chains(expr, anchor_op, chain), is_primitive)

    return accepts


def _find_chains(expr: relay.Expr, anchor_op: str | None, chain: list[str]) -> Iterator[list]:
    """Yield each such chain as the calls from expr back to the anchor's; none when there is none.

    A sum of two anchors ends two of them. Without an anchor the chain is an activation by itself.
    """
    if not chain:
        if anchor_op is None:
            yield []
        elif op_of(expr) == anchor_op:
            yield [expr]
        return
    before, step = chain[:-1], chain[-1]
    if step in ("bias", "sum"):
        operands = []
        if op_of(expr) == "add":
            operands = expr.args
        elif op_of(expr) == "nn.bias_add":
            operands = expr.args[:1]
        if operands and step == "sum" and not _are_alike(expr.args):
            return
        for operand in operands:
            for found in _find_chains(operand, anchor_op, before):
                yield [expr, *found]
        return
    if step == "prelu":
        piece = (expr.args[0], [expr]) if op_of(expr) == "nn.prelu" else None
    else:
        piece = function_piece("dnnl", expr)
    if piece is None:
        return
    source, calls = piece
    for found in _find_chains(source, anchor_op, before):
        yield [*calls, *found]


def _are_alike(operands: Sequence[relay.Expr]) -> bool:
    """Tell whether a post-op sum can be meant: it broadcasts nothing. Spares lowering biases."""
    first, second = (_tensor_type_json(operand.checked_type) for operand in operands)
    return first == second


def _is_chain(node: Operation, anchor_op: str | None, chain: Sequence[str]) -> bool:
    """Tell whether a primitive computes the anchor with these steps, in order, and no other."""
    if anchor_op is None:
        kinds = _KINDS.get(chain[0], chain[:1])
        return node.op == "eltwise" and node.attrs["strings"]["algorithm"] in kinds
    if node.op != "binary" and (len(node.inputs) > 2) != ("bias" in chain):
        return False
    steps = [step for step in chain if step != "bias"]
    return len(steps) == len(node.post_ops) and all(
        post.kind == "sum" if step == "sum" else post.kind in _KINDS.get(step, (step,))
        for step, post in zip(steps, node.post_ops)
    )


def _expanded(chains: str) -> list[list[str]]:
    return [
        [activation if step == "act" else step for step in chain.split()]
        for chain in chains.split(",")
        for activation in (_ACTIVATIONS if "act" in chain.split() else [""])
    ]


def pattern_table(backend: str) -> list[tuple]:
    """Return (composite name, pattern, predicate) entries of a backend, those of more ops first."""
    return [(f"{backend}.{label}", *entry) for label, *entry in _patterns()]


@functools.cache
def _patterns() -> tuple[tuple, ...]:
    """Return (label, pattern, predicate) entries, those of more ops first."""
    entries: list[tuple[str | None, str | None, list[str]]] = []
    for label, op in ANCHORS.items():
        chains = _CHAINS.get(label, _CHAINS["conv"])
        entries += [(label, op, chain) for chain in _expanded(chains)]
    entries += [(op, op, [act]) for op in ("add", "multiply") for act in ("relu", "clip")]
    entries += [(None, None, [activation]) for activation in _MANY_OPS]
    table = tuple(
        (
            "_".join(filter(None, [label, *chain])),
            _pattern(op, chain),
            _predicate(op, chain),
        )
        for label, op, chain in sorted(entries, key=lambda entry: -_weight(entry[2]))
    )
    return (*_qnn_entries(), ("layer_norm", layer_norm_pattern(), _is_layer_norm), *table)


def _is_layer_norm(expr: relay.Expr) -> bool | str:
    def is_all(calls: list[relay.Call]) -> bool:
        return [node.op for node in lower_calls(expr, calls).nodes] == ["layer_norm"]

    return takes_any([layer_norm_calls(expr)], is_all)


def _qnn_entries() -> list[tuple]:
    """Return (label, pattern, predicate) entries, those of more ops first."""
    return [
        (f"qnn_{label}{'_sum' * has_sum}", _qnn_pattern(op, has_sum), _qnn_predicate(op))
        for has_sum in (True, False)
        for label, op in _QNN_PRODUCTS.items()
    ]


def _qnn_pattern(op: str, has_sum: bool) -> DFPattern:
    product = is_op(op)(*[wildcard() for _ in range(6)])
    biased = is_op("add")(product, is_constant()) | is_op("nn.bias_add")(product, is_constant())
    result = is_op("qnn.requantize")(biased | product, *_constants(4))
    result = is_op("clip")(result) | result
    result = is_op("cast")(result) | result
    if has_sum:
        scales = _constants(6)
        add = is_op("qnn.add")
        result = add(result, wildcard(), *scales) | add(wildcard(), result, *scales)
        result = is_op("clip")(result) | result
    return result


def _constants(count: int) -> list[DFPattern]:
    return [is_constant() for _ in range(count)]


def _qnn_predicate(op: str) -> Callable[[relay.Expr], bool | str]:
    def accepts(expr: relay.Expr) -> bool | str:
        return takes_any(
            _qnn_chains(expr, op, _MOST_QNN_STEPS), lambda calls: _is_qnn_primitive(expr, calls)
        )

    return accepts


def _is_qnn_primitive(expr: relay.Expr, calls: list[relay.Call]) -> bool:
    graph = lower_calls(expr, calls)
    nodes = graph.nodes
    return (
        len(nodes) == 1 and is_quantised(graph, nodes[0]) and graph.dtypes[nodes[0].output] in BYTES
    )


def _qnn_chains(expr: relay.Expr, op: str, steps: int) -> Iterator[list]:
    """Yield each chain as the calls from expr back to one of op."""
    name = op_of(expr)
    if name == op and steps >= 0:
        yield [expr]
    elif name in _QNN_STEPS and steps > 0:
        for operand in expr.args[: _QNN_STEPS[name]]:
            for found in _qnn_chains(operand, op, steps - 1):
                yield [expr, *found]


def _weight(chain: Sequence[str]) -> float:
    return math.fsum(3 if step in _MANY_OPS else 1 for step in chain)


def bare_op_predicates() -> dict[str, Callable[[relay.Call], bool | str]]:
    """Return, for each op, what tells if oneDNN takes a call outside any composite, or why not.

    Calls that a composite of one op takes are refused: they would be measured twice.
    """
    anchors = set(ANCHORS.values())
    return {op: _takes_unmatched(op) if op in anchors else takes_call for op in SUPPORTED_OPS}


def _takes_unmatched(op: str) -> Callable[[relay.Call], bool | str]:
    is_composite = _predicate(op, [])

    def takes(call: relay.Call) -> bool | str:
        return "its composite takes it" if is_composite(call) is True else takes_call(call)

    return takes


def takes_call(call: relay.Call) -> bool | str:
    """Tell whether oneDNN can run this call by itself, or why not."""
    try:
        lower_calls(call, [call])
    except UnsupportedOpError as error:
        return str(error)
    return True
