# SPDX-License-Identifier: Apache-2.0
"""How what rules mark (Primitive, Joinable, free) combines, as Python sees it, for each combinator.

The table is docs/rules.md's; tests/cpp/rules_marks_test.cc has the corners.
"""

import pytest
from relay_text import parse, rule_of
from tvm.relay import collage
from tvm.relay.collage.rules import (
    Combine,
    Composite,
    DFPattern,
    Glue,
    Joinable,
    JoinAnything,
    OnlyValid,
    Primitive,
    Region,
    TupleArg,
    Union,
)
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.target import Target

K = "marks_test"
PAIR = "def @main(%x: $T) -> $T { exp(nn.relu(%x)) }"
CONCAT = "def @main(%x: $T) { %0 = (nn.relu(%x), %x); concatenate(%0, axis=1) }"


def ops(name):
    """Of composites: what is neither wrapped nor one is refused."""
    return Composite(f"k.{name}", DFPattern(name, is_op(name)(wildcard())))


def marks(text, rule):
    """{operators of a candidate: its marks}."""
    with rule_of(K, rule):
        found = collage.candidates(parse(text)["main"], [collage.host_target(), Target(K)])
    return {
        "+".join(graph[i].op for i in sorted(c.sub_graph.inside) if graph[i].op): " ".join(
            name for name in ("primitive", "joinable", "free") if getattr(c, f"is_{name}")
        )
        for c in found
        if c.backend == K and (graph := c.sub_graph.graph)
    }


COMBINATORS = {
    "Combine": lambda rule: Combine(rule, [JoinAnything(), TupleArg()]),
    "Combine of several exits": lambda rule: Combine(
        rule, [JoinAnything(), TupleArg()], max_exits=0, allow_taps=True
    ),
    "Region": Region,
}
PASSING = {
    **COMBINATORS,
    "Union": Union,
    "OnlyValid": OnlyValid,
    "Composite": lambda rule: Composite("k.outer", rule),
}


@pytest.mark.parametrize("combinator", PASSING.values(), ids=PASSING)
def test_each_combinator_leaves_the_marks_of_what_it_passes_on(combinator):
    text = "def @main(%x: $T) -> $T { nn.relu(%x) }"
    relu = ops("nn.relu")
    assert marks(text, combinator(relu)) == {"nn.relu": ""}
    assert marks(text, combinator(Joinable(relu))) == {"nn.relu": "joinable"}
    assert marks(text, combinator(Primitive(relu))) == {"nn.relu": "primitive"}
    assert marks(text, combinator(Primitive(Joinable(relu)))) == {"nn.relu": "primitive joinable"}


@pytest.mark.parametrize("combinator", COMBINATORS.values(), ids=COMBINATORS)
@pytest.mark.parametrize(
    "relu, exp, whole",
    [
        ((), (), ""),
        ((Joinable,), (Joinable,), "joinable"),
        ((Joinable,), (), ""),
        ((), (Joinable,), ""),
        ((Primitive,), (Primitive,), "primitive"),
        ((Primitive,), (), "primitive"),
        ((), (Primitive,), "primitive"),
        ((Primitive, Joinable), (Joinable,), "primitive joinable"),
        ((Joinable,), (Primitive,), "primitive"),
    ],
)
def test_what_is_made_of_two_is_wrapped_if_either_is_and_joinable_if_both_are(
    combinator, relu, exp, whole
):
    def marked(rule, names):
        for mark in names:
            rule = mark(rule)
        return rule

    first, second = marked(ops("nn.relu"), relu), marked(ops("exp"), exp)
    for union in (Union(first, second), Union(second, first)):
        assert marks(PAIR, combinator(union))["nn.relu+exp"] == whole


@pytest.mark.parametrize("combinator", COMBINATORS.values(), ids=COMBINATORS)
def test_a_tuple_that_holds_them_together_has_no_say(combinator):
    parts = Joinable(Union(ops("nn.relu"), ops("concatenate")))
    for union in (Union(parts, Glue()), Union(Glue(), parts)):
        assert marks(CONCAT, combinator(union))["nn.relu+concatenate"] == "joinable"


def test_the_same_nodes_found_as_joinable_and_not_are_joinable():
    relu = DFPattern("relu", is_op("nn.relu")(wildcard()))
    text = "def @main(%x: $T) -> $T { nn.relu(%x) }"
    for union in (Union(relu, Joinable(relu)), Union(Joinable(relu), relu)):
        assert marks(text, Primitive(union)) == {"nn.relu": "primitive joinable"}
