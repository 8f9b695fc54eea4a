# SPDX-License-Identifier: Apache-2.0
"""Operators of our own in TVM's registry. Test: ops/test_onnx_node.py, ops/test_recurrence.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import te
from tvm.relay.op import op as registry

# Of TVM's kinds of conversion to mixed precision (relay/transform/mixed_precision.py): the kernels
# are of the types that they are given.
_NEVER = 2


def register(
    name: str,
    operands: Sequence[str],
    type_of: Callable[..., tvm.ir.Type | None],
    compute_for: Callable[[tvm.target.Target], Callable[..., Any]],
) -> None:
    """Make an operator known to TVM, whose attributes are a dictionary.

    type_of: a relation of TVM's, of types and attributes. compute_for: a target -> what makes the
    tensors of a call there.
    """

    @tvm.target.override_native_generic_func(f"{name}.strategy")
    def strategy(*call: Any) -> registry.OpStrategy:
        implementations, target = registry.OpStrategy(), call[-1]
        implementations.add_implementation(compute_for(target), _schedule, name=f"{name}.cpu")
        return implementations

    registry.register(name, "An operator of tvm.relay.collage.ops.")
    operator = registry.get(name)
    operator.set_num_inputs(len(operands))
    for operand in operands:
        operator.add_argument(operand, "Tensor", "See tvm.relay.collage.ops.")
    operator.set_attrs_type_key("DictAttrs")
    operator.add_type_rel(name, type_of)
    operator.set_support_level(10)
    registry.register_pattern(name, registry.OpPattern.OPAQUE)
    registry.register_mixed_precision_conversion(name, lambda *_: [_NEVER, "float32", "float32"])
    registry.register_strategy(name, strategy)


def _schedule(_attrs: tvm.ir.Attrs, results: Sequence[te.Tensor], _target: Any) -> te.Schedule:
    return te.create_schedule([result.op for result in results])
