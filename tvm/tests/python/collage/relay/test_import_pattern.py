# SPDX-License-Identifier: Apache-2.0
"""Every pattern of relay.dataflow_pattern, through a pattern table and the pass: text before and
after, once where it matches and once where it does not. Of control flow and of functions, which are
no parts: rules/test_pattern_entry.py."""

import itertools

import numpy as np
import pytest
import tvm
from relay_text import assert_equal, make_backend, operators, parse, partition
from tvm import relay
from tvm.relay.collage import find_matches
from tvm.relay.collage.rules import DFPattern
from tvm.relay.dataflow_pattern import (
    dominates,
    is_constant,
    is_expr,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from tvm.relay.op.op import OpPattern

_numbers = itertools.count()


def parts(mod, pattern, predicate=None):
    """What the pass gives to a backend with that one pattern: [(ops of the part, ...), ...]."""
    name = f"pattern_test_{next(_numbers)}"
    backend = make_backend(name, [(f"{name}.it", pattern, predicate or (lambda expr: True))])
    mod = parse(mod) if isinstance(mod, str) else mod
    result = partition(
        mod, [backend], {"llvm": 1000, name: 1}, byoc_fusion_style=[f"{name}.NoFusion"]
    )
    found = [f for var, f in result.functions.items() if var.name_hint.startswith("collage_")]
    return sorted(tuple(operators(function)) for function in found)


def main(body, params="%x: $T, %y: $T"):
    return f"def @main({params}) {{ {body} }}"


CHAIN = main("%0 = add(%x, %y); %1 = nn.relu(%0); tanh(%1)")
CONCAT = main("%0 = (%x, %y); %1 = concatenate(%0); nn.relu(%1)")
SPLIT = main("%0 = split(%x, indices_or_sections=2, axis=1); nn.relu(%0.1)", "%x: $T")
SOFTMAX = main("nn.softmax(%x, axis=1)", "%x: $T")
DIAMOND = main("%0 = tanh(%x); %1 = nn.relu(%0); %2 = abs(%1); %3 = add(%2, %0); exp(%3)", "%x: $T")


def relu(of=None):
    return is_op("nn.relu")(of if of is not None else wildcard())


def add(first=None, second=None):
    given = (wildcard() if each is None else each for each in (first, second))
    return is_op("add")(*given)


def softmax(**attrs):
    return is_op("nn.softmax")(wildcard()).has_attr(attrs)


def tensor(*shape):
    return relay.TensorType(shape, "float32")


def dominated(path):
    return dominates(is_op("tanh")(wildcard()), path, add())


PLUS_ONE = main("tanh(add(%x, 1f))", "%x: $T")
KIND = "TOpPattern"
CASES = {
    "op": (relu(), CHAIN, [("nn.relu",)]),
    "op, no such call": (is_op("nn.softmax")(wildcard()), CHAIN, []),
    "op, any arguments": (is_op("add")(None), CHAIN, [("add",)]),
    "call of a call": (relu(add()), CHAIN, [("add", "nn.relu")]),
    "call of another call": (relu(is_op("tanh")(wildcard())), CHAIN, []),
    "wildcard callee": (wildcard()(wildcard(), wildcard()), CHAIN, [("add",)]),
    "wrong number of arguments": (is_op("add")(wildcard()), CHAIN, []),
    "commuted arguments": (add(is_op("tanh")(wildcard())), DIAMOND, []),
    "constant": (add(None, is_constant()), PLUS_ONE, [("add",)]),
    "no constant": (add(None, is_constant()), CHAIN, []),
    "expression": (add(None, is_expr(relay.const(1.0))), PLUS_ONE, [("add",)]),
    "another expression": (add(None, is_expr(relay.const(2.0))), PLUS_ONE, []),
    "var": (add(is_var(), is_var("y")), CHAIN, [("add",)]),
    "var of another name": (add(is_var(), is_var("z")), CHAIN, []),
    "var that is a call": (relu(is_var()), CHAIN, []),
    "tuple": (is_op("concatenate")(is_tuple([wildcard(), wildcard()])), CONCAT, [("concatenate",)]),
    "tuple, any fields": (is_op("concatenate")(is_tuple(None)), CONCAT, [("concatenate",)]),
    "tuple of three": (is_op("concatenate")(is_tuple([wildcard()] * 3)), CONCAT, []),
    "projection": (
        relu(is_tuple_get_item(is_op("split")(wildcard()), 1)),
        SPLIT,
        [("split", "nn.relu")],
    ),
    "any projection": (relu(is_tuple_get_item(wildcard())), SPLIT, [("nn.relu",)]),
    "another projection": (relu(is_tuple_get_item(is_op("split")(wildcard()), 0)), SPLIT, []),
    "alternative": (is_op("add")(None) | is_op("tanh")(wildcard()), CHAIN, [("add",), ("tanh",)]),
    "neither": (is_op("exp")(wildcard()) | is_op("abs")(wildcard()), CHAIN, []),
    "attribute": (softmax(axis=1), SOFTMAX, [("nn.softmax",)]),
    "another attribute": (softmax(axis=0), SOFTMAX, []),
    "unknown attribute": (softmax(nope=0), SOFTMAX, []),
    "attribute of the op": (
        is_op("add").has_attr({KIND: OpPattern.BROADCAST})(wildcard(), wildcard()),
        CHAIN,
        [("add",)],
    ),
    "another of the op": (
        is_op("add").has_attr({KIND: OpPattern.OPAQUE})(wildcard(), wildcard()),
        CHAIN,
        [],
    ),
    "type": (relu().has_type(tensor(2, 4)), CHAIN, [("nn.relu",)]),
    "another type": (relu().has_type(tensor(2, 5)), CHAIN, []),
    "tuple type": (
        is_op("split")(wildcard()).has_type(relay.TupleType([tensor(2, 2)] * 2)),
        SPLIT,
        [("split",)],
    ),
    "shape": (relu().has_shape((2, 4)), CHAIN, [("nn.relu",)]),
    "another shape": (relu().has_shape((4, 2)), CHAIN, []),
    "dtype": (relu().has_dtype("float32"), CHAIN, [("nn.relu",)]),
    "another dtype": (relu().has_dtype("float16"), CHAIN, []),
    "optional, there": (add().optional(is_op("nn.relu")), CHAIN, [("add", "nn.relu")]),
    "optional, not there": (add().optional(is_op("tanh")), CHAIN, [("add",)]),
    "chain of optionals": (
        add().optional(is_op("nn.relu")).optional(is_op("tanh")),
        CHAIN,
        [("add", "nn.relu", "tanh")],
    ),
    "dominator": (
        dominated(relu() | is_op("abs")(wildcard())),
        DIAMOND,
        [("tanh", "nn.relu", "abs", "add")],
    ),
    "dominator, another path": (dominated(relu()), DIAMOND, []),
}


@pytest.mark.parametrize("case", CASES)
def test_pattern(case):
    pattern, module, expected = CASES[case]
    assert parts(module, pattern) == expected


def test_one_pattern_object_at_two_places_is_one_expression():
    shared = wildcard()
    square = is_op("multiply")(shared, shared)
    assert parts(main("multiply(%x, %x)"), square) == [("multiply",)]
    assert parts(main("multiply(%x, %y)"), square) == []


def test_every_overlapping_match_is_a_candidate():
    pattern = relu(relu())
    # Three relus: the two overlapping pairs cannot both be taken.
    assert parts(main("nn.relu(nn.relu(nn.relu(%x)))", "%x: $T"), pattern) == [
        ("nn.relu", "nn.relu")
    ]


def test_an_inner_value_that_is_read_outside_keeps_a_pattern_out():
    pattern = relu(add())
    text = main("%0 = add(%x, %y); %1 = nn.relu(%0); (%0, %1)")
    assert parts(text, pattern) == []


def test_text_before_and_after():
    name = "pattern_text_test"
    conv = is_op("nn.conv2d")(wildcard(), is_constant())
    biased = is_op("add")(conv, is_constant())
    table = [(f"{name}.conv_bias_relu", biased.optional(is_op("nn.relu")))]
    x = relay.var("x", shape=(1, 3, 8, 8))
    weight = relay.const(np.ones((4, 3, 3, 3), "float32"))
    bias = relay.const(np.ones((4, 1, 1), "float32"))
    body = relay.nn.relu(relay.add(relay.nn.conv2d(x, weight, padding=1), bias))
    mod = parse("def @main(%x: $T) { %x }")
    mod["main"] = relay.Function([x], relay.tanh(body))
    mod = relay.transform.InferType()(mod)
    result = partition(mod, [make_backend(name, table)], {"llvm": 100, name: 1})

    # The expected form, built by hand since constants have no short text.
    inner_x, outer_x = relay.var("a", shape=(1, 3, 8, 8)), relay.var("b", shape=(1, 3, 8, 8))
    out = relay.TensorType((1, 4, 8, 8), "float32")
    composite = relay.Function(
        [inner_x], relay.nn.relu(relay.add(relay.nn.conv2d(inner_x, weight, padding=1), bias)), out
    ).with_attr("Composite", f"{name}.conv_bias_relu")
    symbol = f"collage_{name}_nn_conv2d_add_nn_relu"
    part = relay.Function([outer_x], composite(outer_x), out)
    one = tvm.tir.IntImm("int32", 1)
    for key, value in (("Primitive", one), ("Compiler", name), ("global_symbol", symbol)):
        part = part.with_attr(key, value)
    expected = parse("def @main(%x: $T) { %x }")
    var = relay.GlobalVar(symbol)
    expected[var] = part
    y = relay.var("x", shape=(1, 3, 8, 8))
    expected["main"] = relay.Function([y], relay.tanh(var(y)), out)
    assert_equal(result, relay.transform.InferType()(expected))


def test_what_is_no_pattern_is_left_out_with_a_warning(capfd):
    # Python checks the entries of a table; C++ is reached past it here.
    make_entry = tvm.get_global_func("collage.MakePatternEntry")
    make_entry("a_backend", "a_backend.it", relay.const(1.0), None, None)
    assert "is left out: relay.Constant is no pattern of TVM 0.19" in capfd.readouterr().err


def test_many_optional_parts_are_matched_and_printed_each_once():
    # 2^64 forms; the function has three of the parts.
    pattern = is_op("nn.dense")(wildcard(), wildcard())
    for _ in range(64):
        pattern = pattern.optional(is_op("nn.relu"))
    mod = parse(
        """def @main(%x: $T, %w: Tensor[(3, 4), float32]) {
          nn.relu(nn.relu(nn.relu(nn.dense(%x, %w, units=3))))
        }"""
    )
    roots = [match.expr() for match in find_matches(pattern, mod["main"])]
    calls = [root.op.name for root in roots]
    assert calls.count("nn.dense") == 1 and calls.count("nn.relu") == 64 * 3
    summary = DFPattern("many", pattern).summary()
    assert len(summary) < 64 * 40 and summary.startswith("DFPattern((%")
    assert "%2=(" in summary and summary.count("nn.dense(*, *)") <= 4
