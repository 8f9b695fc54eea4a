# SPDX-License-Identifier: Apache-2.0
"""A backend with options of its own, which its patterns, predicates and codegen read: a module of
its own, so that worker processes can import it."""

from tvm import relay
from tvm.relay.collage import Backend, c_source_module, register_backend
from tvm.relay.dataflow_pattern import is_op, wildcard

NAME = "option_test"
SOURCE = """
void run(const float* x, float* out) {
  for (int i = 0; i < 8; ++i) out[i] = SCALE * x[i];
}
"""


class WithOptions(Backend):
    """Takes relu if `relu` says so, and tanh of rank `rank`; multiplies what it gets by `scale`."""

    name = NAME
    options = {"relu": True, "rank": 2, "scale": "1"}

    def version(self):
        return "1"

    def patterns(self):
        table = [(f"{NAME}.tanh", is_op("tanh")(wildcard()), self._has_rank)]
        if self.options["relu"]:
            table.append((f"{NAME}.relu", is_op("nn.relu")(wildcard())))
        return table

    def compile(self, function):
        return c_source_module(function, SOURCE.replace("SCALE", self.options["scale"]))

    def _has_rank(self, call: relay.Call):
        rank = len(call.checked_type.shape)
        return rank == self.options["rank"] or f"rank {rank} is not {self.options['rank']}"


BACKEND = register_backend(WithOptions())
