# SPDX-License-Identifier: Apache-2.0
"""Who says what a target may run: the target, its kind, its backend, a table, op predicates."""

import pytest
import tvm
from relay_text import HOST, assert_equal, make_backend, parse, part_text, partition, rule_of
from tvm.relay.collage import Backend, MockCostEstimator, register_backend, rules
from tvm.relay.collage.backends.registry import REGISTERED
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.target import Target

RELU = is_op("nn.relu")(wildcard())
TANH = is_op("tanh")(wildcard())
TEXT = "def @main(%x: $T) -> $T { exp(tanh(nn.relu(%x))) }"


def parts(targets, costs, text=TEXT, **options):
    """Names of the parts for external backends, without what they begin with."""
    result = partition(parse(text), targets, costs, **options)
    names = [var.name_hint for var in result.get_global_vars()]
    return sorted(name.split("_test_")[1] for name in names if name.startswith("collage_"))


def wrapped(op):
    return rules.Primitive(rules.DFPattern(op, is_op(op)(wildcard())))


@pytest.fixture
def backend():
    """Takes relu by its table; parts are named collage_own_test_..."""

    class Own(Backend):
        name = "own_test"

        def patterns(self):
            return [("own_test.relu", RELU)]

    yield register_backend(Own())
    REGISTERED.pop("own_test")


COSTS = {HOST: 100, "own_test": 1}


def test_a_backends_own_rule_is_its_table(backend):
    assert parts([Target("own_test")], COSTS) == ["nn_relu"]
    assert "Composite(own_test.relu" in rules.backend_rule(backend).summary()


def test_a_backend_may_override_its_rule_and_take_the_default_as_a_part(backend, monkeypatch):
    seen = []

    def partition_rule(options):
        seen.append(options.byoc_max_depth)
        return rules.Union(rules.backend_rule(backend), wrapped("tanh"))

    monkeypatch.setattr(backend, "partition_rule", partition_rule)
    assert parts([Target("own_test")], COSTS, byoc_max_depth=3) == ["nn_relu", "tanh"]
    assert seen == [3]


def test_an_override_that_gives_no_rule_is_named(backend, monkeypatch):
    monkeypatch.setattr(backend, "partition_rule", lambda options: "relu")
    with pytest.raises(TypeError, match=r"backend own_test: partition_rule\(options\) returns a"):
        parts([Target("own_test")], COSTS)


@pytest.mark.parametrize("how", ["rule", "function", "name"])
def test_a_kinds_own_rule_comes_before_the_backends(backend, how):
    rule = rules.register_rule("own_test_tanh", wrapped("tanh"))
    given = {"rule": rule, "function": lambda: rule, "name": "own_test_tanh"}[how]
    with rule_of("own_test", given):
        assert parts([Target("own_test")], COSTS) == ["tanh"]
    assert parts([Target("own_test")], COSTS) == ["nn_relu"]


def test_a_targets_own_rule_comes_before_its_kinds(backend):
    rules.register_rule("own_test_exp", wrapped("exp"))
    with rule_of("own_test", wrapped("tanh")):
        assert parts([Target("own_test -partition_rule=own_test_exp")], COSTS) == ["exp"]
    assert "own_test_exp" in rules.registered_rules()
    assert rules.registered_rule("own_test_exp").summary() == "Primitive(DFPattern(exp(*)))"


def test_a_rule_that_nobody_registered_is_named(backend):
    with pytest.raises(ValueError) as caught:
        parts([Target("own_test -partition_rule=nobodys")], COSTS)
    message = str(caught.value)
    assert "target own_test: no rule is registered as 'nobodys'; registered are" in message
    assert "\n" not in message


def test_a_kinds_rule_that_is_no_rule_is_named(backend):
    zero = r"partition_rule function raised ZeroDivisionError\("
    for make, error, words in (
        (lambda: 5, TypeError, "partition_rule is no rule"),
        (lambda: None, TypeError, "partition_rule is no rule"),
        (lambda: 1 // 0, RuntimeError, zero),
    ):
        with rule_of("own_test", make), pytest.raises(error, match=f"target own_test: its {words}"):
            parts([Target("own_test")], COSTS)
    with pytest.raises(ValueError, match="TVM knows no target kind 'nobodys_kind'"):
        rules.set_partition_rule("nobodys_kind", None)
    with pytest.raises(TypeError, match="rule set_partition_rule: rule is a rule, function or"):
        rules.set_partition_rule("own_test", 5)


def test_a_replaced_maker_of_rules_that_makes_none_is_named(backend):
    name = "tvm.relay.collage.make_byoc_partition_rule"
    ours = tvm.get_global_func(name)
    tvm.register_func(name, lambda compiler: None, override=True)
    try:
        with pytest.raises(TypeError, match=f"target own_test: {name} returned None"):
            parts([Target("own_test")], COSTS)
    finally:
        tvm.register_func(name, ours, override=True)


def test_tvms_own_targets_may_have_a_rule_too(backend):
    # TVM may fuse nothing: three kernels, where its own rule makes one.
    costs = {HOST: 10, "own_test": 9}
    assert parts([Target("own_test")], costs) == []
    with rule_of(HOST, rules.Primitive(rules.OpCallByKind())):
        result = partition(parse(TEXT), [Target("own_test")], costs)
    # What is TVM's is never wrapped, whatever its rule says.
    names = [var.name_hint for var in result.get_global_vars()]
    assert sorted(names) == ["collage_own_test_nn_relu", "main"]


def test_what_nothing_would_hand_over_is_refused(backend, monkeypatch):
    monkeypatch.setattr(backend, "partition_rule", lambda options: rules.DFPattern("relu", RELU))
    assert parts([Target("own_test")], COSTS) == []


def test_a_kind_with_op_predicates_alone_joins_what_they_take():
    name = "attribute_test"
    tvm.get_global_func("collage.RegisterTargetKind")(name, 1)
    for op in ("tanh", "nn.relu"):
        tvm.ir.register_op_attr(op, f"target.{name}", lambda call: True, 11)
    assert_equal(
        partition(parse(TEXT), [Target(name)], {HOST: 100, name: 1}),
        part_text(name, "nn_relu_tanh", "tanh(nn.relu(%p))")
        + f"def @main(%x: $T) -> $T {{ exp(@collage_{name}_nn_relu_tanh(%x)) }}",
    )


def test_composites_outside_any_function_are_measured_in_mains_body(backend, monkeypatch):
    rule = rules.Composite("own_test.relu_tanh", rules.DFPattern("p", is_op("tanh")(RELU)))
    monkeypatch.setattr(backend, "partition_rule", lambda options: rule)
    asked = {}

    class Recorder(MockCostEstimator):
        def estimate_batch(self, mods, targets, labels):
            asked.update(zip(labels, zip(mods, targets, strict=True), strict=True))
            return super().estimate_batch(mods, targets, labels)

    text = """def @main(%x: $T) -> $T {{
      %0 = fn (%q: $T, Composite="own_test.relu_tanh") -> $T {{ tanh(nn.relu(%q)) }};
      {}
    }}"""
    result = partition(parse(TEXT), [Target("own_test")], Recorder(COSTS))
    assert_equal(result, text.format("exp(%0(%x))"))
    mod, target = asked["own_test(nn.relu, tanh)"]
    assert_equal(mod, text.format("%0(%x)"))
    assert target.kind.name == "own_test"


ATTRS = {"many": [[1], [2, 3]], "flag": 3, "scale": 0.5, "kind": "fast", "names": ["a", "b"]}
MARKED = """%0 = fn (%q: $T, Composite="attrs_test.relu", many=[[1], [2, 3]], flag=3, scale=0.5f,
    kind="fast", names=["a", "b"]) -> $T { nn.relu(%q) }; %0(%p)"""
WITH_ATTRS = (
    part_text("attrs_test", "nn_relu", MARKED)
    + "def @main(%x: $T) -> $T { exp(tanh(@collage_attrs_test_nn_relu(%x))) }"
)


def test_the_fourth_field_gives_attributes_of_the_composite():
    seen = []

    def attrs(expr):
        seen.append(expr.op.name)
        return ATTRS

    backend = make_backend("attrs_test", [("attrs_test.relu", RELU, None, attrs)])
    measured = []

    class Recorder(MockCostEstimator):
        def estimate_batch(self, mods, targets, labels):
            measured.extend(mod for mod in mods if len(mod.functions) == 2)
            return super().estimate_batch(mods, targets, labels)

    estimator = Recorder({HOST: 10, "attrs_test": 1})
    assert_equal(partition(parse(TEXT), [backend], estimator), WITH_ATTRS)
    assert seen == ["nn.relu"]
    # What is measured is what is deployed.
    [candidate] = measured
    expected = WITH_ATTRS.replace("exp(tanh(", "").replace("%x)))", "%x)")
    assert_equal(candidate, expected)


def raises(expr):
    raise KeyError("no such attribute")


@pytest.mark.parametrize(
    "attrs",
    [
        raises,
        lambda e: 5,
        lambda e: {"a": None},
        lambda e: {"a": [[e]]},
        lambda e: {"Composite": ""},
    ],
)
def test_attributes_that_are_none_leave_the_match_out(attrs):
    backend = make_backend("attrs_test", [("attrs_test.relu", RELU, None, attrs)])
    assert_equal(partition(parse(TEXT), [backend], {HOST: 10, "attrs_test": 1}), TEXT)
