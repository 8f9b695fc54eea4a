# SPDX-License-Identifier: Apache-2.0
"""Backends for tan(atan(x)) that need no trigonometry: one right, the others wrong by 0.01 or 1.

A module of its own, so that workers can import it. Each is many times as fast as TVM anywhere.
"""

import tvm
from tvm.relay.collage import backends
from tvm.relay.dataflow_pattern import is_op, wildcard


class Identity(backends.Backend):
    """Copies its input and adds `error`."""

    def __init__(self, name, error=0.0, can_be_wrong=False, trades_accuracy=""):
        self.name, self.error, self.can_be_wrong = name, error, can_be_wrong
        self.trades_accuracy = trades_accuracy

    def patterns(self):
        return [(f"{self.name}.identity", is_op("tan")(is_op("atan")(wildcard())))]

    def compile(self, function):
        shape = [int(extent) for extent in function.ret_type.shape]
        data = tvm.te.placeholder(shape, name="data")
        result = tvm.te.compute(shape, lambda *i: data(*i) + tvm.tir.const(self.error, "float32"))
        schedule = tvm.te.create_schedule(result.op)
        schedule[result].vectorize(result.op.axis[-1])
        name = str(function.attrs["global_symbol"])
        return tvm.build(schedule, [data, result], target="llvm", name=name)


RIGHT, WRONG, SUSPECT = "identity_right", "identity_wrong", "identity_suspect"
backends.register_backend(Identity(RIGHT))
backends.register_backend(Identity(WRONG, error=1e-2))
backends.register_backend(Identity(SUSPECT, error=1e-2, can_be_wrong=True))
# They trade accuracy: one within what bfloat16 may be off, one far beyond it.
TRADER, BAD_TRADER = "identity_trader", "identity_bad_trader"
backends.register_backend(Identity(TRADER, error=1e-2, trades_accuracy="bfloat16"))
backends.register_backend(Identity(BAD_TRADER, error=1.0, trades_accuracy="bfloat16"))
