# SPDX-License-Identifier: Apache-2.0
"""The backend ``cblas``: matrix products by OpenBLAS, in tiles on TVM's threads.

It is the example of docs/backends/own.md; mkl.py is a variant of it. Test: backends/test_blas.py.
"""

from __future__ import annotations

import ctypes
import math
from string import Template

from tvm import relay, runtime
from tvm.relay.dataflow_pattern import is_op, wildcard

from ..errors import UnsupportedOpError
from ..relay_util.external import is_on_one_thread
from ..relay_util.walk import nodes_of
from .interface import Backend
from .own_code import NeededLibrary, c_source_module

PRODUCTS = ("nn.dense", "nn.matmul", "nn.batch_matmul")
TYPES = {"float32": ("float", "s"), "float64": ("double", "d")}
VERSION = "tiles 1"  # to be raised with the C: then costs are measured again
HEAD = """
#include <stdlib.h>
#include <string.h>
struct Group { void* sync; int32_t tasks; };  /* TVMParallelGroupEnv */
int TVMBackendParallelLaunch(int (*)(int, void*, void*), void*, int);
__attribute__((constructor)) static void compute_on_the_calling_thread(void) { $SETUP }
"""
# The lines of the longer axis, of all matrices, are divided over the tasks in blocks of 16.
PRODUCT = """
void ${BLAS}gemm(int, int, int, int, int, int, $REAL, const $REAL*, int, const $REAL*, int, $REAL,
                 $REAL*, int);
void ${BLAS}gemv(int, int, int, int, $REAL, const $REAL*, int, const $REAL*, int, $REAL, $REAL*,
                 int);
static int tile$N(int number, void* group, void* data) {
  enum { ROWS = $ROWS, COLUMNS = $COLUMNS, DEPTH = $DEPTH, BY_ROWS = ROWS >= COLUMNS };
  const $REAL **tensors = data, *bias = tensors[2];
  const long extent = BY_ROWS ? ROWS : COLUMNS, lines = $BATCH * extent;
  const long blocks = (lines + 15) / 16, tasks = ((struct Group*)group)->tasks;
  const long end = number + 1 == tasks ? lines : blocks * (number + 1) / tasks * 16;
  for (long line = blocks * number / tasks * 16, count; line < end; line += count) {
    const long matrix = line / extent, first = line % extent;
    count = extent - first < end - line ? extent - first : end - line;
    const long row = BY_ROWS ? first : 0, column = BY_ROWS ? 0 : first;
    const long m = BY_ROWS ? count : ROWS, n = BY_ROWS ? COLUMNS : count;
    const $REAL* a = tensors[0] + matrix * $STRIDE_A + row * ($TRANS_A ? 1 : DEPTH);
    const $REAL* b = tensors[1] + matrix * $STRIDE_B + column * ($TRANS_B ? DEPTH : 1);
    $REAL* c = ($REAL*)tensors[3] + (matrix * ROWS + row) * COLUMNS + column;
    for (long i = 0; bias && i < m; ++i) memcpy(c + i * COLUMNS, bias + column, n * sizeof *c);
    /* gemm would rearrange all of b, which takes longer than the products of few rows. */
    for (long i = 0; m <= 3 && i < m; ++i)
      ${BLAS}gemv(101, $TRANS_B ? 111 : 112, $TRANS_B ? n : DEPTH, $TRANS_B ? DEPTH : n, 1, b,
                  $TRANS_B ? DEPTH : COLUMNS, a + i * ($TRANS_A ? 1 : DEPTH), $TRANS_A ? ROWS : 1,
                  bias != 0, c + i * COLUMNS, 1);
    if (m > 3)
      ${BLAS}gemm(101, $TRANS_A ? 112 : 111, $TRANS_B ? 112 : 111, m, n, DEPTH, 1, a,
                  $TRANS_A ? ROWS : DEPTH, b, $TRANS_B ? DEPTH : COLUMNS, bias != 0, c, COLUMNS);
    for (long i = 0; $RELU && i < m; ++i)
      for ($REAL *x = c + i * COLUMNS, *stop = x + n; x < stop; ++x) *x = 0 > *x ? 0 : *x;
  }
  return 0;
}
static void product$N(const $REAL* a, const $REAL* b, const $REAL* bias, $REAL* c) {
  const $REAL* tensors[] = {a, b, bias, c};
  if ($IS_SMALL) tile$N(0, &(struct Group){0, 1}, tensors);
  else TVMBackendParallelLaunch(tile$N, tensors, 0);
}
"""


class CblasBackend(Backend):
    """Products of float32 and float64 matrices, each with the bias and the relu behind it."""

    name = "cblas"
    colour = "#cc79a7"
    local_predicates = True
    restrictions = ("types other than float32 and float64", "dynamic shapes", "the AOT executor")
    needs = NeededLibrary(
        title="OpenBLAS (libscipy_openblas.so)",
        soname="libscipy_openblas.so",
        variable="COLLAGE_OPENBLAS_LIBRARY",
        package="scipy-openblas32==0.3.34.481.3",
        patterns=("scipy_openblas32/lib/libscipy_openblas.so",),
        one_cpu=True,
    )
    prefix = "scipy_"  # of the library's names
    setup = "void scipy_openblas_set_num_threads(int); scipy_openblas_set_num_threads(1);"

    def version(self) -> str:
        """Return OpenBLAS' configuration: the name of its kernels counts, a variable changes it."""
        get_config = ctypes.CDLL(self.needs.file()).scipy_openblas_get_config
        get_config.restype = ctypes.c_char_p
        return f"{get_config().decode()}, {VERSION}"

    def available(self) -> str | None:
        try:
            return None if self.version() else "it has no version"
        except (RuntimeError, AttributeError) as error:  # there is none, or it lacks a function
            return str(error)

    def patterns(self) -> list[tuple]:
        rows = []
        for op in PRODUCTS:
            product = is_op(op)(wildcard(), wildcard())
            sum_ = is_op("add")(product, wildcard()) | is_op("nn.bias_add")(product, wildcard())
            for chain, root in (("_bias", sum_), ("", product)):
                name = op.replace("nn", self.name) + chain
                rows += [(f"{name}_relu", is_op("nn.relu")(root), self.takes)]
                rows += [(name, root, self.takes)]
        return rows

    def takes(self, call: relay.Call) -> bool:
        """Accept what a pattern matched; UnsupportedOpError says why not."""
        return bool(self.product_of(call))

    def chain_of(self, root: relay.Call) -> tuple[relay.Call, relay.Expr | None, bool]:
        """Return what a match is made of: the product, its bias or None, and if relu ends it."""
        relu = _op(root) == "nn.relu"
        call, bias = root.args[0] if relu else root, None
        if (op := _op(call)) in ("add", "nn.bias_add"):
            result, axis = _shape(call), int(getattr(call.attrs, "axis", -1))
            is_first = _op(call.args[0]) in PRODUCTS and _shape(call.args[0]) == result
            call, bias = call.args if is_first else reversed(call.args)
            row = _shape(bias) or [1]
            if not row[-1] == math.prod(row) == result[-1] or axis not in (-1, len(result) - 1):
                reason = f"a bias of shape {row} is not one number for each column of {result}"
                raise UnsupportedOpError(self.name, op, reason)
        if _op(call) not in PRODUCTS:
            raise UnsupportedOpError(self.name, _op(root), "it does not end a matrix product")
        return call, bias, relu

    def product_of(self, root: relay.Call) -> tuple[list, dict[str, object]]:
        """Return a match's operands (a, b, and a bias or None), and what PRODUCT is filled with."""
        call, bias, relu = self.chain_of(root)
        dtypes = {each.checked_type.dtype for each in (call, *call.args, bias) if each is not None}
        if len(dtypes) > 1 or not dtypes <= TYPES.keys():
            reason = f"its types are {', '.join(sorted(dtypes))}, not all float32 or float64"
            raise UnsupportedOpError(self.name, _op(call), reason)
        a, b, c = map(_shape, (*call.args, call))
        trans_a = _op(call) != "nn.dense" and bool(call.attrs.transpose_a)
        trans_b = _op(call) == "nn.dense" or bool(call.attrs.transpose_b)
        # The leading axes of a are rows where one matrix b serves all, unless a is transposed.
        batch, rows = (c[0], c[1]) if len(b) == 3 else (1, math.prod(c[:-1]))
        columns, depth = c[-1], b[-1 if trans_b else -2]
        if not all(0 < size < 2**31 for size in (batch, rows, columns, depth)):
            reason = f"shapes {a} and {b} are dynamic, empty or more than an int holds"
            raise UnsupportedOpError(self.name, _op(call), reason)
        if trans_a and len(a) != len(b):
            raise UnsupportedOpError(self.name, _op(call), f"shape {a} is transposed")
        real, letter = TYPES[dtypes.pop()]
        work = 2 * math.prod(c) * depth / 100 + 4 * sum(map(math.prod, (a, b, c))) / 20
        return [*call.args, bias], {
            **{"REAL": real, "BLAS": f"{self.prefix}cblas_{letter}", "RELU": int(relu)},
            **{"BATCH": batch, "ROWS": rows, "COLUMNS": columns, "DEPTH": depth},
            "STRIDE_A": 0 if len(b) == 2 or a[0] == 1 else rows * depth,
            "STRIDE_B": 0 if len(b) == 2 or b[0] == 1 else depth * columns,
            **{"TRANS_A": int(trans_a), "TRANS_B": int(trans_b)},
            "IS_SMALL": int(work < 10_000),  # nanoseconds: waking threads takes longer
        }

    def compile(self, function: relay.Function) -> runtime.Module:
        """Return the module of a part: its products in turn, for neighbours may be joined."""
        matches = [c for c in nodes_of(function, relay.Call) if isinstance(c.op, relay.Function)]
        outputs = list(getattr(function.body, "fields", [function.body]))
        if matches and len({*outputs} & {*matches}) < len(outputs):
            raise UnsupportedOpError(self.name, "Tuple", "a result is no product, or given twice")
        tensors = [*function.params, *nodes_of(function, relay.Constant), *outputs]
        names = {tensor: f"t{number}" for number, tensor in enumerate(tensors)}
        text, steps, ends = Template(HEAD).substitute(SETUP=self.setup), [], []
        for number, match in enumerate(matches or [function.body]):
            inside = dict(zip(match.op.params, match.args)) if matches else {}
            operands, numbers = self.product_of(match.op.body if matches else match)
            if is_on_one_thread(function):
                numbers["IS_SMALL"] = 1
            text += Template(PRODUCT).substitute(numbers, N=number)
            if match not in names:  # a result that stays inside
                names[match] = f"s{number}"
                elements = math.prod(_shape(match))
                steps.append(
                    f"{numbers['REAL']}* s{number} = malloc({elements} * sizeof *s{number});"
                )
                ends.append(f"free(s{number});")
            given = ["0" if each is None else names[inside.get(each, each)] for each in operands]
            steps.append(f"product{number}({', '.join(given)}, {names[match]});")
        takes = ", ".join(f"{TYPES[each.checked_type.dtype][0]}* {names[each]}" for each in tensors)
        text += f"void run({takes}) {{ {' '.join(steps + ends)} }}"
        return c_source_module(function, text, flags=["-O3"], library=self.needs)


def _op(expr: relay.Expr) -> str:
    """Return the name of the operator that is called, or of what else it is."""
    return getattr(getattr(expr, "op", expr), "name", type(expr).__name__)


def _shape(expr: relay.Expr) -> list[int]:
    """Return the extents, 0 for one that is dynamic, which no product takes."""
    return [getattr(extent, "value", 0) for extent in expr.checked_type.shape]
