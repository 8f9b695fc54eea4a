# SPDX-License-Identifier: Apache-2.0
"""Parts read off a module that TVM's passes partitioned, by walking it beside the one before."""

import pytest
import tvm
from relay_text import assert_same_outputs, count_calls, parse, undo_partition
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import PlacementError, backends
from tvm.relay.collage.backends import greedy_partition
from tvm.relay.collage.backends.registry import _BACKENDS
from tvm.relay.collage.placement.lockstep import parts_of_partitioned
from tvm.relay.collage.placement.replay import rewrite
from tvm.relay.dataflow_pattern import is_op, is_tuple_get_item, wildcard

NAME = "lockstep_test"


class Lockstep(backends.Backend):
    """Takes relu, add, exp and split, add after relu as one; tanh is TVM's."""

    name = NAME

    def patterns(self):
        unary = [(op, is_op(op)(wildcard())) for op in ("nn.relu", "exp", "split")]
        add = is_op("add")
        return [
            (f"{NAME}.add_relu", is_op("nn.relu")(add(wildcard(), wildcard()))),
            (f"{NAME}.first", is_tuple_get_item(is_op("split")(wildcard()), 0)),
            *((f"{NAME}.{op}", pattern) for op, pattern in unary),
            (f"{NAME}.add", add(wildcard(), wildcard())),
        ]


@pytest.fixture(scope="module", autouse=True)
def backend():
    yield collage.register_backend(Lockstep())
    _BACKENDS.pop(NAME)


def functions_of(mod):
    """For each of the backend's functions: operators and composites, sorted."""
    found = []
    for function in mod.functions.values():
        if not function.attrs or "Compiler" not in function.attrs:
            continue
        names, composites = [], []

        def visit(node, names=names, composites=composites):
            if isinstance(node, relay.Call) and isinstance(node.op, tvm.ir.Op):
                names.append(node.op.name)
            if isinstance(node, relay.Function) and node.attrs and "Composite" in node.attrs:
                composites.append(str(node.attrs["Composite"]))

        relay.analysis.post_order_visit(function.body, visit)
        found.append((sorted(names), sorted(composites)))
    return sorted(found)


MODULES = {
    "chain": "def @main(%x: $T) -> $T { exp(tanh(nn.relu(add(%x, 2f)))) }",
    "diamond": "def @main(%x: $T) -> $T { %0 = nn.relu(%x); add(tanh(%0), exp(%0)) }",
    "equal calls": "def @main(%x: $T) -> $T { add(nn.relu(%x), tanh(nn.relu(%x))) }",
    "two results": """def @main(%x: $T) -> ($T, $T) {
      %0 = nn.relu(%x); %1 = exp(%0); (tanh(%0), tanh(%1))
    }""",
    "a result that is read inside too": """def @main(%x: $T) -> ($T, $T) {
      %0 = nn.relu(%x); (exp(%0), %0)
    }""",
    "tuple out": """def @main(%x: Tensor[(4, 4), float32]) {
      %0 = split(%x, indices_or_sections=2); add(tanh(%0.0), %0.1)
    }""",
    "projection inside": """def @main(%x: Tensor[(4, 4), float32]) {
      %0 = split(%x, indices_or_sections=2); exp(%0.0)
    }""",
    "shared constant": """def @main(%x: $T) -> $T {
      %0 = add(%x, meta[relay.Constant][0]); add(tanh(%0), meta[relay.Constant][0])
    }""",
    "nothing": "def @main(%x: $T) -> $T { tanh(%x) }",
    "two functions": """
      def @helper(%x: $T) -> $T { exp(%x) }
      def @main(%x: $T) -> $T { nn.relu(@helper(%x)) }
    """,
}


def module(name):
    if name != "shared constant":
        return parse(MODULES[name])
    x, two = relay.var("x", shape=(2, 4)), relay.const(2.0)
    body = relay.add(relay.tanh(relay.add(x, two)), two)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))


@pytest.mark.parametrize("name", MODULES)
def test_the_parts_that_are_found_are_the_functions_that_were_made(name):
    mod = module(name)
    greedy = greedy_partition(mod, NAME)
    result = rewrite(mod, parts_of_partitioned(mod, greedy, NAME))
    assert functions_of(result) == functions_of(greedy)
    assert bool(functions_of(result)) == (name != "nothing")
    assert count_calls(undo_partition(result)) == count_calls(mod)
    assert_same_outputs(mod, result)


def test_a_composite_is_its_nodes():
    mod = module("chain")
    parts = parts_of_partitioned(mod, greedy_partition(mod, NAME), NAME)["main"]
    composites = {item.name: len(item.nodes) for part in parts for item in part.composites}
    assert composites == {f"{NAME}.add_relu": 2, f"{NAME}.exp": 1}
    assert [part.label for part in parts] == [f"{NAME}(add, nn.relu)", f"{NAME}(exp)"]
    assert all(part.is_primitive and part.cost.status == "unknown" for part in parts)


@pytest.mark.parametrize(
    "after, why",
    [
        ("def @main(%x: $T) -> $T { exp(tan(nn.relu(add(%x, 2f)))) }", "node "),
        ("def @main(%x: $T) -> $T { tanh(nn.relu(add(%x, 2f))) }", "node "),
        ("def @main(%x: $T) -> $T { exp(tanh(nn.relu(add(%x, 3f)))) }", "it says something else"),
        ("def @main(%x: $T) -> $T { exp(tanh(nn.relu(%x))) }", "node "),
        ("def @main(%x: $T) -> $T { %x }", "its kind is Var afterwards"),
        ("def @other(%x: $T) -> $T { %x }", "it is no longer there"),
    ],
)
def test_a_module_that_was_rewritten_is_refused_by_name(after, why):
    with pytest.raises(PlacementError) as caught:
        parts_of_partitioned(module("chain"), parse(after), NAME)
    text = str(caught.value)
    assert caught.value.kind == "plan" and "\n" not in text and why in text
    assert text.startswith(f"the plan of backend {NAME!r} alone cannot be saved as a placement: ")
    assert f"passes of TVM or of {NAME} rewrote function @main (" in text


def test_functions_that_were_somebody_elses_are_renamed_by_tvm():
    mod = parse("""
    def @theirs(%p: $T, Primitive=1, Compiler="other", global_symbol="theirs") -> $T { exp(%p) }
    def @main(%x: $T) -> $T { nn.relu(@theirs(%x)) }
    """)
    with pytest.raises(PlacementError, match="rewrote function @main"):
        parts_of_partitioned(mod, greedy_partition(mod, NAME), NAME)


def test_a_value_that_is_computed_twice_afterwards():
    before = parse("def @main(%x: $T) -> $T { %0 = exp(%x); add(%0, tanh(%0)) }")
    after = parse(f"""
    def @part(%p: $T, Primitive=1, Compiler="{NAME}", global_symbol="part") -> $T {{ exp(%p) }}
    def @main(%x: $T) -> $T {{ add(exp(%x), tanh(@part(%x))) }}
    """)
    with pytest.raises(PlacementError, match="it is computed twice"):
        parts_of_partitioned(before, after, NAME)


def test_variables_that_change_places():
    before = parse("def @main(%x: $T, %y: $T) -> $T { add(exp(%x), %y) }")
    after = parse("def @main(%x: $T, %y: $T) -> $T { add(exp(%y), %x) }")
    with pytest.raises(PlacementError, match="it is another variable afterwards"):
        parts_of_partitioned(before, after, NAME)
    renamed = parse("def @main(%a: $T, %b: $T) -> $T { add(exp(%a), %b) }")
    assert parts_of_partitioned(before, renamed, NAME) == {"main": []}


def test_a_deep_network():
    body = x = relay.var("x", shape=(2, 4))
    for index in range(5000):
        body = relay.nn.relu(body) if index % 2 else relay.tanh(body)
    mod = tvm.IRModule.from_expr(relay.Function([x], body))
    assert parts_of_partitioned(mod, mod, NAME) == {"main": []}
