# SPDX-License-Identifier: Apache-2.0
"""Calls on constants, computed by builds of ours: LLVM rejects some kernels of TVM's own builds.

TVM's FoldConstant has its kernels compiled as they are, and fails as a whole with one that LLVM
rejects, as that of a table of positions that a vision transformer resizes.

Test: compile/test_computed.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relay
from tvm.contrib.graph_executor import GraphModule

from .fold import evaluate, fits, fold_in_place
from .fold_ops import Value
from .library import build_library
from .target import host_target


def computed(call: relay.Call, arrays: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """Return the results of a call's operator on arrays of these tensor types; TVMError where it
    has no kernel."""
    params = [relay.Var(f"p{i}", each) for i, each in enumerate(types)]
    function = relay.Function(params, relay.Call(call.op, params, call.attrs))
    library = build_library(tvm.IRModule.from_expr(function), host_target())
    module = GraphModule(library["default"](tvm.cpu()))
    for index, array in enumerate(arrays):
        module.set_input(index, array)
    module.run()
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


@tvm.transform.module_pass(opt_level=0, name="FoldConstantOrCompute")
def fold_constant(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """Run TVM's FoldConstant, where the context has that run; where it fails, again after what is
    constant was computed here."""
    stock = tvm.transform.Sequential([relay.transform.FoldConstant()])
    try:
        return stock(mod)
    except tvm.TVMError:
        mod = relay.transform.InferType()(mod.clone())
        if not fold_in_place(mod, _by_numpy_or_build):
            raise
        return stock(mod)


def _by_numpy_or_build(
    call: relay.Call, arrays: Sequence[Value | None], expected: Any
) -> Value | None:
    value = evaluate(call, arrays, expected)
    if value is not None or not _is_tvms_to_fold(call.op):
        return value
    types = [arg.checked_type for arg in call.args]
    is_tensor = all(isinstance(each, relay.TensorType) for each in (*types, expected))
    if not is_tensor or any(array is None for array in arrays):
        return None
    try:
        [result] = computed(call, [tvm.nd.array(array) for array in arrays], types)
    except tvm.TVMError:
        return None
    return result if fits(result, expected) else None


def _is_tvms_to_fold(op: tvm.ir.Op) -> bool:
    """Tell whether TVM's FoldConstant would compute an operator: backends know qnn's."""
    is_kept = op.get_attr("TOpIsStateful") or op.get_attr("TNonComputational")
    return not is_kept and not op.name.startswith("qnn.")
