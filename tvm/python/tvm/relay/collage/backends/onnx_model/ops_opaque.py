# SPDX-License-Identifier: Apache-2.0
"""Nodes of the original ONNX model, which Relay carries as they are, in the model of a part.

A node is one of the version of operators that its model had. A part is written in the oldest
version that all its nodes are right in. Test: backends/onnx_model/test_ops_opaque.py.
"""

from __future__ import annotations

import functools

import onnx
import tvm
from onnx import defs, numpy_helper

from ...errors import UnsupportedOpError
from ...exec.forks import run_in_forks
from ...ops import ONNX_NODES, is_file, model_of
from ...ops.onnx_names import own_opset
from .builder import OPSET, Value
from .call import ExportedCall

# For reading one model.
_SECONDS = 60.0


def _opaque(call: ExportedCall) -> Value | list[Value]:
    model = model_of(call.attrs)
    if why := _why_not_read(call.backend, str(call.attrs["model"])):
        raise UnsupportedOpError(call.backend, str(call.attrs["operator"]), why)
    # Nothing shares a part with a whole file.
    opset = own_opset(model, OPSET) if is_file(call.attrs) else oldest_opset(model)
    if opset is None:
        what = "it is of a version of ONNX that a part's other nodes are not of"
        raise UnsupportedOpError(call.backend, str(call.attrs["operator"]), what)
    constants = [
        call.graph.constant(numpy_helper.to_array(each)) for each in model.graph.initializer
    ]
    operands = [*call.values, *constants]
    values = call.graph.opaque(model, operands, call.results, opset)
    return values[0] if len(values) == 1 else values


def oldest_opset(model: onnx.ModelProto) -> int | None:
    """Return the oldest version, from that of our own nodes on, in which a model's nodes are what
    they are in the model's; None where they are so in none."""
    own = own_opset(model, OPSET)
    first = {n.op_type: _since(n.op_type, own) for n in model.graph.node if not n.domain}
    opset = max([OPSET, *first.values()])
    is_same = all(_since(operator, opset) == since for operator, since in first.items())
    return opset if is_same else None


def _since(operator: str, opset: int) -> int:
    return int(defs.get_schema(operator, opset, "").since_version)


@functools.cache
def _why_not_read(backend: str, model: str) -> str:
    """Return why a backend's library cannot read a model, "" where it can. A fork asks it: some
    models end the process that OpenVINO reads them in.

    Cache: key is the library and the model; no other fact counts as long as the process lives.
    """

    def ask() -> str:
        return str(tvm.get_global_func("collage.onnx_model.why_not_read")(backend, model))

    reply = run_in_forks({"ask": ask}, lambda _: _SECONDS)["ask"]
    reason = reply.value if reply.outcome == "ok" else f"reading it fails: {reply.message}"
    return " ".join(reason.removeprefix("ValueError: ").split())


OPAQUE = dict.fromkeys(ONNX_NODES, _opaque)
