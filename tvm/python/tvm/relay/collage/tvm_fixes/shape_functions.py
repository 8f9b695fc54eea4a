# SPDX-License-Identifier: Apache-2.0
"""Shape functions of TVM's elementwise operators that have none, for the VM.

TVM 0.19 registers them for some of these operators (exp, tanh) and not for others, so a model whose
sizes data decide could not have a cosine. The file is short since it ends with TVM's next version.
Importing it applies the row "shape functions". Test: tvm_fixes/test_shape_functions.py.
"""

from __future__ import annotations

import tvm
from tvm.relay.op import op as registry
from tvm.relay.op._tensor import elemwise_shape_func

OPERATORS = (
    *("abs", "erf", "log10", "sign", "trunc"),
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinh"),
    *("isfinite", "isinf", "isnan"),
)

# Its first input decides.
_OF_THE_FIRST = ("reverse_sequence",)

for _name in (*OPERATORS, *_OF_THE_FIRST):
    if tvm.ir.Op.get(_name).get_attr("FShapeFunc") is None:
        registry.register_shape_func(_name, False, elemwise_shape_func)
