# SPDX-License-Identifier: Apache-2.0
"""The reference of a candidate: its operators computed one by one, without any external code.

Test: measure/outputs/test_reference.py.

Numpy computes the common operators. Any other call is built by TVM alone, hardly optimised, with
its operands as parameters, and runs on numpy arrays. A build takes a fifth of a second, and a whole
network has hundreds of distinct calls. Builds are few, too: candidates overlap and layers repeat.
Cache: built calls by the text of the call (attributes, types and small constants) and builder; it
misses on a new call, and lives as long as the worker.

What has values of 32 bits can be computed with 64 instead, call by call: that is `exact`. A call
that cannot be built so is computed as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib.graph_executor import GraphModule
from tvm.relay import expr as _expr
from tvm.relay.function import Function

from ...candidate.candidate import CandidateModule
from ...candidate.inputs import describe_inputs, random_inputs
from ...candidate.weights import is_weight
from ...compile.module_check import collected_diagnostics
from ...costs.rounding import Tolerance, mismatch, widened
from ...exec.arrays import as_numbers, load_arrays, save_arrays
from ...exec.reply import Unsupported, WrongResult
from ...exec.resolve import resolve
from ...exec.spent import phase
from ...messages.foreign import describe
from ...relay_util.walk import operands_of, post_order
from .numpy_operators import OPERATORS, compute
from .tolerance import tolerance_of

# Plain on purpose: no instruction that the candidate's own target asks for, and it runs here even
# when that target is another machine.
_TARGET = "llvm"
_OPT_LEVEL = 1  # the lowest that knows quantised operators
_MOST_KERNELS = 1024
# Operators that are computed as they are also where the rest is exact: TVM computes with the
# constants of quantised ones as it builds, and ours may call a library.
_FIXED = ("qnn.", "collage.")
_NARROW, _WIDE = "float32", "float64"


def make_reference(
    candidate: dict[str, Any], file: str, builder: str, seed: int, exact: bool = False
) -> dict[str, Any]:
    """Write what a candidate (in its JSON form) should compute, with the weights and inputs that
    build_candidate and measure_library use for the same seed, to an .npz file.

    Returns the tolerance of its outputs. exact: computed with 64 bits; what is nearer to that than
    TVM's operators are is within the tolerance, too. Unsupported when TVM has no reference: it
    cannot build a call, or a call answers otherwise each time.
    """
    with phase("reference"):
        made = CandidateModule.from_json(candidate)
        mod = made.instantiate(seed)
        inputs = list(random_inputs(describe_inputs(mod), seed).values())
        outputs = evaluate(mod, inputs, builder)
        tolerance = tolerance_of(mod, made.computes_in)
        if exact:
            found = evaluate(mod, inputs, builder, exact=True)
            truth = [a.astype(b.dtype) for a, b in zip(found, outputs, strict=True)]
            tolerance, outputs = widened(tolerance, outputs, truth), truth
    if not any(np.isfinite(array).any() or not array.size for array in outputs):
        raise Unsupported("the right outputs hold no finite number")
    save_arrays(file, {f"output_{i}": array for i, array in enumerate(outputs)})
    return {"tolerance": tolerance}


def check_outputs(outputs: list[np.ndarray], file: str, tolerance: Sequence[float]) -> None:
    """WrongResult, with the place and size of the worst error, unless outputs are those in
    make_reference's file within its tolerance."""
    truth = list(load_arrays(file).values())
    relative, steps = tolerance
    text = mismatch(outputs, truth, Tolerance(relative, int(steps)))
    if text:
        raise WrongResult(text)


# A value is an array, a constant that is not an array yet (an operator may need it as such), or a
# list of values. A watcher gets each expression with its value, and gives what takes its place.
Watcher = Callable[[Any, Any], Any]


def evaluate(
    mod: tvm.IRModule,
    inputs: Sequence[np.ndarray],
    builder: str,
    *,
    exact: bool = False,
    watch: Watcher | None = None,
) -> list[np.ndarray]:
    """Compute the outputs of main, a tuple's fields in order, bfloat16 in float32, and with `exact`
    float32 in float64. Precondition: types are inferred."""
    result = _Evaluation(mod, builder, exact, watch=watch).call(mod["main"], list(inputs))
    fields = result if isinstance(result, list) else [result]
    fields = _wide(fields) if exact else fields
    kind = mod["main"].checked_type.ret_type
    kinds = kind.fields if isinstance(kind, tvm.ir.TupleType) else [kind]
    return [as_numbers(array_of(f), str(k.dtype)) for f, k in zip(fields, kinds, strict=True)]


def array_of(value: Any) -> np.ndarray:
    """Return the array that a value which is no list stands for."""
    return value.data.numpy() if isinstance(value, _expr.Constant) else value


class _Evaluation:
    """One evaluation of a module's functions."""

    def __init__(self, mod: tvm.IRModule, builder: str, exact: bool, watch: Watcher | None) -> None:
        self._mod, self._builder, self._exact = mod, builder, exact
        self._watch = watch or (lambda node, value: value)

    def call(self, function: Function, arguments: list[Any]) -> Any:
        values = dict(zip(function.params, arguments, strict=True))
        order = list(post_order(function.body, operands_of))
        uses: dict[Any, int] = {}
        for node in order:
            for child in operands_of(node):
                uses[child] = uses.get(child, 0) + 1
        for node in order:
            if node not in values:
                value = self._value(node, [values[c] for c in operands_of(node)])
                values[node] = self._watch(node, value)
            for child in operands_of(node):  # a whole network's values need not live at once
                uses[child] -= 1
                if not uses[child] and not isinstance(child, _expr.Var):
                    del values[child]
        return values[function.body]

    def _value(self, node: relay.Expr, operands: list[Any]) -> Any:
        if isinstance(node, _expr.Constant):
            return node
        if isinstance(node, _expr.Tuple):
            return operands
        if isinstance(node, _expr.TupleGetItem):
            return operands[0][node.index]
        if isinstance(node, _expr.Call):
            called = self._mod[node.op] if isinstance(node.op, tvm.ir.GlobalVar) else node.op
            if isinstance(called, Function):
                return self.call(called, operands)
            if isinstance(called, tvm.ir.Op):
                return self._operator(node, operands)
        raise Unsupported(f"no reference for a {type(node).__name__}")

    def _operator(self, call: _expr.Call, operands: list[Any]) -> Any:
        """Return the result of one operator call, by numpy or built alone."""
        if not self._exact:
            return self._computed(call, operands)
        if not call.op.name.startswith(_FIXED):
            try:
                return self._computed(call, _wide(operands), _wide_call)
            except (Unsupported, tvm.TVMError):
                pass
        kinds = [arg.checked_type for arg in call.args]
        narrow = [_as_typed(value, kind) for value, kind in zip(operands, kinds, strict=True)]
        return self._computed(call, narrow)

    def _computed(
        self, call: _expr.Call, operands: list[Any], built: Callable[[Any], Any] = lambda call: call
    ) -> Any:
        """Compute the call by numpy, or as TVM builds what `built` makes of it."""
        if call.op.name in OPERATORS:
            computed = compute(call, [_arrays(value) for value in operands])
            if computed is not None:
                return computed
        return _run_alone(built(call), operands, self._builder)


def _wide_call(call: _expr.Call) -> _expr.Call:
    """Return the call on values of 64 bits, with variables for its operands. TVMError where there
    is no such call."""
    params = [_expr.var("operand", _wide_type(arg.checked_type)) for arg in call.args]
    attrs = call.attrs
    if attrs is not None:
        text = tvm.ir.save_json(attrs).replace(f'"{_NARROW}"', f'"{_WIDE}"')
        attrs = tvm.ir.load_json(text)
    function = Function(params, _expr.Call(call.op, params, attrs))
    with collected_diagnostics():
        return tvm.relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"].body


def _wide_type(kind: relay.Type) -> Any:
    if isinstance(kind, tvm.ir.TupleType):
        return tvm.ir.TupleType([_wide_type(field) for field in kind.fields])
    return tvm.ir.TensorType(kind.shape, _WIDE) if kind.dtype == _NARROW else kind


def _wide(value: Any) -> Any:
    """Return the value with 64 bits where it has 32."""
    if isinstance(value, list):
        return [_wide(each) for each in value]
    if isinstance(value, _expr.Constant):
        is_narrow = value.data.dtype == _NARROW
        return _expr.const(_wide(array_of(value)), _WIDE) if is_narrow else value
    return value.astype(_WIDE) if value.dtype == _NARROW else value


def _as_typed(value: Any, kind: relay.Type) -> Any:
    """Return the value in the types of `kind`."""
    if isinstance(value, list):
        return [_as_typed(each, field) for each, field in zip(value, kind.fields, strict=True)]
    is_wide = not isinstance(value, _expr.Constant) and value.dtype == _WIDE
    return value.astype(_NARROW) if is_wide and kind.dtype == _NARROW else value


def _run_alone(call: _expr.Call, operands: list[Any], builder: str) -> Any:
    """Compute the outputs of a call as TVM builds it."""
    needs_constants = call.op.name.startswith("qnn.")  # TVM computes with them as it builds
    params: list[_expr.Var] = []
    arrays: list[np.ndarray] = []

    def argument(value: Any, kind: relay.Type) -> Any:
        if isinstance(value, list):
            fields = zip(value, kind.fields, strict=True)
            return _expr.Tuple([argument(v, k) for v, k in fields])
        if isinstance(value, _expr.Constant) and (needs_constants or not is_weight(value)):
            return value
        params.append(_expr.var(_name(len(params)), kind))
        arrays.append(array_of(value))
        return params[-1]

    arguments = [argument(v, a.checked_type) for v, a in zip(operands, call.args, strict=True)]
    alone = _expr.Call(call.op, arguments, call.attrs, call.type_args)
    text = tvm.ir.save_json(Function(params, alone))
    outputs = _kernel(text, builder)(arrays)
    return outputs if isinstance(call.checked_type, tvm.ir.TupleType) else outputs[0]


class _Kernel:
    """A built call; its first run is repeated to see whether it gives the same again."""

    def __init__(self, function: Function, builder: str) -> None:
        self._name = function.body.op.name
        mod = tvm.relay.transform.InferType()(tvm.IRModule.from_expr(function))
        try:
            with tvm.transform.PassContext(opt_level=_OPT_LEVEL):
                library = resolve(builder)(mod, tvm.target.Target(_TARGET), opt_level=_OPT_LEVEL)
        except Exception as error:
            reason = f"TVM cannot build {self._name} alone: {describe(error)}"
            raise Unsupported(reason) from error
        self._library = library
        self._is_known = False

    def __call__(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        outputs = self._run(arrays)
        if not self._is_known:
            again = self._run(arrays)
            same = [
                np.array_equal(a, b, equal_nan=True) for a, b in zip(outputs, again, strict=True)
            ]
            if not all(same):
                raise Unsupported(f"{self._name} answers otherwise each time it runs")
            self._is_known = True
        return outputs

    def _run(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        executor = GraphModule(self._library["default"](tvm.cpu()))  # not kept: it holds operands
        executor.run(**{_name(i): array for i, array in enumerate(arrays)})
        return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


@functools.lru_cache(maxsize=_MOST_KERNELS)
def _kernel(text: str, builder: str) -> _Kernel:
    return _Kernel(tvm.ir.load_json(text), builder)


def _name(index: int) -> str:
    """Return the name of an operand; the executor calls its own constants p0, p1, ..."""
    return f"operand_{index}"


def _arrays(value: Any) -> Any:
    return [_arrays(each) for each in value] if isinstance(value, list) else array_of(value)
