# SPDX-License-Identifier: Apache-2.0
"""From a Relay function to a flat graph of Relay ops.

Composite functions are seen through: their name says what matched, their body what to compute.
Precondition: types are inferred. Test: test_onednn_codegen.py.
"""

from tvm import ir, relay

from ..errors import UnsupportedOpError
from .graph import Graph, Node


def static_shape(tensor_type, what: str) -> tuple[int, ...]:
    """Return a tensor type's extents as ints; UnsupportedOpError when one is unknown."""
    if not all(
        isinstance(extent, (int, relay.expr.tvm.tir.IntImm)) for extent in tensor_type.shape
    ):
        raise UnsupportedOpError("dnnl", what, f"its shape {list(tensor_type.shape)} is dynamic")
    return tuple(int(extent) for extent in tensor_type.shape)


def flatten(function: relay.Function) -> Graph:
    """Return the graph of a partition's function; tuples become several inputs or outputs."""
    graph = Graph()
    scope = {}
    for param in function.params:
        scope[param] = add_input(graph, param.checked_type, param.name_hint)
    result = Flattener(graph).run(function.body, scope)
    graph.outputs = list(result) if isinstance(result, tuple) else [result]
    return graph


def add_input(graph: Graph, tensor_type, what: str):
    """Add an input of that type; return its tensor, or the tensors of a tuple, as TVM passes it."""
    if isinstance(tensor_type, ir.TupleType):
        return tuple(add_input(graph, field, what) for field in tensor_type.fields)
    graph.inputs.append(_typed_tensor(graph, tensor_type, what))
    return graph.inputs[-1]


def _typed_tensor(graph: Graph, tensor_type, what: str) -> int:
    if not isinstance(tensor_type, ir.TensorType):
        raise UnsupportedOpError("dnnl", what, f"its type {tensor_type} is not a tensor")
    return graph.new_tensor(static_shape(tensor_type, what), tensor_type.dtype)


class Flattener:
    """Walks without recursion over calls: partitions can be hundreds of ops deep."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.constants = {}

    def run(self, body, scope):
        """Return the tensor of body, or the tuple of tensors of a tuple."""
        stack = [body]
        while stack:
            expr = stack[-1]
            if expr in scope:
                stack.pop()
                continue
            missing = [child for child in _children(expr) if child not in scope]
            if missing:
                stack.extend(reversed(missing))
                continue
            scope[expr] = self._visit(expr, scope)
            stack.pop()
        return scope[body]

    def _visit(self, expr, scope):
        if isinstance(expr, relay.Constant):
            if expr not in self.constants:
                self.constants[expr] = self.graph.new_constant(expr.data)
            return self.constants[expr]
        if isinstance(expr, relay.Tuple):
            return tuple(scope[each] for each in expr.fields)
        if isinstance(expr, relay.TupleGetItem):
            return scope[expr.tuple_value][expr.index]
        if isinstance(expr, relay.Call) and isinstance(expr.op, relay.Function):
            return self.run(expr.op.body, dict(zip(expr.op.params, (scope[a] for a in expr.args))))
        if isinstance(expr, relay.Call) and isinstance(expr.op, ir.Op):
            return self._call(expr, scope)
        raise UnsupportedOpError("dnnl", type(expr).__name__, "not an op, a tuple or a constant")

    def _call(self, call, scope):
        inputs = []
        for argument in call.args:
            value = scope[argument]
            inputs.extend(value if isinstance(value, tuple) else [value])
        result_type = call.checked_type
        is_tuple = isinstance(result_type, ir.TupleType)
        fields = result_type.fields if is_tuple else [result_type]
        outputs = [_typed_tensor(self.graph, field, call.op.name) for field in fields]
        # Of ops with several results we take those where only the first one counts.
        self.graph.nodes.append(Node(call.op.name, inputs, outputs[0], call.attrs))
        return tuple(outputs) if is_tuple else outputs[0]


def _children(expr):
    if isinstance(expr, relay.Call):
        return list(expr.args)
    if isinstance(expr, relay.Tuple):
        return list(expr.fields)
    if isinstance(expr, relay.TupleGetItem):
        return [expr.tuple_value]
    return []
