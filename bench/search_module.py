# SPDX-License-Identifier: Apache-2.0
"""Modules in files, for both sides of bench/search.py: large constants are kept as zeros of the
same type, since no search reads their values. Test: bench/test_search_stock.py.
"""

import json
import sys
import threading
from pathlib import Path

import numpy as np
import tvm
from tvm import relay

_LARGE = 16  # elements; smaller constants may decide what a predicate says
_PREFIX = "large_constant_"


class _Lifter(relay.ExprMutator):
    def __init__(self):
        super().__init__()
        self.lifted = []

    def visit_constant(self, constant):
        if int(np.prod(constant.data.shape, dtype=np.int64)) <= _LARGE:
            return constant
        kind = relay.TensorType(constant.data.shape, constant.data.dtype)
        self.lifted.append(relay.var(f"{_PREFIX}{len(self.lifted)}", kind))
        return self.lifted[-1]


def save_module(mod: tvm.IRModule, path: Path) -> None:
    """Write the module, which has only ``main``."""

    def save():
        lifter = _Lifter()
        main = lifter.visit(mod["main"])
        main = relay.Function([*main.params, *lifter.lifted], main.body)
        text = tvm.ir.save_json(tvm.IRModule.from_expr(main))
        Path(path).write_text(json.dumps({"module": text}))

    # Mutators go as deep as the net is.
    threading.stack_size(1 << 29)
    sys.setrecursionlimit(1 << 20)
    thread = threading.Thread(target=save)
    thread.start()
    thread.join()
    threading.stack_size(0)


def load_module(path: Path) -> tvm.IRModule:
    """The typed module, its large constants zeros."""
    mod = tvm.ir.load_json(json.loads(Path(path).read_text())["module"])
    zeros = {
        var: relay.const(np.zeros([int(dim) for dim in var.type_annotation.shape], "float32")
                         .astype(var.type_annotation.dtype))
        for var in mod["main"].params
        if var.name_hint.startswith(_PREFIX)
    }  # fmt: skip
    main = relay.bind(mod["main"], zeros)
    return relay.transform.InferType()(tvm.IRModule.from_expr(main))
