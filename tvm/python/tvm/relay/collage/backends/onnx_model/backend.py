# SPDX-License-Identifier: Apache-2.0
"""A backend that hands regions of a model, as ONNX, to a library.
Test: backends/onnx_model/test_backend.py."""

from __future__ import annotations

import tvm
from google.protobuf.message import EncodeError
from onnx import ModelProto, ValueInfoProto, helper
from tvm import relay

from ...ops.onnx_node import AWAKE, NONE, threads_of
from ...relay_util.external import COMPUTES_ALONE, is_on_one_thread
from ..interface import GRAPH_LEVEL, Backend
from .export import EXPORTED_OPS, export_function, why_not_exported

# Raise it when the models that are written change, or whose threads run them, so that their costs
# are measured again.
_EXPORTER = 9
# What protobuf can hold in one message.
_MOST_BYTES = 2**31 - 1


class OnnxModelBackend(Backend):
    """Regions in float32, float16 and quantised to bytes, of static shapes. Subclass and name it.

    `floats_alone`: the ops whose results on integers the library gets wrong, so they are refused.
    `preferred_operators`: of rewrites.PREFERABLE, those that it has good kernels for.

    The library is known to the C++ runtime (onnx_model/engine.cc) by the backend's name. It brings
    a pool of threads of its own, which sleep between calls unless nothing else computes.
    """

    floats_alone: frozenset[str] = frozenset()
    preferred_operators: frozenset[str] = frozenset()
    kind = GRAPH_LEVEL
    own_threads = True
    local_predicates = True
    restrictions: tuple[str, ...] = (
        "types other than float32, float16 and bytes (int32, int64, bool between)",
        "scales and zero points that are computed",
        "dynamic shapes",
        "attributes in which Relay and ONNX differ",
        "the AOT executor",
    )

    def __init__(self) -> None:
        self.op_predicates = dict.fromkeys(sorted(EXPORTED_OPS), self.takes)

    def takes(self, call: relay.Call) -> bool | str:
        """Return True, or why not."""
        return why_not_exported(call, self.name, self.floats_alone) or True

    def version(self) -> str:
        library = tvm.get_global_func("collage.onnx_model.version")(self.name)
        return f"{library}, exporter {_EXPORTER}" if library else ""

    def available(self) -> str | None:
        probe = tvm.get_global_func("collage.onnx_model.why_unavailable", allow_missing=True)
        if probe is None:
            return "libtvm_collage_runtime.so is not loaded"
        return str(probe(self.name)) or None

    def compile(self, function: relay.Function) -> tvm.runtime.Module:
        symbol = str(function.attrs["global_symbol"])
        model = self.exported(function)
        try:
            data = bytearray(model.SerializeToString())
        except EncodeError:
            data = bytearray()
        if not data or len(data) > _MOST_BYTES:
            raise ValueError(
                f"{self.name} cannot run {symbol}: its weights make an ONNX model of more than "
                f"{_MOST_BYTES} bytes, which is what one holds"
            )
        create = tvm.get_global_func("collage.onnx_model.create")
        inputs, outputs = (list(map(_spec, row)) for row in (model.graph.input, model.graph.output))
        threads = AWAKE if COMPUTES_ALONE in function.attrs else threads_of(model)
        if is_on_one_thread(function):
            threads = NONE
        return create(self.name, symbol, data, inputs, outputs, threads)

    def exported(self, function: relay.Function) -> ModelProto:
        """Return the ONNX model that the library gets of a function."""
        return export_function(
            function, self.name, self.floats_alone, preferred=self.preferred_operators
        )

    def constants(self, function: relay.Function, symbol: str) -> dict:
        """Return no constants: the model holds them."""
        return {}


def _spec(value: ValueInfoProto) -> str:
    """Return a tensor's dtype and extents as the runtime module reads them."""
    tensor = value.type.tensor_type
    extents = [str(dim.dim_value) for dim in tensor.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return " ".join([str(dtype), *extents])
