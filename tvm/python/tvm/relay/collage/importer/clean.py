# SPDX-License-Identifier: Apache-2.0
"""A model as TVM's importer can take it, made by ONNX's own library, and the types of its values.

Functions of the model itself are written out, and so are operators that ONNX defines by others
which any backend may take. Test: importer/test_clean.py. Docs: docs/import.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, inliner, shape_inference
from tvm import relay

from ..ops.onnx_names import own_opset
from .types import relay_type

# Operators without a right converter in TVM, which are more than one kernel of a library's.
_WRITTEN_OUT = frozenset(("Attention", "Gelu", "GroupNormalization", "RotaryEmbedding"))
# The domain of functions that are written out.
_DOMAIN = "collage.written_out"
# Weights of more elements than this say nothing of shapes, and are left out of the inference.
_SMALL = 1024

Types = Mapping[str, onnx.TypeProto]
# Types of tensors by name; None for one that TVM has not.
KnownTypes = dict[str, relay.TensorType | None]


def cleaned(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]
) -> tuple[onnx.ModelProto, KnownTypes]:
    """Return the model without functions, and the types of its tensors by their names, as far as
    ONNX infers them. shapes: of inputs, in place of the model's own."""
    model = inlined(model)
    types = _inferred(model, shapes)
    if any(_is_written_out(node) for node in model.graph.node):
        model = _written_out(model, types)
        types = _inferred(model, shapes)
    return model, _known(types)


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its functions written out; as it is where ONNX cannot do so."""
    if not model.functions:
        return model
    try:
        found = inliner.inline_local_functions(model, convert_version=True)
    except Exception:  # noqa: BLE001 - of kinds that the library does not name
        return model
    return model if found.functions else found


def declared_types(model: onnx.ModelProto) -> KnownTypes:
    """Return the types that a model says its outputs have, which may be wrong."""
    return _known({value.name: value.type for value in model.graph.output})


def _known(types: Types) -> KnownTypes:
    return {
        name: relay_type(found)
        for name, found in types.items()
        if found.tensor_type.elem_type and found.tensor_type.HasField("shape")
    }


def _is_written_out(node: onnx.NodeProto) -> bool:
    is_exact = node.op_type == "Gelu" and not node.attribute
    return not node.domain and node.op_type in _WRITTEN_OUT and not is_exact


def _written_out(model: onnx.ModelProto, types: Types) -> onnx.ModelProto:
    """Return the model with the nodes that ONNX defines these operators by."""
    opset = own_opset(model, 0)
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for index, node in enumerate(changed.graph.node):
        if not _is_written_out(node):
            continue
        function = _definition(node, opset, types)
        if function is not None:
            # One for each node: its body depends on the node's attributes and types.
            function.domain, function.name = _DOMAIN, f"{node.op_type}_{index}"
            node.domain, node.op_type = function.domain, function.name
            changed.functions.append(function)
    if not changed.functions:
        return model
    changed.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    found = inlined(changed)
    return model if found.functions else found


def _definition(node: onnx.NodeProto, opset: int, types: Types) -> onnx.FunctionProto | None:
    """Return the function that ONNX defines a node by, of operators of the version in which it did
    so first; None where there is none."""
    operands = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
    try:
        schema: Any = defs.get_schema(node.op_type, opset, "")
    except defs.SchemaError:  # the version has no such operator
        return None
    body = schema.get_context_dependent_function(node.SerializeToString(), operands)
    return onnx.FunctionProto.FromString(body) if body else None


def _inferred(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> Types:
    """Return ONNX's types of values; none where it cannot read the model: what is wrong with that
    the import says."""
    skeleton = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    graph = skeleton.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in model.graph.output)
    weights = set()
    for tensor in model.graph.initializer:
        weights.add(tensor.name)
        if int(np.prod(tensor.dims)) <= _SMALL:
            graph.initializer.append(tensor)
        else:
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            graph.input.append(info)
    for info in model.graph.input:
        if info.name in weights:
            continue
        if info.name in shapes:
            kind = info.type.tensor_type.elem_type
            info = helper.make_tensor_value_info(info.name, kind, [*shapes[info.name]])
        graph.input.append(info)
    try:
        inferred = shape_inference.infer_shapes(skeleton, data_prop=True).graph
    except Exception:  # noqa: BLE001 - of kinds that the library does not name
        return {}
    values = (*inferred.input, *inferred.value_info, *inferred.output)
    return {value.name: value.type for value in values}
