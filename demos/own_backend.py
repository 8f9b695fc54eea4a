# SPDX-License-Identifier: Apache-2.0
"""A backend of one's own: RMS norm in C (docs/backends/own.md). Test: demos/test_own_backend.py."""

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import cc, graph_executor
from tvm.relay import collage
from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard

SOURCE = """
#include <math.h>
void run(const float* x, const float* epsilon, float* out) {
  #pragma omp parallel for
  for (long start = 0; start < SIZE; start += COLUMNS) {
    float sum = 0;
    #pragma omp simd reduction(+ : sum)
    for (long i = start; i < start + COLUMNS; ++i) sum += x[i] * x[i];
    const float scale = 1 / sqrtf(sum / COLUMNS + *epsilon);
    for (long i = start; i < start + COLUMNS; ++i) out[i] = x[i] * scale;
  }
}
"""


class RmsNorm(collage.Backend):
    name = "rms_norm"
    options = {"parallel": True}  # Target("rms_norm -parallel=0")

    def version(self):
        return "1"  # with it, costs are stored

    def available(self):
        return None if cc.get_cc() else "there is no C compiler: install gcc"

    def patterns(self):
        x = wildcard()
        mean = is_op("mean")(is_op("multiply")(x, x)).has_attr({"axis": [-1], "keepdims": True})
        scale = is_op("rsqrt")(is_op("add")(mean, is_constant().has_shape(())))
        return [("rms_norm.norm", is_op("multiply")(x, scale), self.is_float)]

    def is_float(self, call):
        return call.checked_type.dtype == "float32" or "it is not float32"

    def compile(self, function):
        shape = [int(extent) for extent in function.ret_type.shape]
        text = SOURCE.replace("SIZE", str(np.prod(shape))).replace("COLUMNS", str(shape[-1]))
        openmp = "-fopenmp" if self.options["parallel"] else "-fopenmp-simd"
        return collage.c_source_module(function, text, flags=["-O3", "-march=native", openmp])


collage.register_backend(RmsNorm())


def main(target="rms_norm", **options):
    x = relay.var("x", shape=(64, 1024))
    norm = x * relay.rsqrt(relay.mean(x * x, axis=-1, keepdims=True) + relay.const(1e-5))
    targets = [collage.host_target(), tvm.target.Target(target)]
    options = collage.CollageOptions(**options)
    result = collage.optimize(tvm.IRModule.from_expr(norm), targets=targets, options=options)
    module = graph_executor.GraphModule(result.library["default"](tvm.cpu()))
    data = np.random.default_rng(0).normal(size=(64, 1024)).astype("float32")
    module.run(x=data)
    expected = data / np.sqrt((data**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-4)
    return result


if __name__ == "__main__":  # worker processes import the backend from a module
    __import__("own_backend").main().show()
