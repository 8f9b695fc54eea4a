# SPDX-License-Identifier: Apache-2.0
"""How often the pass asks a backend's predicates: once for each match, local ones once for all."""

import pytest
import tvm
from relay_text import HOST, parse, rule_of
from tvm.relay import collage
from tvm.relay.collage import optimizer, rules
from tvm.relay.collage.backends import GRAPH_LEVEL, Backend, register_backend
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.dataflow_pattern import is_op, wildcard

# Two equal chains, one that differs in type, one in the value of a small constant.
TEXT = """def @main(%x: $T, %y: Tensor[(2, 8), float32]) {
  %0 = nn.relu(add(%x, 1f));
  %1 = nn.relu(add(%0, 1f));
  %2 = nn.relu(add(%1, 2f));
  (%2, nn.relu(add(%y, 1f)))
}"""


CHAIN = is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))


def asked(name, local, answer=True, pattern=CHAIN, text=TEXT):
    """Return the calls that the predicates of a graph-level backend were asked about."""
    calls = []

    def takes(expr):
        calls.append(expr)
        return answer

    class Asked(Backend):
        kind = GRAPH_LEVEL
        local_predicates = local

        def patterns(self):
            return [(f"{self.name}.chain", pattern, takes)]

    Asked.name = name
    backend = Asked()
    backend.op_predicates = {"add": takes}
    register_backend(backend)
    estimator = collage.MockCostEstimator({HOST: 10, name: 1})
    targets = parse_targets([tvm.target.Target(HOST), tvm.target.Target(name)])
    result = optimizer.partition(parse(text), targets, estimator)
    return calls, result


@pytest.mark.parametrize("answer", [True, False, "not today"])
def test_each_match_is_asked_for_once_though_two_rules_look_at_it(answer):
    calls, _ = asked("memo_each", local=False, answer=answer)
    assert sorted(call.op.name for call in calls) == ["add"] * 4 + ["nn.relu"] * 4
    assert len(set(calls)) == 8


def test_local_predicates_are_asked_once_for_all_equal_matches():
    calls, local = asked("memo_local", local=True)
    assert sorted(call.op.name for call in calls) == ["add"] * 3 + ["nn.relu"] * 3
    _, other = asked("memo_each", local=False)
    text = local.astext(False).replace("memo_local", "memo_each")
    assert text == other.astext(False)


@pytest.mark.parametrize("local", [True, False])
def test_two_matches_of_one_root_are_two_questions(local):
    text = "def @main(%x: $T, %y: $T) { %0 = exp(%x); %1 = exp(%y); subtract(add(%0, %1), %y) }"
    one_exp = is_op("subtract")(is_op("add")(is_op("exp")(wildcard()), wildcard()), wildcard())
    calls, _ = asked(f"memo_orders_{local}", local, pattern=one_exp, text=text)
    assert sorted(call.op.name for call in calls) == ["add", "subtract", "subtract"]
    # Both orders of two wildcards are of the same nodes: one question.
    text = "def @main(%x: $T, %y: $T) { nn.relu(add(%x, %y)) }"
    calls, _ = asked(f"memo_orders_{local}", local, text=text)
    assert sorted(call.op.name for call in calls) == ["add", "nn.relu"]


def test_attributes_are_asked_for_once_though_composites_are_in_regions_too():
    name, calls = "memo_attrs", []

    def attrs_of(expr):
        calls.append(expr)
        return {"size": len(calls)}

    relu = rules.DFPattern("relu", is_op("nn.relu")(wildcard()))
    part = rules.Composite(f"{name}.relu", relu, attrs=attrs_of)
    both = rules.Union(rules.Combine(part, []), rules.Region(part))
    text = "def @main(%x: $T) { " + "nn.relu(" * 18 + "%x" + ")" * 18 + " }"
    with rule_of(name, rules.Primitive(both)):
        found = collage.candidates(parse(text), [HOST, name])
    assert len(calls) == len(set(calls)) == 18
    assert len([each for each in found if each.spec.name == name]) == 19


@pytest.mark.parametrize("shared", [rules.Primitive, rules.Joinable, lambda rule: rule])
def test_a_refusal_appears_once_though_two_rules_look_at_the_match(shared):
    name = "memo_refused"
    no = rules.Composite("no", rules.DFPattern("no", CHAIN, lambda call: "not today"))
    both = rules.Union(rules.Combine(shared(no), []), rules.Region(shared(no)))
    with rule_of(name, rules.Primitive(both)):
        rows = collage.refusals(parse(TEXT), [HOST, name])
    assert [row.reason for row in rows] == ["not today"] * 4
