# SPDX-License-Identifier: Apache-2.0
"""What the tests of the pass share: Relay text, backends with pattern tables, running modules."""

import collections
import contextlib

import numpy as np
import tvm
from tvm import relay
from tvm.relay.collage import MockCostEstimator, dataflow_graph, host_target, rules
from tvm.relay.collage.relay_util.walk import nodes_of, operator_calls
from tvm.relay.op.contrib import register_pattern_table
from tvm.relay.transform import CollagePartition
from tvm.target import Target, make_compilation_config

T = "Tensor[(2, 4), float32]"
HOST = "llvm"
# What runs to be compared: LLVM does not optimise it, which is most of a build's time.
PLAIN = "llvm -opt-level=0"
# Left out of such a build: this pass infers all types anew after each of its two dozen rewrites.
PLAIN_WITHOUT = ["SimplifyExpr", "SimplifyExprPostAlterOp"]


def plain_host():
    """The same for this CPU and no other."""
    return Target(f"{host_target()} -opt-level=0")


def parse(text):
    """Return the typed module of a Relay text without its version line; ``$T`` is a 2x4 tensor."""
    mod = tvm.relay.fromtext('#[version = "0.0.5"]\n' + text.replace("$T", T))
    return relay.transform.InferType()(mod)


def module_of(body):
    """A typed module of an expression, whose free variables are its inputs."""
    function = relay.Function(relay.analysis.free_vars(body), body)
    return relay.transform.InferType()(tvm.IRModule.from_expr(function))


def graph_rows(function):
    """Return what the partitioner sees of a function: (text, types, op kind, scope, placed)."""
    return [
        (node.Summary(), " ".join(map(str, node.types)), node.kind, node.scope, node.is_placeable)
        for node in dataflow_graph(function)
    ]


def make_backend(name, table):
    """Make ``name`` an external target kind with that pattern table; nothing compiles for it."""
    tvm.get_global_func("collage.RegisterTargetKind")(name, 1)
    register_pattern_table(name, lambda: table)
    return Target(name)


@contextlib.contextmanager
def rule_of(kind, rule):
    """Give a target kind, made where there is none, that partition rule for as long."""
    tvm.get_global_func("collage.RegisterTargetKind")(kind, 1)
    rules.set_partition_rule(kind, rule)
    try:
        yield
    finally:
        rules.set_partition_rule(kind, None)


def part_text(kind, ops, body, params="%p: $T", result="$T"):
    """Return a part for a target kind as the pass writes it; ``ops`` as in its symbol."""
    symbol = f"collage_{kind}_{ops}"
    marks = f'Primitive=1, Compiler="{kind}", global_symbol="{symbol}"'
    return f"def @{symbol}({params}, {marks}) -> {result} {{ {body} }}\n"


def composite_text(name, body):
    """Return the body of a part of one composite of a tensor, whose body has %q for it."""
    return f'%0 = fn (%q: $T, Composite="{name}") -> $T {{ {body} }}; %0(%p)'


class _Inliner(relay.ExprMutator):
    def __init__(self, mod):
        super().__init__()
        self.mod = mod

    def visit_call(self, call):
        function = call.op
        if isinstance(function, relay.GlobalVar):
            function = self.mod[function]
            if not is_external(function):
                return super().visit_call(call)
        if not isinstance(function, relay.Function) or not (
            is_external(function) or "Composite" in (function.attrs or {})
        ):
            return super().visit_call(call)
        args = [self.visit(arg) for arg in call.args]
        return relay.bind(self.visit(function.body), dict(zip(function.params, args, strict=True)))


class _Projector(relay.ExprMutator):
    """Takes fields themselves where parts of several results leave a tuple of them behind."""

    def visit_tuple_getitem(self, expr):
        value = self.visit(expr.tuple_value)
        if isinstance(value, relay.Tuple):
            return value.fields[expr.index]
        return relay.TupleGetItem(value, expr.index)


def is_external(function):
    """Tell whether a function of a module is a part for an external backend."""
    return isinstance(function, relay.Function) and "Compiler" in (function.attrs or {})


def undo_partition(mod):
    """Return the module with parts and composites back in place of their calls."""
    result = tvm.IRModule({}, mod.type_definitions)
    for var, function in mod.functions.items():
        if not is_external(function):
            result[var] = _Projector().visit(_Inliner(mod).visit(function))
    return relay.transform.InferType()(result)


def partition(mod, targets, costs, **options):
    """Run the pass with mock costs (by target kind, or an estimator); options without prefix."""
    estimator = MockCostEstimator(costs) if isinstance(costs, dict) else costs
    config = {f"relay.collage.{key}": value for key, value in options.items()}
    with tvm.transform.PassContext(opt_level=3, config=config) as context:
        compilation = make_compilation_config(context, [Target(HOST), *targets])
        return CollagePartition(compilation, estimator)(mod)


def assert_equal(actual, expected):
    """Compare modules, texts of which are parsed, variables' names left aside."""
    expected = parse(expected) if isinstance(expected, str) else expected
    if not tvm.ir.structural_equal(actual, expected, map_free_vars=True):
        message = f"actual:\n{actual.astext(False)}\nexpected:\n{expected.astext(False)}"
        raise AssertionError(message)


def random_args(function, seed=0):
    """Return uniform random numbers for each parameter, one for integers and booleans."""
    rng = np.random.default_rng(seed)

    def value(kind):
        if isinstance(kind, tvm.ir.TupleType):
            return tuple(value(field) for field in kind.fields)
        shape = [int(d) if isinstance(d, tvm.tir.IntImm) else 3 for d in kind.shape]
        if not kind.dtype.startswith("float"):
            return np.ones(shape, kind.dtype)
        return rng.uniform(-1, 1, shape).astype(kind.dtype)

    return [value(param.checked_type) for param in function.params]


def run(mod, args):
    """Return the arrays that the module's main gives on TVM's VM, tuples flattened."""
    with tvm.transform.PassContext(opt_level=1, disabled_pass=PLAIN_WITHOUT):
        result = relay.create_executor("vm", mod, tvm.cpu(), PLAIN).evaluate()(*args)
    return _flat(result)


def _flat(result):
    if isinstance(result, tvm.nd.NDArray):
        return [result.numpy()]
    return [array for item in result for array in _flat(item)]


def assert_same_outputs(mod, partitioned):
    """Run both modules' mains on the same random inputs, the second with its parts undone; modules
    that are the same then need not be run."""
    undone = undo_partition(partitioned)
    if tvm.ir.structural_equal(mod, undone, map_free_vars=True):
        return
    args = random_args(mod["main"])
    outputs = zip(run(mod, args), run(undone, args), strict=True)
    for expected, actual in outputs:
        np.testing.assert_array_equal(actual, expected)


def operators(where):
    """Return the operators called in a module or an expression, inputs first."""
    return [call.op.name for call in operator_calls(where)]


def composites(where):
    """Return the names of the composites called there, inputs first."""
    called = [call.op for call in nodes_of(where, relay.Call)]
    return [
        str(function.attrs["Composite"])
        for function in called
        if isinstance(function, relay.Function) and "Composite" in (function.attrs or {})
    ]


def count_calls(mod):
    """Return how often each operator is called in the module, over all functions."""
    return dict(collections.Counter(operators(mod)))
