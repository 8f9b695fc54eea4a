# SPDX-License-Identifier: Apache-2.0
"""A backend for demos/customization.py: a product with one-hot rows as a look-up, and a chain of
elementwise operators as one loop, both in C.

Own pattern with a constraint: `Custom.patterns`. Own pattern rule: `add_pattern_rule`. Own code
generation: `Custom.compile`. Own costs: `Custom.cost`, by Target("custom -estimate=1").
Test: demos/test_customization.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.relay_util.walk import elements_of, nodes_of, operator_calls
from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard

LOOK_UP, CHAIN = "custom.look_up", "custom.chain"
# What `nn.dense(cast(equal(x, labels)), w)` computes: for each number the column of w whose label
# it is. Labels may repeat, or be no numbers of columns; then all of them are looked at.
LOOK_UP_SOURCE = """
#include <stdint.h>
void run(const int32_t* x, const int32_t* labels, const float* w, float* out) {
  static const long labels_count = LABELS, columns = COLUMNS;
  int column_of[LABELS], is_plain = 1;
  for (long k = 0; k < LABELS; ++k) column_of[k] = -1;
  for (long k = 0; k < LABELS; ++k) {
    if (labels[k] < 0 || labels[k] >= LABELS || column_of[labels[k]] >= 0) { is_plain = 0; break; }
    column_of[labels[k]] = k;
  }
  float by_column[LABELS][COLUMNS];
  for (long j = 0; j < columns; ++j)
    for (long k = 0; k < labels_count; ++k) by_column[k][j] = w[j * labels_count + k];
  #pragma omp parallel for
  for (long i = 0; i < ROWS; ++i) {
    float* row = out + i * columns;
    for (long j = 0; j < columns; ++j) row[j] = 0;
    if (is_plain && x[i] >= 0 && x[i] < labels_count) {
      for (long j = 0; j < columns; ++j) row[j] = by_column[column_of[x[i]]][j];
    } else {
      for (long k = 0; k < labels_count; ++k)
        if (labels[k] == x[i]) for (long j = 0; j < columns; ++j) row[j] += by_column[k][j];
    }
  }
}
"""
# glibc has a vector form of expf, which the compiler takes where it is told.
CHAIN_SOURCE = """
#pragma omp declare simd notinbranch
float expf(float);
static inline float tanh_of(float x) { return 1 - 2 / (expf(2 * x) + 1); }
void run(PARAMETERS, float* out) {
  #pragma omp parallel for simd
  for (long i = 0; i < SIZE; ++i) {
    LINES
  }
}
"""
OPERATORS = {"add": "({} + {})", "multiply": "({} * {})", "tanh": "tanh_of({})"}
BYTES_A_SECOND = 1e10


class Custom(collage.Backend):
    name = "custom"
    options = {"estimate": False}

    def version(self) -> str:
        return "1"

    def patterns(self) -> list[tuple[Any, ...]]:
        one_hot = is_op("cast")(is_op("equal")(wildcard(), is_constant()))
        product = is_op("nn.dense")(is_op("reshape")(one_hot), is_constant())
        return [(LOOK_UP, product, self.are_a_column_and_a_row)]

    def are_a_column_and_a_row(self, dense: relay.Call) -> bool | str:
        """The constraint: of rows that are one-hot, and of nothing else."""
        equal = dense.args[0].args[0].args[0]
        numbers, labels = (arg.checked_type for arg in equal.args)
        if (numbers.dtype, labels.dtype, dense.checked_type.dtype) != ("int32", "int32", "float32"):
            return "its types are others"
        is_row = elements_of(labels) == labels.shape[-1] == dense.args[0].checked_type.shape[-1]
        return bool(numbers.shape[-1] == 1 and is_row) or "it compares no column with a row"

    def compile(self, function: relay.Function) -> tvm.runtime.Module:
        """C for either composite; it gets parameters, then constants, then the output."""
        composite = function.body.op
        if composite.attrs["Composite"] == CHAIN:
            source = chain_source(composite)
        else:
            labels = composite.body.args[0].checked_type.shape[-1]
            rows, columns = composite.body.checked_type.shape
            numbers = {"LABELS": labels, "ROWS": rows, "COLUMNS": columns}
            source = LOOK_UP_SOURCE
            for name, number in numbers.items():
                source = source.replace(name, str(number))
        flags = ["-O3", "-march=native", "-fopenmp", "-lmvec", "-lm"]
        return collage.c_source_module(function, source, flags=flags)

    def cost(self, candidate: tvm.IRModule) -> float | None:
        """Bytes that go in and out by a speed that nobody measured, where that is asked for."""
        if not self.options["estimate"]:
            return None  # measured
        main = candidate["main"]
        types = [param.checked_type for param in main.params] + [main.ret_type]
        return sum(4 * elements_of(each) for each in types) / BYTES_A_SECOND


def chain_source(composite: relay.Function) -> str:
    """A loop over all elements, a line for each call."""
    constants = nodes_of(composite, relay.Constant)
    (x,) = composite.params
    # A constant is a number, or has one for each element.
    places = ["0" if np.prod(each.data.shape) == 1 else "i" for each in constants]
    names = {x: "x[i]"}
    names |= {each: f"c{k}[{place}]" for k, (each, place) in enumerate(zip(constants, places))}
    lines = []
    for number, call in enumerate(operator_calls(composite)):
        value = OPERATORS[call.op.name].format(*(names[arg] for arg in call.args))
        lines.append(f"const float t{number} = {value};")
        names[call] = f"t{number}"
    lines.append(f"out[i] = {names[composite.body]};")
    tensors = ["x", *(f"c{k}" for k in range(len(constants)))]
    parameters = ", ".join(f"const float* {name}" for name in tensors)
    source = CHAIN_SOURCE.replace("LINES", "\n    ".join(lines)).replace("PARAMETERS", parameters)
    return source.replace("SIZE", str(elements_of(composite.ret_type)))


def is_elementwise(call: relay.Call) -> bool:
    """Which operators a chain has: those of one tensor, and of it and a number."""
    if getattr(call.op, "name", "") not in OPERATORS or call.checked_type.dtype != "float32":
        return False
    shapes = [tuple(arg.checked_type.shape) for arg in call.args]
    own = tuple(call.checked_type.shape)
    return all(shape == own or np.prod(shape, dtype=int) == 1 for shape in shapes)


def may_follow(upstream: relay.Call, downstream: relay.Call) -> bool:
    """Which neighbours are in one chain: those of one shape."""
    return tuple(upstream.checked_type.shape) == tuple(downstream.checked_type.shape)


def is_whole(sub_graph: Any) -> bool:
    """The last word on a chain: it has a tanh, and reads one tensor."""
    ops = [sub_graph.graph[k].op for k in sub_graph.inside]
    return "tanh" in ops and len(ops) >= 4 and len(sub_graph.inputs) == 1


collage.register_backend(Custom())
collage.add_pattern_rule("custom", is_elementwise, may_follow, verify=is_whole, name="chain")
