# SPDX-License-Identifier: Apache-2.0
"""Recognises elementwise functions (GELU, swish, ...) by their values, however they are spelled.

A piece of graph that depends on one tensor through elementwise ops and scalars is a function of one
variable. It is evaluated in float64 on sample points and compared with functions that libraries
have, whose parameters are read off at a few points first. Test: backends/dnnl/test_functions.py,
backends/xnnpack/test_lower.py.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from .graph import Graph, Operation, PostOp

_MAX_OPS = 12
# Small ones tell slopes and what is added before a root, middle ones shapes, far ones where
# functions saturate: clip(2 * x, -0.1, 0.1), clip(x, 0, 255), an attention mask's lower limit.
_SMALL = np.geomspace(1e-7, 0.2, 50)
_MIDDLE = np.concatenate([np.linspace(-12.0, 12.0, 97), [-0.37, 0.123, 1.7, 3.1]])
_FAR = np.concatenate([np.geomspace(13.0, 1e8, 60), np.geomspace(1e12, 1e36, 5), [3e38, math.inf]])
_POINTS = np.concatenate([_MIDDLE, _SMALL, -_SMALL, _FAR, -_FAR])
# Values near 0 come of cancelled terms, but where the functions themselves are 0: at 0 and far
# out. There they are compared relatively, since what follows may divide by them.
_MAY_CANCEL = (np.abs(_POINTS) > _SMALL[-1]) & (np.abs(_POINTS) < 1e3)
# Scalars of a model are float32: half a unit in their last place may be amplified.
_EXACT = 2e-6
_PRECISION = {"bfloat16": 2e-2}
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


# Relay op -> value from the values of its operands.
_EVALUATE: dict[str, Callable[..., Any]] = {
    **{op: getattr(np, op) for op in ("add", "subtract", "multiply", "divide", "power")},
    **{op: getattr(np, op) for op in ("maximum", "minimum", "negative", "abs")},
    **{op: getattr(np, op) for op in ("exp", "log", "sqrt", "tanh")},
    "rsqrt": lambda a: 1.0 / np.sqrt(a),
    "sigmoid": _sigmoid,
    "erf": _erf,
    "nn.relu": lambda a: np.maximum(a, 0.0),
}
# Relay op -> value from its attributes and its operand.
_EVALUATE_WITH_ATTRS: dict[str, Callable[..., Any]] = {
    "nn.leaky_relu": lambda attrs, a: np.where(a > 0, a, a * float(attrs.alpha)),
    "clip": lambda attrs, a: np.clip(a, float(attrs.a_min), float(attrs.a_max)),
}
EVALUABLE_OPS = frozenset(_EVALUATE) | frozenset(_EVALUATE_WITH_ATTRS)


def _gelu_erf(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0.0)


def _guess_hardsigmoid(f: Callable[[float], float]) -> tuple[float, float]:
    # The slope and height at 0, where all common ones are linear.
    return (f(0.125) - f(-0.125)) * 4.0, f(0.0)


def _guess_hardswish(f: Callable[[float], float]) -> tuple[float, float]:
    return (f(0.5) / 0.5 - f(0.25) / 0.25) * 4.0, 2 * f(0.25) / 0.25 - f(0.5) / 0.5


def _guess_swish(f: Callable[[float], float]) -> tuple[float, float]:
    ratio = f(1.0)  # sigmoid(alpha)
    return (math.log(ratio / (1.0 - ratio)), 0.0) if 0.0 < ratio < 1.0 else (1.0, 0.0)


def _guess_power(f: Callable[[float], float]) -> tuple[float, float]:
    factor, at_two = f(1.0), f(2.0)
    if factor == 0.0 or not at_two / factor > 0.0:
        return math.nan, math.nan
    # Exponents of models are round numbers, which reading them off blurs.
    return factor, round(math.log2(at_two / factor), 6)


class _Known(NamedTuple):
    """A function, by oneDNN's name."""

    name: str
    value: Callable[..., Any]  # from x; and from alpha and beta where it has these
    guess: Callable[[Any], tuple[float, float]] | None = None  # reads these off a function


# The first that has the same values is taken.
_KNOWN = [
    _Known("linear", lambda x, a, b: a * x + b, lambda f: (f(1.0) - f(0.0), f(0.0))),
    _Known(
        "relu", lambda x, a, b: np.where(x > 0, x, a * x if a else 0.0), lambda f: (-f(-1.0), 0.0)
    ),
    _Known("clip", lambda x, a, b: np.clip(x, a, b), lambda f: (f(-math.inf), f(math.inf))),
    _Known(
        "elu",
        lambda x, a, b: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0.0))),
        lambda f: (-f(-math.inf), 0.0),
    ),
    _Known("sigmoid", _sigmoid),
    _Known("tanh", np.tanh),
    _Known("gelu_erf", _gelu_erf),
    _Known("gelu_tanh", _gelu_tanh),
    _Known("swish", lambda x, a, b: x * _sigmoid(a * x), _guess_swish),
    _Known("hardsigmoid", lambda x, a, b: np.clip(a * x + b, 0.0, 1.0), _guess_hardsigmoid),
    _Known("hardswish", lambda x, a, b: x * np.clip(a * x + b, 0.0, 1.0), _guess_hardswish),
    _Known("mish", lambda x: x * np.tanh(_softplus(x))),
    *(_Known(name, getattr(np, name)) for name in ("square", "abs", "exp", "sqrt", "log")),
    _Known("pow", lambda x, a, b: a * x**b, _guess_power),
]


FUNCTIONS = frozenset(known.name for known in _KNOWN)


def recognise_all(graph: Graph, among: Collection[str] = FUNCTIONS) -> None:
    """Replace pieces of the graph by nodes ``function`` (attrs: a PostOp), so that few are left;
    functions are looked for among those of these names.

    A tensor's cost is the number of nodes in a row that it takes; each tensor gets the piece whose
    variable costs least. Taking the largest known piece would not do: in ``2 * hardswish(x)`` that
    is a linear function of the product inside hardswish.
    """
    producers = {node.output: node for node in graph.nodes}
    users = graph.users()
    cost: dict[int, int] = {}
    best: dict[int, tuple] = {}
    for node in graph.nodes:
        cost[node.output] = 1 + sum(cost.get(tensor, 0) for tensor in node.inputs)
        for found in _known_pieces(graph, node, producers, users=users):
            if found[0].kind in among and 1 + cost.get(found[1], 0) <= cost[node.output]:
                cost[node.output] = 1 + cost.get(found[1], 0)
                best[node.output] = found
    kept, swallowed = [], set[int]()
    for node in reversed(graph.nodes):
        if node.output in swallowed:
            continue
        if node.output in best:
            post_op, source, piece = best[node.output]
            swallowed.update(inner.output for inner in piece)
            node = Operation("function", [source], node.output, attrs=post_op)
        kept.append(node)
    graph.nodes = kept[::-1]


def function_ending_at(graph: Graph, root: Operation) -> tuple[PostOp, int, list[Operation]] | None:
    """Return (PostOp, variable, nodes) of the largest known function that ends at root, or None."""
    producers = {node.output: node for node in graph.nodes}
    return next(reversed(list(_known_pieces(graph, root, producers, users=graph.users()))), None)


def _known_pieces(
    graph: Graph,
    root: Operation,
    producers: dict[int, Operation],
    users: dict[int, list[Operation]],
) -> Iterator[tuple[PostOp, int, list[Operation]]]:
    """Return (PostOp, variable, nodes) of the known functions that end at root, smallest first."""
    if root.op not in EVALUABLE_OPS:
        return
    for source, piece in _pieces_of_one_variable(graph, root, producers, users=users):
        if graph.shapes[source] == graph.shapes[root.output]:
            if len(piece) == 1 and len(root.inputs) == 1 and root.op in _EVALUATE:
                post_op = _match_op(root.op)
            else:
                post_op = match_function(
                    functools.partial(_evaluate, graph, piece, source),
                    _PRECISION.get(graph.dtypes[root.output], _EXACT),
                )
            if post_op is not None:
                yield dataclasses.replace(post_op), source, piece


@functools.cache
def _match_op(op: str) -> PostOp | None:
    """Return match_function of an op of one operand: nets have some hundred of a few."""
    return match_function(_EVALUATE[op])


def _pieces_of_one_variable(
    graph: Graph,
    root: Operation,
    producers: dict[int, Operation],
    users: dict[int, list[Operation]],
) -> list[tuple[int, list[Operation]]]:
    """Return (variable, nodes) of growing pieces that end in root and depend on one tensor."""
    order = {node.output: i for i, node in enumerate(graph.nodes)}
    piece, pieces = [root], []
    while len(piece) <= _MAX_OPS:
        inside = {node.output for node in piece}
        frontier = {
            tensor
            for node in piece
            for tensor in node.inputs
            if tensor not in inside and graph.scalar(tensor) is None
        }
        if len(frontier) == 1:
            pieces.append((next(iter(frontier)), list(piece)))
        # Only the latest can be taken in: the others may be operands of what it computes.
        latest = max(frontier, key=lambda tensor: order.get(tensor, -1), default=None)
        producer = None if latest is None else producers.get(latest)
        if (
            producer is None
            or latest is None
            or producer.op not in EVALUABLE_OPS
            or latest in graph.outputs
            or any(user.output not in inside for user in users[latest])
        ):
            break
        piece.append(producer)
    return pieces


def _evaluate(graph: Graph, piece: list[Operation], source: int, x: np.ndarray) -> np.ndarray:
    values = {source: np.asarray(x, "float64")}
    with np.errstate(all="ignore"):
        for node in reversed(piece):
            operands = [
                values[tensor] if tensor in values else graph.scalar(tensor)
                for tensor in node.inputs
            ]
            if node.op in _EVALUATE:
                values[node.output] = _EVALUATE[node.op](*operands)
            else:
                values[node.output] = _EVALUATE_WITH_ATTRS[node.op](node.attrs, *operands)
    return values[piece[0].output]


def match_function(
    function: Callable[[np.ndarray], np.ndarray], precision: float = _EXACT
) -> PostOp | None:
    """Return the function with the same values as ``function`` of an array, or None.

    ``precision``: how far, relatively, the scalars of the model may be from what they stand for.
    """
    with np.errstate(all="ignore"):
        wanted = function(_POINTS)
        middle = wanted[: len(_MIDDLE)]
        largest = np.max(np.abs(middle[np.isfinite(middle)]), initial=0.0)
        # Small functions are compared as closely as others.
        tolerance = _MAY_CANCEL * (precision / 10 * min(1.0, largest))
        # What is no number at infinity depends on how the model spells the function.
        asked = ~(np.isinf(_POINTS) & np.isnan(wanted))
        for known in _KNOWN:
            read = known.guess and known.guess(lambda x: float(function(np.array([x]))[0]))
            if read and not all(map(math.isfinite, read)):
                continue
            found = known.value(_POINTS, *(read or ()))
            is_close = np.isclose(found, wanted, precision, tolerance, equal_nan=True)
            if np.all(is_close[asked]):
                return PostOp(known.name, *(read or (0.0, 0.0)))
    return None
