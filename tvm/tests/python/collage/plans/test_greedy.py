# SPDX-License-Identifier: Apache-2.0
"""Offloading all that a backend takes: rows of its table, and predicates that misbehave."""

import numpy as np
import pytest
import tvm
from relay_text import assert_same_outputs, composites, parse, undo_partition
from tvm import relay
from tvm.relay.collage import backends
from tvm.relay.collage.backends.registry import REGISTERED
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.plans.greedy import take_all
from tvm.relay.collage.relay_util.walk import nodes_of
from tvm.relay.dataflow_pattern import is_op, wildcard

RELU, TANH, EXP = (is_op(op)(wildcard()) for op in ("nn.relu", "tanh", "exp"))
ADD = is_op("add")(wildcard(), wildcard())


class Greedy(backends.Backend):
    name = "greedy"

    def __init__(self, rows, op_predicates=None):
        self.rows, self.op_predicates = rows, op_predicates or {}

    def patterns(self):
        return self.rows


@pytest.fixture
def register():
    yield backends.register_backend
    if "greedy" in REGISTERED:
        backends.register_backend(Greedy([]))  # takes its op predicates out of TVM
        REGISTERED.pop("greedy")


def module():
    x = relay.var("x", shape=(4,))
    body = relay.exp(relay.tanh(relay.nn.relu(x)))
    return tvm.IRModule.from_expr(relay.Function([x], body))


def functions_of(mod):
    return [f for f in mod.functions.values() if f.attrs and "Compiler" in f.attrs]


def fail(_):
    raise KeyError("no such attribute")


ANSWERS = {
    "true": (lambda _: True, True),
    "false": (lambda _: False, False),
    "one": (lambda _: 1, True),
    "none": (lambda _: None, False),
    "reason": (lambda _: "too small", False),
    "tvm_reason": (lambda _: tvm.runtime.String("too small"), False),
    "no_reason": (lambda _: "", True),
    # What Python takes for true, but the pass for a mistake.
    "array": (lambda _: np.ones(1), False),
    "list": (lambda _: ["too small"], False),
    "raises": (fail, False),
    "raises_tvm": (lambda call: call.no_such_attribute, False),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answer_of_a_predicate_of_a_pattern_and_of_an_op(register, name):
    predicate, accepted = ANSWERS[name]
    register(Greedy([("greedy.relu", RELU, predicate), ("greedy.tanh", TANH)]))
    mod = backends.greedy_partition(module(), "greedy")
    assert composites(mod) == (["greedy.relu"] if accepted else []) + ["greedy.tanh"]
    backend = register(Greedy([], {"nn.relu": predicate}))
    call = module()["main"].body.args[0].args[0]
    assert backend.op_predicates["nn.relu"](call) is accepted
    assert len(functions_of(backends.greedy_partition(module(), "greedy"))) == accepted


def test_a_wrong_answer_is_told(register, caplog):
    backend = register(Greedy([], {"nn.relu": lambda _: np.ones(1)}))
    with caplog.at_level("INFO", "tvm.relay.collage"):
        assert backend.op_predicates["nn.relu"](None) is False
    assert caplog.messages == [
        "greedy: nn.relu refused: unsupported: its predicate gave ndarray: a predicate gives a "
        "bool, or a text of why not"
    ]


def test_rows_of_two_to_four_fields(register):
    """A row of four must not take its neighbour's pattern, nor one with no predicate its own."""
    rows = [
        ("greedy.relu", RELU, lambda _: False, lambda _: {}),
        ("greedy.tanh", TANH, lambda _: True, lambda _: {}),
        ("greedy.exp", EXP, None),
    ]
    register(Greedy(rows))
    assert sorted(composites(backends.greedy_partition(module(), "greedy"))) == [
        "greedy.exp",
        "greedy.tanh",
    ]


def test_the_fourth_field_gives_attributes_of_the_composite(register):
    def attrs(expr):
        if expr.op.name == "tanh":
            raise KeyError("no such attribute")
        return {"rank": len(expr.checked_type.shape), "names": ["a"], "scale": 0.5}

    register(Greedy([("greedy.relu", RELU, None, attrs), ("greedy.tanh", TANH, None, attrs)]))
    mod = backends.greedy_partition(module(), "greedy")
    # As in the pass, a match whose attributes cannot be had is none.
    assert composites(mod) == ["greedy.relu"]
    functions = nodes_of(mod, relay.Function)
    [attrs] = [each.attrs for each in functions if "Composite" in (each.attrs or {})]
    assert attrs["rank"] == len(mod["main"].params[0].checked_type.shape)
    assert (list(attrs["names"]), attrs["scale"].value) == (["a"], 0.5)


def test_a_graph_level_backend_takes_the_largest_parts(register, monkeypatch):
    monkeypatch.setattr(Greedy, "kind", backends.GRAPH_LEVEL)
    register(Greedy([("greedy.relu", RELU), ("greedy.tanh", TANH)]))
    whole = backends.greedy_partition(module(), "greedy")
    apart = backends.greedy_partition(module(), "greedy", most_calls=1)
    assert len(functions_of(whole)) == 1 and len(functions_of(apart)) == 2
    assert composites(whole) == composites(apart) == ["greedy.relu", "greedy.tanh"]


def test_parts_never_wait_for_each_other(register, monkeypatch):
    """Both results of the split leave the part, and one comes back by way of TVM's cos."""
    monkeypatch.setattr(Greedy, "kind", backends.GRAPH_LEVEL)
    register(Greedy([("greedy.relu", RELU), ("greedy.tanh", TANH), ("greedy.add", ADD)]))
    mod = parse("""
    def @main(%x: Tensor[(4, 4), float32]) {
      %0 = nn.relu(%x);
      %1 = split(%0, indices_or_sections=2);
      %2 = tanh(%1.0);
      add(%2, cos(tanh(%1.1)))
    }""")
    placed = backends.greedy_partition(mod, "greedy")
    assert sorted(composites(placed)) == ["greedy.add", "greedy.relu", "greedy.tanh", "greedy.tanh"]
    assert len(functions_of(placed)) == 3
    assert_same_outputs(mod, undo_partition(placed))


def test_the_report_tells_why(register):
    rows = [("greedy.relu", RELU, fail), ("greedy.tanh", TANH, lambda _: "too small")]
    register(Greedy(rows))
    mod = relay.transform.InferType()(module())
    _, [report] = take_all(mod, parse_targets(["llvm", "greedy"]))
    reasons = {row.op: row.message for row in report.unplaced}
    assert "its predicate raised KeyError('no such attribute')" in reasons["nn.relu"]
    assert "too small" in reasons["tanh"]
    assert reasons["exp"] == "the backend has no pattern for it here"


def test_options_of_the_context_do_not_change_it(register):
    register(Greedy([("greedy.relu", RELU)]))
    config = {"relay.collage.placement": "no such file", "relay.collage.tvm_max_depth": 3}
    with tvm.transform.PassContext(config=config):
        assert sorted(composites(backends.greedy_partition(module(), "greedy"))) == ["greedy.relu"]


def test_bad_declarations(register):
    with pytest.raises(ValueError, match="backend greedy: .* 2 to 4 fields, got 1"):
        register(Greedy([("greedy.relu",)]))
    with pytest.raises(TypeError, match=r"op_predicates\['nn.relu'\] must be a function.*not bool"):
        register(Greedy([], {"nn.relu": True}))
    assert backends.find_backend("greedy") is None
