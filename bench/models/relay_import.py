# SPDX-License-Identifier: Apache-2.0
"""A net of the benchmarks as a Relay module, through Collage's ONNX import.

Test: bench/test_models.py.
"""

from __future__ import annotations

import math
from typing import Any

import onnx
from onnx import helper

# Metadata of a model whose Relay module is to compute in the type that it names.
MIXED_PRECISION = "mixed_precision"


def to_relay(model: onnx.ModelProto) -> tuple[Any, dict[str, Any]]:
    """Module and parameters; the model's shapes are static.

    Under the metadata MIXED_PRECISION what TVM thinks fit is computed in that type.
    """
    from tvm.relay import collage, frontend, transform

    # Shapes that are computed need the numbers they are computed from.
    is_computed = any(node.op_type == "Shape" for node in model.graph.node)
    source = model if is_computed else _with_constant_nodes(model)
    # A process of stock TVM has the stock importer alone, whose module is the same, but later.
    from_onnx = getattr(collage, "from_onnx", frontend.from_onnx)
    mod, params = from_onnx(source, freeze_params=is_computed)
    if is_computed:
        mod = transform.DynamicToStatic()(mod)
    kinds = {item.key: item.value for item in model.metadata_props}
    if MIXED_PRECISION in kinds:
        mixed = transform.ToMixedPrecision(kinds[MIXED_PRECISION])
        mod, params = _transformed(mod, params, [transform.SimplifyInference(), mixed]), {}
    return mod, params


def _transformed(mod: Any, params: dict[str, Any], passes: list[Any]) -> Any:
    """Return the module with its parameters bound, after the passes."""
    import tvm
    from tvm.relay import build_module, transform

    mod["main"] = build_module.bind_params_by_name(mod["main"], params)
    infer = transform.InferType()
    return tvm.transform.Sequential([infer, *passes, infer])(mod)


def _with_constant_nodes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy whose shapes, axes and scalars are nodes: parameters are unknown to the
    importer."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    weights = [item for item in copy.graph.initializer if not _is_small(item)]
    nodes = [
        helper.make_node("Constant", [], [item.name], value=item)
        for item in copy.graph.initializer
        if _is_small(item)
    ] + list(copy.graph.node)
    for field, items in (("initializer", weights), ("node", nodes)):
        copy.graph.ClearField(field)
        getattr(copy.graph, field).extend(items)
    return copy


def _is_small(item: onnx.TensorProto) -> bool:
    return item.data_type == onnx.TensorProto.INT64 or math.prod(item.dims) <= 16
