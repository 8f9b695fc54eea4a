# SPDX-License-Identifier: Apache-2.0
"""Relay functions as DataflowGraph: every kind of expression, its inputs, scopes and types."""

import itertools
import json

import pytest
import tvm
from relay_text import graph_rows, parse
from tvm import relay
from tvm.relay.collage import candidates
from tvm.relay.collage.backends.ints import ints_of
from tvm.relay.op import OpPattern
from tvm.relay.prelude import Prelude

LEVELS = itertools.count(11)  # TVM keeps the value of the highest level


def texts(function):
    return [row[0] for row in graph_rows(function)]


def scopes(function, *names):
    """Regions of the calls of those operators, in the graph's order."""
    rows = graph_rows(function)
    return [row[3] for row in rows if row[0].split(" = ")[1].split("(")[0] in names]


def test_calls_tuples_and_projections_are_in_post_dfs_order_with_types_and_kinds():
    mod = parse(
        """def @main(%x: $T, %y: $T) {
          %0 = add(%x, %y);
          %1 = split(%0, indices_or_sections=2, axis=1);
          %2 = (%1.0, %1.1);
          concatenate(%2, axis=1)
        }"""
    )
    assert graph_rows(mod["main"]) == [
        ("%0 = var x", "float32[2, 4]", 8, 0, False),
        ("%1 = var y", "float32[2, 4]", 8, 0, False),
        ("%2 = op concatenate", "", 2, 0, False),
        ("%3 = op split", "", 2, 0, False),
        ("%4 = op add", "", 1, 0, False),
        ("%5 = add(%0, %1)", "float32[2, 4]", 1, 0, True),
        ("%6 = split(%5)", "float32[2, 2] float32[2, 2]", 2, 0, True),
        ("%7 = projection 0(%6)", "float32[2, 2]", 2, 0, True),
        ("%8 = projection 1(%6)", "float32[2, 2]", 2, 0, True),
        ("%9 = tuple(%7, %8)", "float32[2, 2] float32[2, 2]", 7, 0, True),
        ("%10 = concatenate(%9)", "float32[2, 4]", 2, 0, True),
    ]


def test_parameters_come_first_used_or_not_and_shared_nodes_once():
    mod = parse("def @main(%x: $T, %unused: $T) { %0 = tanh(%x); add(%0, %0) }")
    assert texts(mod["main"]) == [
        "%0 = var x",
        "%1 = var unused",
        "%2 = op add",
        "%3 = op tanh",
        "%4 = tanh(%0)",
        "%5 = add(%4, %4)",
    ]


def test_a_dynamic_dimension_is_unknown_and_a_scalar_has_none():
    mod = parse("def @main(%x: Tensor[(?, 4), float32]) { multiply(%x, 2f) }")
    assert [row[1] for row in graph_rows(mod["main"])] == [
        "float32[?, 4]",
        "",
        "float32[]",
        "float32[?, 4]",
    ]


def test_an_operator_without_a_fusion_kind_is_opaque():
    mod = parse("def @main(%x: $T) { sort(%x) }")
    assert [row[2] for row in graph_rows(mod["main"])[1:]] == [8, 8]


def test_a_variable_of_a_value_that_is_not_pure_reads_it_and_the_body_is_a_scope():
    """Of pure values: relay/test_named_values.py."""
    mod = parse("def @main(%x: $T) { let %r = ref(%x); let %a = ref_read(%r); add(%a, %a) }")
    assert texts(mod["main"]) == [
        "%0 = var x",
        "%1 = other RefCreate(%0)",
        "%2 = var r(%1)",
        "%3 = other RefRead(%2)",
        "%4 = var a(%3)",
        "%5 = op add",
        "%6 = add(%4, %4)",
        "%7 = other Let(%3, %4, %6)",
        "%8 = other Let(%1, %2, %7)",
    ]
    assert len(set(scopes(mod["main"], "other RefCreate", "other RefRead", "add"))) == 3


def test_branches_are_scopes_and_what_both_read_is_outside():
    mod = parse(
        """def @main(%c: bool, %x: $T) {
          %0 = tanh(%x);
          if (%c) { nn.relu(%0) } else { %1 = exp(%0); add(%1, exp(%x)) }
        }"""
    )
    assert scopes(mod["main"], "tanh") == [0]
    [true_branch] = scopes(mod["main"], "nn.relu")
    assert len({0, true_branch, *scopes(mod["main"], "exp", "add")}) == 3


def test_nested_branches_share_the_scope_around_both():
    mod = parse(
        """def @main(%c: bool, %x: $T) {
          if (%c) {
            %0 = tanh(%x);
            if (%c) { exp(%0) } else { nn.relu(%0) }
          } else { abs(%x) }
        }"""
    )
    found = {name: scopes(mod["main"], name)[0] for name in ("tanh", "exp", "nn.relu", "abs")}
    assert len(set(found.values())) == 4 and 0 not in found.values()


def test_a_closure_is_a_node_whose_body_is_a_scope_and_its_calls_are_opaque():
    mod = parse(
        """def @main(%x: $T) {
          %0 = tanh(%x);
          let %f = fn(%z: $T) { add(%z, %0) };
          %f(%f(%0))
        }"""
    )
    rows = graph_rows(mod["main"])
    assert [row[0].split(" = ")[1].split("(")[0] for row in rows].count("call_other") == 2
    assert all(row[2] == 8 for row in rows if "call_other" in row[0])
    assert scopes(mod["main"], "tanh") == [0]
    assert scopes(mod["main"], "add") != [0]
    [function] = [row for row in rows if "function" in row[0]]
    assert function[4], "a closure must be placed (on the host)"


def test_recursion_is_acyclic_since_the_function_mentions_its_variable_only():
    mod = parse(
        """def @main(%x: $T, %n: int32) {
          let %loop: fn(int32, $T) -> $T = fn(%i: int32, %z: $T) -> $T {
            if (greater(%i, 0)) { %loop(subtract(%i, 1), add(%z, %z)) } else { %z }
          };
          %loop(%n, tanh(%x))
        }"""
    )
    rows = texts(mod["main"])
    [loop] = [text for text in rows if "var loop" in text]
    assert loop.endswith("var loop"), "the recursive variable reads nothing"
    assert len(set(scopes(mod["main"], "greater", "add", "tanh"))) == 3


def test_references_and_their_effects_are_opaque_nodes():
    mod = parse(
        """def @main(%x: $T) {
          let %r = ref(nn.relu(%x));
          let %u = ref_write(%r, tanh(%x));
          ref_read(%r)
        }"""
    )
    others = [row for row in graph_rows(mod["main"]) if " = other " in row[0]]
    assert [row[0].split()[3].split("(")[0] for row in others] == [
        "RefCreate",
        "RefWrite",
        "RefRead",
        "Let",
        "Let",
    ]
    assert all(row[2] == 8 and row[4] for row in others)


@pytest.fixture(scope="module")
def prelude():
    return Prelude(tvm.IRModule())


def test_match_clauses_are_scopes_and_constructors_are_callees(prelude):
    _, cons, nil = prelude.mod.get_type("List")
    x = relay.var("x", shape=(2, 4))
    head = relay.var("h")
    clauses = [
        relay.Clause(
            relay.PatternConstructor(cons, [relay.PatternVar(head), relay.PatternWildcard()]),
            relay.nn.relu(head),
        ),
        relay.Clause(relay.PatternWildcard(), relay.exp(x)),
    ]
    mod = tvm.IRModule({}, prelude.mod.type_definitions)
    mod["main"] = relay.Function([x], relay.Match(cons(relay.tanh(x), nil()), clauses))
    main = relay.transform.InferType()(mod)["main"]
    rows = texts(main)
    assert sum("constructor" in text for text in rows) == 2
    assert rows[-1].split(" = ")[1].startswith("other Match(")
    assert scopes(main, "tanh") == [0]
    assert len({0, *scopes(main, "nn.relu", "exp")}) == 3


def test_a_partitioned_function_stays_closed():
    mod = parse(
        """def @main(%x: $T) {
          %0 = fn(%y: $T, Primitive=1) { tanh(%y) };
          %0(exp(%x))
        }"""
    )
    assert texts(mod["main"]) == [
        "%0 = var x",
        "%1 = function",
        "%2 = op exp",
        "%3 = exp(%0)",
        "%4 = call_other(%3)",
    ]


def test_calls_of_globals_read_their_arguments_only():
    mod = parse("def @f(%x: $T) -> $T { tanh(%x) }\ndef @main(%x: $T) { @f(exp(%x)) }")
    assert texts(mod["main"])[-1] == "%4 = call_other(%3)"
    assert "%1 = global f" in texts(mod["main"])


def test_ten_thousand_calls_deep_does_not_overflow_the_stack():
    depth = 10_000
    body = x = relay.var("x", shape=(2, 4))
    for _ in range(depth):
        body = relay.nn.relu(body)
    # Typed by hand: TVM's own InferType would recurse as deep.
    rows = graph_rows(relay.Function([x], body))
    assert sum(row[4] for row in rows) == depth


def test_an_untyped_function_has_no_types():
    x = relay.var("x", shape=(2, 4))
    assert {row[1] for row in graph_rows(relay.Function([x], relay.tanh(x)))} == {""}


@pytest.mark.parametrize(
    "shape, expected",
    [((1, 64, 7), [1, 64, 7]), ((), []), ((2, relay.Any()), [2, None]), ((0,), [0])],
)
def test_types_are_read_in_one_piece(shape, expected):
    kind = relay.TensorType(shape, "int8")
    found = json.loads(tvm.get_global_func("collage.TensorTypeJson")(kind))
    assert found == {"shape": expected, "dtype": "int8"}


def test_attributes_of_integers_are_read_in_one_piece():
    pads = relay.nn.pad(relay.var("x", shape=(2, 4)), ((0, 0), (1, 2))).attrs.pad_width
    assert json.loads(tvm.get_global_func("collage.AttrJson")(pads)) == [[0, 0], [1, 2]]
    assert ints_of(relay.TensorType((2, 3)).shape) == [2, 3]
    with pytest.raises(ValueError):
        ints_of(relay.TensorType((2, relay.Any())).shape)


def test_only_a_tensors_type_is_read_in_one_piece():
    kind = relay.TupleType([relay.TensorType((2,))])
    assert tvm.get_global_func("collage.TensorTypeJson")(kind) == "null"


@pytest.fixture
def erf_kind():
    """Sets TVM's fusion kind of erf, as whoever adds a schedule does; at the end as it was."""
    before = tvm.ir.Op.get("erf").get_attr("TOpPattern")

    def set_kind(kind):
        relay.op.register_pattern("erf", kind, next(LEVELS))

    yield set_kind
    set_kind(int(before))


def test_a_kind_registered_later_is_seen_by_the_same_thread(erf_kind):
    mod = parse("def @main(%x: $T) -> $T { exp(erf(%x)) }")

    def kinds():
        return [row[2] for row in graph_rows(mod["main"]) if "erf" in row[0]]

    def is_fused():
        found = candidates(mod["main"], ["llvm"])
        return any(len(c.sub_graph.inside) == 2 for c in found)

    assert kinds() == [OpPattern.ELEMWISE, OpPattern.ELEMWISE] and is_fused()
    erf_kind(OpPattern.OPAQUE)
    assert kinds() == [OpPattern.OPAQUE, OpPattern.OPAQUE] and not is_fused()
    erf_kind(OpPattern.INJECTIVE)
    assert kinds() == [OpPattern.INJECTIVE, OpPattern.INJECTIVE]
