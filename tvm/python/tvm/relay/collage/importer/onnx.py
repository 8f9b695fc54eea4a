# SPDX-License-Identifier: Apache-2.0
"""TVM's ONNX importer, quick and with clear errors: the same module in a small part of the time.

The importer is TVM's own. Within a scope the helpers that its converters share are others in the
thread that opened it: types and folded constants are kept from node to node, the table of
converters is made once. A node that TVM has no converter for, or a wrong one, becomes a call that
onnxruntime computes (importer/opaque.py).

Test: importer/test_onnx.py. Docs: docs/import.md
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import tvm
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from tvm import relay
from tvm.relay.frontend import common, onnx

from ..compile.module_check import collected_diagnostics
from ..errors import ModelError, ShapeError
from ..messages.foreign import last_line
from ..ops.onnx_names import captured, plainly_named
from ..process_wide.interrupts import interrupts_kept
from ..relay_util.walk import children_of, key_of
from ..tvm_fixes.apply import ScopedFix
from ..tvm_fixes.onnx_converters import leave_empty_out, mend, name_what_branches_read
from .activations import ACTIVATIONS, activation
from .clean import KnownTypes, cleaned, declared_types
from .distrusted import why_distrusted
from .folds import Folds
from .opaque import Versions, opaque
from .recurrent import RECURRENT, layer
from .types import DTYPES, Types, agrees, relay_type
from .whole import whole

_logger = logging.getLogger(__name__)

# Integers of four bits, of which an input has one in each byte.
_IN_BYTES = (TensorProto.INT4, TensorProto.UINT4)
# TVM's importer keeps the graph at hand in a class attribute, GraphProto.current, by which loops
# look up what is around them: another thread's import would change it.
_ONE_AT_A_TIME = threading.RLock()


def from_onnx(
    model: ModelProto,
    shape: dict[str, Any] | None = None,
    dtype: str | dict[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: dict[str, Any] | None = None,
    export_node_renamed_model_path: str | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Import an ONNX ModelProto as a Relay module and its parameters: `relay.frontend.from_onnx`,
    quick.

    shape: dimensions by input, for those that the model leaves open. dtype: type by input, else the
    model's. freeze_params: weights become constants of the module, and there are no parameters.
    A model with a node that neither TVM nor onnxruntime takes by itself is one node as a whole.
    Raises ModelError where onnxruntime does not run that either, or TVM lacks an input's type;
    ShapeError for a shape of what is no input, or that differs from sizes that the model fixes.
    """
    _check_model(model)
    _check_shapes(model, shape or {})
    model = plainly_named(model)
    options = (shape, dtype, opset, freeze_params, convert_config, export_node_renamed_model_path)
    with _ONE_AT_A_TIME, quick_import(), collected_diagnostics() as found, interrupts_kept():
        try:
            return relay.frontend.from_onnx(model, *options)
        except tvm.TVMError as error:  # of the graph's inputs, or of the whole module
            why = " ".join("; ".join(found).split()) or last_line(error)
            refusal = ModelError(f"TVM cannot import the model: {why}")
            refusal.__cause__ = error
        except ModelError as error:  # of a node
            refusal = error
    if opset is not None or isinstance(dtype, dict):  # which the model as a whole has not
        raise refusal from refusal.__cause__
    return _as_one_node(model, shape or {}, refusal), {}


def _as_one_node(model: ModelProto, shapes: dict[str, Any], refusal: ModelError) -> tvm.IRModule:
    """Return what TVM cannot import as the one node that onnxruntime runs. ModelError, which is
    `refusal` and why it is no such node, where onnxruntime cannot run it either."""
    try:
        made = whole(model, {v.name: _input_type(v, shapes.get(v.name)) for v in _inputs(model)})
    except ModelError as error:
        text = f"{refusal.text}; as a whole: {error.text}"
        raise ModelError(text) from refusal.__cause__
    _logger.warning("%s; so onnxruntime runs the model as a whole", refusal)
    return made


def _inputs(model: ModelProto) -> list[ValueInfoProto]:
    """Return the inputs that no weights stand for."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def _input_type(value: ValueInfoProto, shape: Any) -> relay.TensorType:
    found = relay_type(value.type, shape)
    if found is None:
        raise ModelError(f"input {value.name} is of another type in TVM")
    return found


def _check_model(model: ModelProto) -> None:
    """TypeError for what is no ONNX model, ModelError for one that computes nothing."""
    if not hasattr(model, "graph"):
        raise TypeError(
            f"from_onnx takes an onnx.ModelProto, got {type(model).__name__}: onnx.load(path) "
            "gives one"
        )
    for what in ("nodes", "outputs"):
        if not getattr(model.graph, what.removesuffix("s")):
            raise ModelError(
                f"the ONNX model has no {what}: the file is empty or cut off; export it again"
            )


def _check_shapes(model: ModelProto, shapes: dict[str, Any]) -> None:
    """ShapeError for shapes that do not fit the graph's inputs."""
    inputs: dict[str, list[int] | None] = {}
    for each in _inputs(model):
        _check_input(each, shapes)
        kind = each.type.tensor_type
        # An open size has a name or nothing; some exporters write 0 or -1 for it.
        own = [max(0, dim.dim_value) for dim in kind.shape.dim]
        inputs[each.name] = own if kind.HasField("shape") else None
    known = {*inputs, *(tensor.name for tensor in model.graph.initializer)}
    unknown = [name for name in shapes if name not in known]
    if unknown:
        raise ShapeError(
            f"a shape is given for {', '.join(unknown)}, and the model's inputs are "
            f"{', '.join(inputs) or 'none'}: name one of these"
        )
    for name, shape in shapes.items():
        sizes = inputs.get(name)
        if sizes is None:
            continue
        if len(shape) != len(sizes):
            raise ShapeError(
                f"the shape {list(shape)} of input {name} has {len(shape)} sizes, and the model's "
                f"input has {len(sizes)}: give as many"
            )
        if any(
            size and isinstance(asked, int) and asked != size
            for size, asked in zip(sizes, shape, strict=True)
        ):
            fixed = ", ".join(str(size or "?") for size in sizes)
            raise ShapeError(
                f"the shape {list(shape)} of input {name} differs from the model's own, [{fixed}], "
                "in sizes that the model fixes: give these, or export it with other sizes"
            )


def _check_input(value: ValueInfoProto, shapes: dict[str, Any]) -> None:
    """ShapeError for an input that has no shape, ModelError for one of a type that TVM has not."""
    kind = value.type.tensor_type
    is_known = kind.elem_type in DTYPES or kind.elem_type in _IN_BYTES
    if not value.type.HasField("tensor_type") or not is_known:
        found = str(value.type).split("{")[0].strip() or "unknown"
        if value.type.HasField("tensor_type"):
            found = TensorProto.DataType.Name(kind.elem_type).lower()
        raise ModelError(
            f"input {value.name} is of type {found}, and TVM has no tensors of it: export the "
            "model with inputs of plain numbers"
        )
    if not kind.HasField("shape") and value.name not in shapes:
        raise ShapeError(
            f"input {value.name} has no shape in the model: give one by --shape, or in Python by "
            f'shape={{"{value.name}": (1, 3, 224, 224)}}, with as many sizes as it has'
        )


@contextlib.contextmanager
def quick_import() -> Iterator[None]:
    """`relay.frontend.from_onnx` is quick in this thread within the block; others see stock TVM."""
    with contextlib.ExitStack() as stack:
        ours = {name: stack.enter_context(fix.inside())[0] for name, fix in _FIXES.items()}
        stock = {name: dispatching.__wrapped__ for name, dispatching in ours.items()}
        token = _SCOPE.set(_Scope(stock))
        try:
            yield
        finally:
            _SCOPE.reset(token)


class _Scope:
    """The knowledge of one block. Its methods take the place of TVM's functions, which they are
    given.

    Cache of converters: key is the opset.
    """

    def __init__(self, stock: dict[str, Callable]) -> None:
        self._types = Types(stock["infer_type"])
        self._folds = Folds(stock["fold_constant"], self._types)
        self._converters: dict[int, Any] = {}
        # Of the model that is being imported: its operators' versions, and types by value.
        self._versions = Versions([], 0)
        self._inferred: KnownTypes = {}
        self._expected: KnownTypes = {}  # with what the model says of its outputs

    def from_onnx(
        self,
        stock: Callable,
        model: ModelProto,
        shape: dict[str, Any] | None = None,
        dtype: Any = "float32",
        opset: int | None = None,
        *options: Any,
        **named: Any,
    ) -> Any:
        """Import what is left of a model once libraries have made it simpler."""
        outer = self._versions, self._inferred, self._expected
        model, self._inferred = cleaned(model, shape or {})
        self._expected = {**declared_types(model), **self._inferred}
        self._versions = Versions.of(model, opset)
        try:
            return stock(model, shape, dtype, opset, *options, **named)
        finally:
            self._versions, self._inferred, self._expected = outer

    def infer_type(self, _stock: Callable, node: relay.Expr, mod: tvm.IRModule = None) -> Any:
        return self._types.infer_type(node, mod)

    def fold_constant(self, _stock: Callable, node: relay.Expr, mod: tvm.IRModule = None) -> Any:
        return self._folds.fold_constant(node, mod)

    def set_span(self, stock: Callable, sym: relay.Expr, span: relay.Span | str) -> Any:
        """Fold and type the copy that carries the span as what it copies."""
        copy = stock(sym, span)
        is_wrapper = isinstance(sym, relay.expr.TupleWrapper)
        pairs = [(sym.tuple_value, copy.tuple_value) if is_wrapper else (sym, copy)]
        # Steps of a recurrent layer share what comes before them: each expression is met once, not
        # once for each of the paths to it, whose number doubles from step to step.
        met: set[int] = set()
        while pairs:
            old, new = pairs.pop()
            if isinstance(old, relay.Expr) and not old.same_as(new) and key_of(old) not in met:
                met.add(key_of(old))
                self._types.copied(old, new)
                self._folds.copied(old, new)
                pairs.extend(zip(children_of(old), children_of(new), strict=True))
        return copy

    def convert_map(self, stock: Callable, opset: int) -> Any:
        if opset not in self._converters:
            self._converters[opset] = stock(opset)
            for converter in self._converters[opset].values():
                if isinstance(converter, common.AttrCvt):
                    converter._ignores = _Set(converter._ignores)
        return self._converters[opset]

    def check_for_unsupported_ops(self, _stock: Callable, _proto: Any, _graph: Any) -> None:
        """Refuse no node: `construct_nodes` finds out which nodes onnxruntime takes."""

    def construct_nodes(self, stock: Callable, proto: onnx.GraphProto, graph: GraphProto) -> None:
        for node in graph.node:
            name_what_branches_read(proto, node)
            why = self._why_not_converted(stock, proto, node)
            if why is not None:
                self._make_opaque(proto, node, why)

    def _why_not_converted(
        self, stock: Callable, proto: onnx.GraphProto, node: NodeProto
    ) -> Exception | None:
        """Convert a node by TVM; what is wrong with that, None where it is right."""
        try:
            if reason := why_distrusted(node, _reader(proto), self._types.type_of):
                return ModelError(reason)
            stock(proto, SimpleNamespace(node=[node]))
            for name in filter(None, node.output):
                found = self._types.type_of(proto._nodes[name])
                if name in self._inferred and not agrees(found, self._inferred[name]):
                    return ModelError(f"its result {name} would be of type {found}")
        except Exception as error:  # noqa: BLE001 - of whatever kind, by a converter's fault
            return error
        return None

    def _make_opaque(self, proto: onnx.GraphProto, node: NodeProto, why: Exception) -> None:
        span = onnx.get_source_name(node, proto._op_type_dict)
        # A model's input knows the node that reads it first, as TVM has it.
        proto._set_parameter_span(SimpleNamespace(input=[*node.input, *captured(node)]), span)
        try:
            found = opaque(
                node,
                _reader(proto),
                self._types.type_of,
                expected=self._expected,
                versions=self._versions,
            )
        except ModelError as error:
            raise _refusal(node, f"{_reason(why)}; {error.text}") from why
        except KeyError as error:
            raise _refusal(node, f"it reads {error}, which nothing gives") from error
        if isinstance(found, relay.expr.TupleWrapper):
            found = self.set_span(onnx.set_span, found, span)
        else:
            found = [self.set_span(onnx.set_span, each, span) for each in found]
        proto._nodes.update(zip(filter(None, node.output), found, strict=True))

    def convert_operator(
        self,
        stock: Callable,
        graph: GraphProto,
        op: str,
        inputs: Sequence[relay.Expr],
        attrs: dict[str, Any],
        opset: int,
    ) -> Any:
        mend(op, inputs, attrs)
        if op == "Concat":
            leave_empty_out(inputs, self._types.type_of)
        own = None
        if op in RECURRENT:
            own = layer(op, inputs, attrs, self._types.type_of)
        elif op in ACTIVATIONS:
            own = activation(op, inputs, self._types.type_of(inputs[0]).dtype)
        return stock(graph, op, inputs, attrs, opset) if own is None else own


def _reader(proto: onnx.GraphProto) -> Callable[[str], Any]:
    """Return what tells the expression of a value that a node reads."""
    return lambda name: proto._nodes[proto._renames.get(name, name)]


def _reason(why: Exception) -> str:
    return why.text if isinstance(why, ModelError) else last_line(why)


def _refusal(node: NodeProto, why: str) -> ModelError:
    where = f'{node.op_type} "{node.name}" (output "{node.output[0]}")'
    return ModelError(f"TVM cannot import the ONNX node {where}: {why}")


class _Set(list):
    """A list that holds nothing twice: a converter appends the same names at each call."""

    def append(self, item: Any) -> None:
        if item not in self:
            super().append(item)


def _dispatching(method: str) -> Callable[[Callable], Callable]:
    """Return what makes of TVM's function one that asks this thread's scope, if it has one."""

    def make(stock: Callable) -> Callable:
        @functools.wraps(stock)
        def dispatching(*args: Any, **kwargs: Any) -> Any:
            scope = _SCOPE.get()
            if scope is None:
                return stock(*args, **kwargs)
            return getattr(scope, method)(stock, *args, **kwargs)

        return dispatching

    return make


_SCOPE: contextvars.ContextVar[_Scope | None] = contextvars.ContextVar("_SCOPE", default=None)
# By the rows' names, which those of the methods of _Scope are.
_FIXES = {
    name: ScopedFix(name, _dispatching(name))
    for name in (
        *("infer_type", "fold_constant", "set_span", "convert_map", "from_onnx"),
        *("check_for_unsupported_ops", "construct_nodes", "convert_operator"),
    )
}
