# SPDX-License-Identifier: Apache-2.0
"""Backends with a codegen of a few lines, in C and by a registered function: a module of its own,
so that worker processes can import it."""

import tvm
from tvm import relay
from tvm.relay.collage import (
    Backend,
    c_source_module,
    register_backend,
    registered_function_module,
)
from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard


class InC(Backend):
    """x minus a constant; the source is the tests' to change."""

    name = "in_c_test"
    source = """
void run(const float* x, const float* c, float* out) {
  for (int i = 0; i < SIZE; ++i) out[i] = x[i] - c[i];
}
"""

    def version(self):
        return "1"

    def patterns(self):
        minus = is_op("subtract")(wildcard(), is_constant())
        return [(f"{self.name}.minus", minus)]

    def compile(self, function):
        size = 1
        for extent in getattr(function.ret_type, "shape", ()):
            size *= int(extent)
        return c_source_module(function, self.source.replace("SIZE", str(size)))


@tvm.register_func("own_code_backends.minus", override=True)
def minus(x, c, out):
    out.copyfrom(x.numpy() - c.numpy())


class InPython(InC):
    name = "in_python_test"

    def compile(self, function):
        return registered_function_module(function, "own_code_backends.minus")


IN_C, IN_PYTHON = register_backend(InC()), register_backend(InPython())


def net(constant):
    """tanh(x - constant), float32, of the constant's shape."""
    x = relay.var("x", shape=constant.shape)
    body = relay.tanh(relay.subtract(x, relay.const(constant)))
    return tvm.IRModule.from_expr(relay.Function([x], body))
