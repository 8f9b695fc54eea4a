# SPDX-License-Identifier: Apache-2.0
"""Rules in Python as objects: how they nest and read, what is refused where they are made."""

import re

import pytest
from tvm.relay.collage import rules
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op import OpPattern

RELU = is_op("nn.relu")(wildcard())
ANY = rules.OpCallByKind()


def test_rules_nest_freely_and_say_what_they_are():
    rule = rules.Primitive(
        rules.OnlyValid(
            rules.Combine(
                rules.Union(
                    rules.Composite("k.relu", rules.DFPattern("relu", RELU), lambda e: {}),
                    rules.OpPredicate("mine", lambda call: True),
                    rules.Region(rules.Union(rules.Glue(), rules.Host()), max_cuts=2),
                ),
                [rules.JoinAnything(), rules.Constants()],
                max_depth=3,
            ),
            max_depth=4,
            max_exits=1,
            allow_taps=False,
        )
    )
    assert rule.summary() == (
        "Primitive(OnlyValid(depth <= 4, exits <= 1, no taps, "
        "Combine(JoinAnything, Constants, depth 3, "
        "Union(Composite(k.relu, attrs, DFPattern(nn.relu(*))), OpPredicate(mine), "
        "Region(cuts 2, Union(Glue(), Host()))))))"
    )
    assert repr(rule) == rule.summary()
    # The same rule may be a part of several.
    assert rules.Union(rule, rule).summary().count("Primitive") == 2


def test_tvms_own_rule_and_its_combiners():
    assert rules.tvm_rule().summary() == (
        "Combine(OutEWiseFusable->Broadcast, Broadcast->CommReduce, Injective->Injective, "
        "TupleArg, TupleProjection, depth 8, OpCallByKind())"
    )
    ours = rules.Combine(ANY, rules.tvm_combiners())
    assert ours.summary() == rules.tvm_rule().summary()
    assert repr(rules.ByKind(OpPattern.ELEMWISE, OpPattern.OPAQUE)) == "ElemWise->Opaque"


def test_every_public_name_is_there():
    for name in rules.__all__:
        assert getattr(rules, name).__doc__, name


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: rules.DFPattern(1, RELU), TypeError, "rule DFPattern: name is a str, got int"),
        (lambda: rules.DFPattern("a", "x"), TypeError, "pattern is a DFPattern, got str"),
        (lambda: rules.DFPattern("a", RELU, 5), TypeError, "predicate is a function, got int"),
        (lambda: rules.OpPredicate("a", None), TypeError, "a function or an op attribute, got"),
        (lambda: rules.OpPredicate("a", 5), TypeError, "predicate is a function, got int"),
        (
            lambda: rules.OpPredicate("a", "target.nobodys"),
            ValueError,
            "rule a: no op has the attribute 'target.nobodys'",
        ),
        (lambda: rules.Composite("a", RELU), TypeError, "rule Composite: a sub-rule is a rule of"),
        (lambda: rules.Composite("a", ANY, {}), TypeError, "attrs is a function, got dict"),
        (lambda: rules.Primitive("a"), TypeError, "rule Primitive: a sub-rule is a rule of"),
        (lambda: rules.Union([ANY]), TypeError, "rule Union: a sub-rule is a rule of"),
        (lambda: rules.OnlyValid(ANY, max_depth=-1), ValueError, "max_depth is an int >= 0"),
        (lambda: rules.OnlyValid(ANY, max_exits=True), TypeError, "max_exits is an int, got bool"),
        (lambda: rules.OnlyValid(ANY, allow_taps=1), TypeError, "allow_taps is a bool, got int"),
        (lambda: rules.Combine(ANY, [ANY]), TypeError, "rule Combine: a combiner is a combiner of"),
        (
            lambda: rules.Combine(ANY, [], max_candidates_per_node=0),
            ValueError,
            "max_candidates_per_node is an int >= 1, got 0",
        ),
        (lambda: rules.Region(ANY, max_cuts=-1), ValueError, "max_cuts is an int >= 0, got -1"),
        (lambda: rules.Region(ANY, keep_parts=1), TypeError, "keep_parts is a bool, got int"),
        (lambda: rules.ByKind(0, 5), ValueError, "combiner ByKind takes kinds of"),
        (lambda: rules.Custom("a", 5), TypeError, "rule Custom: find is a function, got int"),
        (lambda: rules.Custom(5, list), TypeError, "rule Custom: name is a str, got int"),
        (lambda: rules.register_rule("", ANY), ValueError, "a name is not empty"),
        (lambda: rules.register_rule("a", 5), TypeError, "rule register_rule: rule is a rule of"),
        (lambda: rules.registered_rule("nobodys"), ValueError, "registered as 'nobodys'"),
    ],
)
def test_wrong_arguments_are_named(make, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make()
