# SPDX-License-Identifier: Apache-2.0
"""Chains of ops that oneDNN computes in one primitive, each from its anchor.

The pattern finds the shape of a chain; its predicate lowers what was found and accepts it only if
that gives one primitive with just this chain, so table and codegen cannot disagree.
Test: backends/dnnl/test_patterns.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from tvm import relay
from tvm.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard

from ...errors import UnsupportedOpError
from ..partition.flatten import takes_any
from ..partition.graph import Operation
from .extract import find_chains, lower_calls
from .lower import SUPPORTED_OPS
from .norms import is_layer_norm, layer_norm_calls, layer_norm_pattern
from .qnn_patterns import qnn_entries

ANCHORS = {
    "conv1d": "nn.conv1d",
    "conv2d": "nn.conv2d",
    "conv3d": "nn.conv3d",
    "conv2d_transpose": "nn.conv2d_transpose",
    "dense": "nn.dense",
    "batch_matmul": "nn.batch_matmul",
}

# Activation -> the kinds of post-op that it may become.
ACTIVATIONS = {
    "gelu": ("gelu_erf", "gelu_tanh"),
    "mish": ("mish",),
    "hardswish": ("hardswish",),
    "swish": ("swish",),
    "leaky_relu": ("relu",),
    "prelu": ("prelu",),
    "relu": ("relu",),
    "clip": ("clip",),
    "sigmoid": ("sigmoid",),
    "tanh": ("tanh",),
}

# Chains of an anchor, largest first; "act" stands for each activation.
_CHAINS = {
    "conv": [
        "bias sum act",
        "bias act sum",
        "bias sum",
        "bias act",
        "sum act",
        "bias",
        "act",
        "sum",
    ],
    "conv2d_transpose": ["bias act", "bias", "act"],
    "dense": ["bias sum act", "bias act sum", "bias sum", "bias act", "bias", "act", "sum"],
    "batch_matmul": [],
}

_BARE_BINARY = ("add", "multiply")


def _gelu(x: DFPattern) -> DFPattern:
    """x * (1 + erf(x / sqrt(2))) / 2 in the orders in which exporters write it."""
    scaled = is_op("divide")(x, is_constant()) | is_op("multiply")(x, is_constant())
    half = is_constant()
    one_plus = is_op("add")(is_op("erf")(scaled), is_constant())
    return (
        is_op("multiply")(is_op("multiply")(x, one_plus), half)
        | is_op("multiply")(is_op("multiply")(x, half), one_plus)
        | is_op("multiply")(x, is_op("multiply")(one_plus, half))
        | is_op("multiply")(x, is_op("add")(is_op("multiply")(is_op("erf")(scaled), half), half))
    )


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


_ACTIVATION_PATTERNS: dict[str, Callable] = {
    "gelu": _gelu,
    "mish": _mish,
    "hardswish": _hardswish,
    "swish": lambda x: is_op("multiply")(x, is_op("sigmoid")(x)),
    "leaky_relu": is_op("nn.leaky_relu"),
    "prelu": lambda x: is_op("nn.prelu")(x, is_constant()),
    "relu": is_op("nn.relu"),
    "clip": is_op("clip"),
    "sigmoid": is_op("sigmoid"),
    "tanh": is_op("tanh"),
}
_MANY_OPS = ("gelu", "mish", "hardswish", "swish")


def _pattern(anchor_op: str | None, chain: list[str]) -> DFPattern:
    result = is_op(anchor_op)(wildcard(), wildcard()) if anchor_op else wildcard()
    for step in chain:
        if step == "bias":
            result = is_op("add")(result, wildcard()) | is_op("nn.bias_add")(result, wildcard())
        elif step == "sum":
            result = is_op("add")(result, wildcard())
        else:
            result = _ACTIVATION_PATTERNS[step](result)
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

        return takes_any(find_chains(expr, anchor_op, chain), is_primitive)

    return accepts


def _is_chain(node: Operation, anchor_op: str | None, chain: Sequence[str]) -> bool:
    """Tell whether a primitive computes the anchor with these steps, in order, and no other."""
    if anchor_op is None:
        return node.op == "eltwise" and node.attrs["strings"]["algorithm"] in ACTIVATIONS[chain[0]]
    if node.op != "binary" and (len(node.inputs) > 2) != ("bias" in chain):
        return False
    steps = [step for step in chain if step != "bias"]
    return len(steps) == len(node.post_ops) and all(
        post.kind == "sum" if step == "sum" else post.kind in ACTIVATIONS[step]
        for step, post in zip(steps, node.post_ops)
    )


def _expanded(chains: list[str]) -> list[list[str]]:
    return [
        [activation if step == "act" else step for step in chain.split()]
        for chain in chains
        for activation in (ACTIVATIONS if "act" in chain.split() else [""])
    ]


@functools.cache
def pattern_table() -> tuple[tuple, ...]:
    """Return (composite name, pattern, predicate) entries, those of more ops first."""
    entries: list[tuple[str | None, str | None, list[str]]] = []
    for label, op in ANCHORS.items():
        chains = _CHAINS.get(label, _CHAINS["conv"])
        entries += [(label, op, chain) for chain in [*_expanded(chains), []]]
    entries += [(op, op, [activation]) for op in _BARE_BINARY for activation in ("relu", "clip")]
    entries += [(None, None, [activation]) for activation in _MANY_OPS]
    table = tuple(
        (
            "dnnl." + "_".join(filter(None, [label, *chain])),
            _pattern(op, chain),
            _predicate(op, chain),
        )
        for label, op, chain in sorted(entries, key=lambda entry: -_weight(entry[2]))
    )
    return (*qnn_entries(), ("dnnl.layer_norm", layer_norm_pattern(), _is_layer_norm), *table)


def _is_layer_norm(expr: relay.Expr) -> bool | str:
    return takes_any(
        [layer_norm_calls(expr)], lambda calls: is_layer_norm(lower_calls(expr, calls))
    )


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
