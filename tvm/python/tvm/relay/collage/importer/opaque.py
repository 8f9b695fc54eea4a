# SPDX-License-Identifier: Apache-2.0
"""Nodes of an ONNX model as calls of `collage.onnx_node`, where Relay has no operators for them.

Whatever onnxruntime can run becomes such a call, nodes with bodies (If, Loop, Scan) too: what a
body reads of the graph around it is an input of the call. onnxruntime itself says which types a
node gives. A node that reads constants alone is run at once, and its results are constants.

Test: importer/test_opaque.py. Docs: docs/import.md
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import tvm
from onnx import defs, helper, numpy_helper
from tvm import relay

from ..errors import ModelError, UnsupportedOpError
from ..messages.foreign import last_line
from ..ops import onnx_node
from ..ops.onnx_names import captured, domains, has_body, own_opset, renamed
from ..ops.onnx_session import dtype_of, session_of, sizes_of
from ..relay_util.walk import static_shape
from .types import NUMBERS

if TYPE_CHECKING:  # whose import takes long
    from onnxruntime import InferenceSession

# Constants of at most so many elements are part of a node's model: most nodes know their results'
# shapes by such inputs alone. Larger ones are weights.
_SMALL = 1024
# Nodes on at most so many floats are tried at once.
_FEW = 1 << 20
# A domain whose operators give results of sizes that no data decide about, and that neither ONNX
# nor onnxruntime tells.
_OF_SIZES_FIXED = "ai.onnx.ml"


@dataclasses.dataclass(frozen=True)
class Versions:
    """Versions of the operators that a model's nodes are of, by domain, and of its format."""

    opsets: Sequence[onnx.OperatorSetIdProto]
    ir_version: int

    @classmethod
    def of(cls, model: onnx.ModelProto, opset: int | None = None) -> Versions:
        """Return those of a model; opset: of ONNX's own operators, where not the model's."""
        others = [each for each in model.opset_import if opset is None or each.domain]
        own = [] if opset is None else [helper.make_opsetid("", opset)]
        return cls([*others, *own], model.ir_version)

    def model_of(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        """Return a model of a graph of such operators."""
        used = {"", *domains(graph)}
        opsets = [each for each in self.opsets if each.domain in used]
        return helper.make_model(graph, opset_imports=opsets, ir_version=self.ir_version)


def opaque(
    node: onnx.NodeProto,
    value_of: Callable[[str], Any],
    type_of: Callable[[relay.Expr], relay.Type],
    expected: Mapping[str, relay.TensorType | None],
    versions: Versions,
) -> list[Any] | relay.expr.TupleWrapper:
    """Return the results of a call that computes a node, one for each output that has a name, as
    TVM's converters return them; constants where the node reads nothing else.

    value_of: the expression of a name that the node reads; expected: types of values by name, as
    far as ONNX knows them. ModelError for a node that onnxruntime cannot run, or whose values are
    none of TVM's.
    """
    names = [*dict.fromkeys(name for name in (*node.input, *captured(node)) if name)]
    values = {name: value_of(name) for name in names}
    constants = {name: value for name, value in values.items() if _is_small(value)}
    operands = {name: values[name] for name in names if name not in constants}
    outputs = [name for name in node.output if name]
    new_names = {
        **{name: f"constant_{i}" for i, name in enumerate(constants)},
        **{name: f"input_{i}" for i, name in enumerate(operands)},
        **{name: f"output_{i}" for i, name in enumerate(outputs)},
    }
    graph = helper.make_graph(
        [renamed(node, lambda name: new_names.get(name, f"inner_{name}"))],
        node.op_type,
        [type_info(new_names[name], type_of(value)) for name, value in operands.items()],
        [onnx.ValueInfoProto(name=new_names[name]) for name in outputs],
        [
            numpy_helper.from_array(value.data.numpy(), new_names[name])
            for name, value in constants.items()
        ],
    )
    model = versions.model_of(graph)
    model, session = _ready(model)
    types = _types(session, outputs, expected)
    if node.domain == _OF_SIZES_FIXED:
        types = _with_sizes_of_a_run(session, types)
    if not operands:
        found, again = (list(map(_constant, _run(session))) for _ in range(2))
        bits = [[each.data.numpy().tobytes() for each in row] for row in (found, again)]
        if bits[0] == bits[1]:  # else it draws numbers, which are others in each run
            return found
    types = _as_it_runs(session, types)
    for info, found in zip(model.graph.output, types, strict=True):
        info.CopyFrom(type_info(info.name, found))
    try:
        call = onnx_node(model, [*operands.values()], types)
    except UnsupportedOpError as error:
        raise ModelError(error.text) from None
    return [call] if len(outputs) == 1 else relay.expr.TupleWrapper(call, len(outputs))


def types_of(
    model: onnx.ModelProto, expected: Mapping[str, relay.TensorType | None]
) -> list[relay.TensorType]:
    """Return the types of a model's outputs as onnxruntime tells them; expected: by name, as far as
    they are known. ModelError where it cannot run the model."""
    session = _session(model)
    types = _types(session, [value.name for value in model.graph.output], expected)
    # A loop may run for ever on what we would make up, and a size too.
    may_run = not _is_open(session) and not any(map(has_body, model.graph.node))
    return _as_it_runs(session, types) if may_run else types


def _is_small(value: Any) -> bool:
    return isinstance(value, relay.Constant) and int(np.prod(value.data.shape)) <= _SMALL


def type_info(name: str, tensor_type: relay.Type) -> onnx.ValueInfoProto:
    """Return what ONNX says of a value of a type of Relay. ModelError for one that it has not."""
    if not isinstance(tensor_type, relay.TensorType):
        raise ModelError("an input is no tensor")
    shape = [int(n) if isinstance(n, tvm.tir.IntImm) else None for n in tensor_type.shape]
    return helper.make_tensor_value_info(name, NUMBERS[tensor_type.dtype], shape)


def _ready(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Any]:
    """Return a model of one node and onnxruntime's session of it, by the newest version of the
    node's operator that the library has. ModelError where it has none."""
    (node,) = model.graph.node
    try:
        return model, _session(model)
    except ModelError:
        for version in () if node.domain else _equal_versions(node.op_type, own_opset(model, 1)):
            older = onnx.ModelProto()
            older.CopyFrom(model)
            for each in older.opset_import:
                each.version = each.version if each.domain else version
            with contextlib.suppress(ModelError):
                return older, _session(older)
        raise


def _equal_versions(operator: str, opset: int) -> Iterator[int]:
    """Yield older versions of an operator, newest first, which are the same but for the types that
    they take: later ones mostly add types that few libraries have."""
    try:
        own = defs.get_schema(operator, opset, "")
        while True:
            version = own.since_version - 1
            older = defs.get_schema(operator, version, "")
            if _form(older) != _form(own):
                return
            yield version
            own = older
    except defs.SchemaError:
        return


def _form(schema: defs.OpSchema) -> tuple[Any, ...]:
    attrs = {
        name: (attr.type, attr.required, attr.default_value.SerializeToString())
        for name, attr in schema.attributes.items()
    }
    ends = [[(each.name, each.option) for each in row] for row in (schema.inputs, schema.outputs)]
    return attrs, ends


def _session(model: onnx.ModelProto) -> Any:
    """Return onnxruntime's session of a model. ModelError where it takes none."""
    try:
        return session_of(model.SerializeToString(), threads=1)
    except ImportError:
        raise ModelError("onnxruntime could run it: pip install onnxruntime") from None
    except Exception as error:  # the library's own kinds, which it does not export
        raise ModelError(f"onnxruntime does not take it either: {last_line(error)}") from error


def _types(
    session: InferenceSession,
    outputs: Sequence[str],
    expected: Mapping[str, relay.TensorType | None],
) -> list[relay.TensorType]:
    """Return the types of a session's outputs, which are called `outputs` in the model; ONNX may
    know more of them than onnxruntime."""
    found = []
    for place, (value, name) in enumerate(zip(session.get_outputs(), outputs, strict=True)):
        dtype = dtype_of(value)
        if dtype not in NUMBERS:
            raise ModelError(f"TVM has no values of its result's type, {value.type}")
        shape = [n if isinstance(n, int) else tvm.tir.Any() for n in value.shape]
        known = expected.get(name)
        if known is None and name in expected:  # numbers of four bits, say, whose input is bytes
            raise ModelError("TVM has no values of its result's type")
        # onnxruntime says of a rank that it does not know what it says of rank 0.
        if not shape:
            rank = len(known.shape) if known is not None else _rank(session, place)
            shape = [tvm.tir.Any()] * rank
        if known is not None and len(shape) == len(known.shape):
            shape = [
                here if isinstance(here, int) else there
                for here, there in zip(shape, known.shape, strict=True)
            ]
        found.append(relay.TensorType(shape, dtype))
    return found


def _with_sizes_of_a_run(
    session: InferenceSession, types: Sequence[relay.TensorType]
) -> list[relay.TensorType]:
    """Return types with the sizes of a run, for inputs of known shapes."""
    if _is_open(session):
        return list(types)
    results = _tried(session)
    return [relay.TensorType(a.shape, t.dtype) for a, t in zip(results, types, strict=True)]


def _is_open(session: InferenceSession) -> bool:
    return any(not isinstance(n, int) for value in session.get_inputs() for n in value.shape)


def _rank(session: InferenceSession, place: int) -> int:
    """Return the rank of an output for some inputs: what they hold decides about sizes alone."""
    try:
        return int(_tried(session)[place].ndim)
    except ModelError as error:
        raise ModelError(f"nothing says which rank its result has: {error.text}") from error


def _as_it_runs(session: InferenceSession, types: list[relay.TensorType]) -> list[relay.TensorType]:
    """Return the types, with the known sizes of a run on floats: onnxruntime infers more windows of
    a pool than its kernel gives. ModelError where that fails: only the shapes can be wrong then. Of
    other inputs, such as indices, what we would make up may be."""
    values = session.get_inputs()
    sizes = [np.prod(sizes_of(value)) for value in values]
    if any(value.type != "tensor(float)" for value in values) or sum(sizes) > _FEW:
        return types
    is_open, results = _is_open(session), _tried(session)
    return [
        kind
        if is_open or static_shape(kind) is None
        else relay.TensorType(result.shape, kind.dtype)
        for kind, result in zip(types, results, strict=True)
    ]


def _tried(session: InferenceSession) -> list[Any]:
    """Return a session's results for the first of two sorts of inputs on which it runs."""
    with contextlib.suppress(ModelError):
        return _run(session)
    return _run(session, of_ones=True)


def _run(session: InferenceSession, of_ones: bool = False) -> list[Any]:
    """Return a session's results for inputs that are made up: 0, 1, ..., for of axes no two may be
    the same, or ones. ModelError where it fails."""
    inputs = {}
    for value in session.get_inputs():
        sizes = sizes_of(value)
        made = np.ones(sizes) if of_ones else np.arange(np.prod(sizes, dtype=int)).reshape(sizes)
        inputs[value.name] = made.astype(dtype_of(value))
    try:
        return list(session.run(None, inputs))
    except Exception as error:  # the library's own kinds, which it does not export
        raise ModelError(f"onnxruntime does not run it: {last_line(error)}") from error


def _constant(array: np.ndarray) -> relay.Constant:
    if not isinstance(array, np.ndarray) or array.dtype.name not in NUMBERS:
        raise ModelError("TVM has no values of its result's type")
    return relay.Constant(tvm.nd.array(np.ascontiguousarray(array).reshape(array.shape)))
