# SPDX-License-Identifier: Apache-2.0
"""A backend that is wrong by a thousandth at one operator: a module that the fuzz imports."""

import tvm
from tvm import te
from tvm.relay.collage.backends import Backend, register_backend

NAME, OP = "wrong_by_little", "nn.relu"


def _takes(call):
    return call.checked_type.dtype == "float32" or "types other than float32"


class WrongByLittle(Backend):
    name = NAME
    op_predicates = {OP: _takes}

    def version(self):
        return "1"

    def compile(self, function):
        shape = [int(extent) for extent in function.ret_type.shape]
        data = te.placeholder(shape, name="data")
        result = te.compute(shape, lambda *i: te.max(data(*i), 0.0) * 1.001)
        schedule = te.create_schedule(result.op)
        symbol = str(function.attrs["global_symbol"])
        return tvm.build(schedule, [data, result], target="llvm", name=symbol)


register_backend(WrongByLittle())
