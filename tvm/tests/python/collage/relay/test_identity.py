# SPDX-License-Identifier: Apache-2.0
"""Keys of functions: what changes them, what does not, and that no process changes them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from relay_text import make_backend, parse, partition
from tree import child_environment
from tvm import relay
from tvm.relay.collage import MockCostEstimator
from tvm.relay.collage.candidate.weights import is_weight
from tvm.relay.collage.plans.placement.replay import describe_functions
from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard
from tvm.relay.prelude import Prelude

TEXT = """def @main(%x: $T, %y: $T) -> $T {
  %0 = nn.softmax(%x, axis=1);
  %1 = (%0, %y);
  add(concatenate(%1), multiply(concatenate(%1), 2f))
}""".replace("-> $T {", "{")


def key(mod, name="main"):
    mod = parse(mod) if isinstance(mod, str) else mod
    return {item.name: item for item in describe_functions(mod)}[name]


@pytest.mark.parametrize(
    "old, new",
    [
        ("axis=1", "axis=0"),
        ("2f", "3f"),
        ("(%0, %y)", "(%y, %0)"),
        ("multiply", "subtract"),
        ("float32", "float64"),
        ("add(concatenate(%1), multiply(concatenate(%1), 2f))", "add(%0, multiply(%0, 2f))"),
        ("%1 = (%0, %y)", "%1 = (%0, %0)"),
    ],
)
def test_what_a_plan_depends_on_changes_the_key(old, new):
    text = TEXT.replace("$T", "Tensor[(2, 4), float32]")
    other = text.replace(old, new).replace("2f", "2f64" if new == "float64" else "2f")
    assert other != text and key(other).key != key(text).key


def test_sharing_a_node_or_not_is_a_difference():
    shared = "def @main(%x: $T) -> $T { %0 = nn.relu(%x); add(%0, %0) }"
    apart = "def @main(%x: $T) -> $T { add(nn.relu(%x), nn.relu(%x)) }"
    assert key(shared).key != key(apart).key


def test_names_of_variables_and_texts_do_not_matter():
    renamed = TEXT.replace("%x", "%image").replace("%y", "%other")
    assert key(renamed) == key(TEXT)


def test_where_the_program_wants_a_value_is_part_of_the_key():
    def keys(device):
        x = relay.Var("x", relay.TensorType((2, 4)))
        if device is not None:
            x = relay.expr.VarWithFields(x, None, None, tvm.target.VirtualDevice(device), None)
        mod = tvm.IRModule.from_expr(relay.Function([x], relay.tanh(x)))
        return key(relay.transform.InferType()(mod))

    devices = [None, tvm.cpu(0), tvm.cpu(1), tvm.cuda(0)]
    assert len({keys(device).key for device in devices}) == len(devices)
    assert keys(tvm.cuda(0)) == keys(tvm.cuda(0))


def with_constant(values):
    values = np.asarray(values)
    x = relay.var("x", shape=(2, values.size), dtype=str(values.dtype))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.add(x, relay.const(values))))
    return relay.transform.InferType()(mod)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8"])
@pytest.mark.parametrize("shape, expected", [((), False), ((16,), False), ((17,), True)])
def test_values_of_weights_have_a_hash_of_their_own(shape, expected, dtype):
    """One definition, of keys, of signatures and of measured candidates."""
    values = np.zeros(shape, dtype)
    before, after = with_constant(values), with_constant(values + values.dtype.type(1))
    first, second = key(before), key(after)
    assert (first.key == second.key) == expected
    assert (first.weights != second.weights) == expected
    assert key(with_constant(values)) == first
    assert is_weight(before["main"].body.args[1]) == expected


@pytest.mark.parametrize("shape, expected", [((), False), ((16,), False), ((17,), True)])
def test_signatures_of_candidates_leave_out_the_same_values(shape, expected):
    backend = make_backend("key_test", [("key_test.add", is_op("add")(wildcard(), is_constant()))])
    asked = set()

    class Recorder(MockCostEstimator):
        def price_batch(self, signatures, works, targets):
            pairs = zip(signatures, targets, strict=True)
            asked.update(text for text, target in pairs if target.kind.name == "key_test")
            return super().price_batch(signatures, works, targets)

    x = relay.var("x", shape=(2, 17 if shape == (17,) else 16))
    one, two = (relay.const(np.full(shape, value, "float32")) for value in (1, 2))
    body = relay.add(relay.tanh(relay.add(x, one)), two)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
    partition(mod, [backend], Recorder({"llvm": 10, "key_test": 1}))
    assert len(asked) == (1 if expected else 2)


def taken(rows, count=40):
    table = relay.const(np.zeros((50, 8), "float32"))
    body = relay.take(table, relay.const(np.full(count, rows, "int32")), axis=0)
    x = relay.var("x", shape=(count, 8))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.add(x, body)))
    return relay.transform.InferType()(mod)


def test_indexes_of_any_size_belong_to_the_structure():
    """Matrices that are filled otherwise cost otherwise: a plan for one is none for others."""
    first, second = key(taken(3)), key(taken(4))
    assert key(taken(3)) == first
    assert first.key != second.key and first.weights == second.weights


def test_signatures_tell_indexes_apart():
    def asked_for(rows):
        asked = set()

        class Recorder(MockCostEstimator):
            def price_batch(self, signatures, works, targets):
                asked.update(signatures)
                return super().price_batch(signatures, works, targets)

        partition(taken(rows), [], Recorder({"llvm": 10}))
        return asked

    assert asked_for(3) == asked_for(3) != asked_for(4)


def test_the_last_byte_of_a_weight_counts():
    values = np.zeros(1003, "int8")
    before = key(with_constant(values))
    values[-1] = 1
    assert key(with_constant(values)).weights != before.weights


def test_match_clauses_and_closed_functions_are_told_apart():
    prelude = Prelude(tvm.IRModule())
    _, cons, nil = prelude.mod.get_type("List")

    def matching(constructor, patterns):
        x = relay.var("x", shape=(2, 4))
        clauses = [
            relay.Clause(relay.PatternConstructor(constructor, patterns), relay.tanh(x)),
            relay.Clause(relay.PatternWildcard(), x),
        ]
        mod = tvm.IRModule({}, prelude.mod.type_definitions)
        mod["main"] = relay.Function([x], relay.Match(cons(x, nil()), clauses))
        return key(relay.transform.InferType()(mod)).key

    any_two = [relay.PatternWildcard(), relay.PatternWildcard()]
    assert matching(cons, any_two) == matching(cons, any_two) != matching(nil, [])
    closed = "def @main(%x: $T) -> $T { %0 = fn (%p: $T, Primitive=1) -> $T { tanh(%p) }; %0(%x) }"
    assert key(closed).key == key(closed).key != key(closed.replace("tanh", "sinh")).key


def test_functions_are_told_apart_and_calls_name_them():
    text = """
    def @one(%x: $T) -> $T { tanh(%x) }
    def @two(%x: $T) -> $T { tanh(%x) }
    def @main(%x: $T) -> $T { @one(%x) }
    """
    assert key(text, "one").key == key(text, "two").key
    assert key(text).key != key(text.replace("{ @one", "{ @two")).key


def test_functions_for_a_backend_have_none():
    text = """
    def @theirs(%p: $T, Primitive=1, Compiler="x", global_symbol="theirs") -> $T { nn.relu(%p) }
    def @main(%x: $T) -> $T { @theirs(%x) }
    """
    assert [item.name for item in describe_functions(parse(text))] == ["main"]


def keys():
    return f"{key(TEXT).key} {key(with_constant(np.ones(40, 'float32')))}"


def test_every_process_finds_the_same_key():
    done = subprocess.run(
        [sys.executable, "-c", "import test_identity; print(test_identity.keys())"],
        env=child_environment(Path(__file__).parent, PYTHONHASHSEED="1"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == keys()
