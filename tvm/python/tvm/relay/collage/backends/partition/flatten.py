# SPDX-License-Identifier: Apache-2.0
"""From a Relay function, or some calls of a larger module, to a flat graph of Relay ops.

Composite functions are seen through: their name says what matched, their body what to compute.
Predicates ask of calls as if they were a partition of their own. Precondition: types are inferred.
Test: backends/dnnl/test_codegen.py, backends/dnnl/test_patterns.py, backends/test_blas.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tvm import ir, relay
from tvm._ffi import get_global_func

from ...errors import UnsupportedOpError
from ...relay_util.walk import evaluate, key_of, operator_calls
from .graph import Graph, Operation

# Ops whose every result is a node of its own, with attrs (Relay's attributes, which result).
_NODE_PER_RESULT = {"split"}
_NO_PLACES: Mapping[int, int] = MappingProxyType({})
_tensor_type_json = get_global_func("collage.TensorTypeJson")


def static_type(tensor_type: relay.Type, what: str, backend: str) -> tuple[tuple[int, ...], str]:
    """Return a tensor type's extents and dtype; UnsupportedOpError for other and dynamic types."""
    # One call for all: each read from Python takes microseconds, and predicates ask a lot.
    found = json.loads(_tensor_type_json(tensor_type))
    if found is None:
        raise UnsupportedOpError(backend, what, f"its type {tensor_type} is not a tensor")
    if None in found["shape"]:
        raise UnsupportedOpError(backend, what, f"its shape {list(tensor_type.shape)} is dynamic")
    return tuple(found["shape"]), found["dtype"]


def flatten(function: relay.Function, backend: str) -> Graph:
    """Return the graph of a partition's function; tuples become several inputs or outputs."""
    graph = Graph(backend)
    scope = {}
    for param in function.params:
        scope[key_of(param)] = add_input(graph, param.checked_type, param.name_hint)
    places = {key_of(call): place for place, call in enumerate(operator_calls(function))}
    result = Flattener(graph, places).run(function.body, scope)
    graph.outputs = list(result) if isinstance(result, tuple) else [result]
    return graph


def add_input(graph: Graph, tensor_type: relay.Type, what: str) -> Any:
    """Add an input of that type; return its tensor, or the tensors of a tuple, as TVM passes it."""
    if isinstance(tensor_type, ir.TupleType):
        return tuple(add_input(graph, field, what) for field in tensor_type.fields)
    graph.inputs.append(_typed_tensor(graph, tensor_type, what))
    return graph.inputs[-1]


def _typed_tensor(graph: Graph, tensor_type: relay.Type, what: str) -> int:
    return graph.new_tensor(*static_type(tensor_type, what, graph.backend))


class Flattener:
    """Adds to a graph what expressions compute. `places`: those of calls by key_of, where it is to
    know which call gives a tensor."""

    def __init__(self, graph: Graph, places: Mapping[int, int] = _NO_PLACES) -> None:
        self.graph, self._places = graph, places
        self.constants: dict[int, int] = {}

    def run(self, body: relay.Expr, scope: dict[Any, Any]) -> Any:
        """Return the tensor of body, or the tuple of tensors of a tuple; `scope` by key_of."""
        return evaluate(body, scope, self._visit)

    def _visit(self, expr: relay.Expr, values: list[Any]) -> Any:
        if isinstance(expr, relay.Constant):
            key = key_of(expr)
            if key not in self.constants:
                self.constants[key] = self.graph.new_constant(expr.data)
            return self.constants[key]
        if isinstance(expr, relay.Call) and isinstance(expr.op, ir.Op):
            return self._call(expr, values)
        raise UnsupportedOpError(
            self.graph.backend, type(expr).__name__, "not an op, a tuple or a constant"
        )

    def _call(self, call: relay.Call, values: list[Any]) -> Any:
        inputs: list[int] = []
        for value in values:
            inputs.extend(value if isinstance(value, tuple) else [value])
        result_type, name = call.checked_type, call.op.name
        is_tuple = isinstance(result_type, ir.TupleType)
        fields = result_type.fields if is_tuple else [result_type]
        outputs = [_typed_tensor(self.graph, field, name) for field in fields]
        if (place := self._places.get(key_of(call))) is not None:
            self.graph.calls.update(dict.fromkeys(outputs, place))
        if name in _NODE_PER_RESULT:
            for index, output in enumerate(outputs):
                self.graph.nodes.append(Operation(name, inputs, output, attrs=(call.attrs, index)))
        else:
            # Of others with several results we take those where only the first one counts.
            self.graph.nodes.append(Operation(name, inputs, outputs[0], attrs=call.attrs))
        return tuple(outputs) if is_tuple else outputs[0]


def flatten_calls(backend: str, root: relay.Expr, calls: list) -> Graph:
    """Return the graph of these calls, of which root is the result.

    All that they read and that is neither a constant nor one of them is an input.
    UnsupportedOpError as from flatten().
    """
    graph = Graph(backend)
    inside = {key_of(call) for call in calls}
    scope = {}
    for call in calls:
        for argument in _operands(call):
            key = key_of(argument)
            is_known = key in inside or key in scope
            if not is_known and not isinstance(argument, relay.Constant):
                scope[key] = add_input(graph, argument.checked_type, "an operand")
    graph.outputs = [Flattener(graph).run(root, scope)]
    return graph


def _operands(call: relay.Call) -> Iterator[relay.Expr]:
    """Return the arguments, those of tuples one by one."""
    for argument in call.args:
        yield from argument.fields if isinstance(argument, relay.Tuple) else [argument]


def takes_any(chains: Iterable[list], is_one_primitive: Callable[[list], bool]) -> bool | str:
    """Answer as a predicate does: True if one of these lists of calls is one primitive.

    Otherwise the reason: the last UnsupportedOpError of is_one_primitive, if there was any.
    """
    reason = "its calls are not one primitive of the library"
    try:
        for calls in chains:
            try:
                if is_one_primitive(calls):
                    return True
            except UnsupportedOpError as error:
                reason = str(error)
    except UnsupportedOpError as error:  # while chains were looked for
        reason = str(error)
    return reason
