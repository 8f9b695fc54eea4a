# SPDX-License-Identifier: Apache-2.0
"""A backend whose code is really compiled, by LLVM, and really does harm when it runs: a module
that worker processes import."""

import tvm
from tvm import te, tir
from tvm.relay.collage.backends import Backend, register_backend

# Relay op -> a function of the C library that its kernel calls once for each element.
HARM = {
    "nn.relu": ("raise", 11),  # SIGSEGV
    "tanh": ("pause",),  # until a signal comes, which none does
}
NAME = "harmful"


class Harmful(Backend):
    name = NAME
    op_predicates = dict.fromkeys([*HARM, "exp", "erf"], lambda call: True)

    def version(self):
        return "1"

    def compile(self, function):
        op = function.body.op.name
        if op == "erf":
            raise ValueError("the compiler of this backend knows no erf")
        shape = [int(extent) for extent in function.ret_type.shape]
        data = te.placeholder(shape, name="data")
        if op == "exp":
            result = te.compute(shape, lambda *i: te.exp(data(*i)))
        else:
            name, *arguments = HARM[op]
            call = tir.call_extern("int32", name, *arguments)
            result = te.compute(shape, lambda *i: data(*i) + call.astype("float32"))
        schedule = te.create_schedule(result.op)
        symbol = str(function.attrs["global_symbol"])
        return tvm.build(schedule, [data, result], target="llvm", name=symbol)


register_backend(Harmful())
