# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SystemExit and MemoryError in a user's Python end the pass and come out as themselves."""

import contextlib
import sys
import types

import pytest
import tvm
from relay_text import HOST, make_backend, parse, partition
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import CustomCostEstimator, MockCostEstimator, rules
from tvm.relay.collage.backends.own_cost import own_cost
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.process_wide.interrupts import carried, interrupts_kept
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.target import Target

K = "interrupt_test"
TEXT = "def @main(%x: $T) -> $T { exp(nn.relu(%x)) }"
RELU = is_op("nn.relu")(wildcard())
OP_ATTRIBUTE = f"target.{K}_op"
# What the hook is given of what is lost, but for the function.
GIVEN = ("exc_type", "exc_value", "exc_traceback", "err_msg")

STOPS = pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, MemoryError])


class Stopper:
    """A function that raises at its first call, and counts its calls."""

    def __init__(self, stop):
        self.stop, self.num_calls = stop, 0

    def __call__(self, *args):
        self.num_calls += 1
        raise self.stop("now")


def search(rule, estimator=None):
    tvm.get_global_func("collage.RegisterTargetKind")(K, 1)
    rules.set_partition_rule(K, rule)
    try:
        return partition(parse(TEXT), [Target(K)], estimator or MockCostEstimator({HOST: 9, K: 1}))
    finally:
        rules.set_partition_rule(K, None)


RULES = {
    "predicate": lambda f: rules.DFPattern("relu", RELU, f),
    "op predicate": lambda f: rules.OpPredicate("mine", f),
    "attrs getter": lambda f: rules.Composite("k.relu", rules.DFPattern("relu", RELU), f),
    "custom rule": lambda f: rules.Custom("mine", f),
    "op_rule": lambda f: rules.PatternRule("mine", f),
    "fusion_rule": lambda f: rules.PatternRule("mine", lambda call: True, f),
    "verify": lambda f: rules.PatternRule("mine", lambda call: True, None, f),
}


@STOPS
@pytest.mark.parametrize("make", RULES.values(), ids=RULES)
def test_what_rules_ask_ends_the_pass(make, stop):
    function = Stopper(stop)
    with pytest.raises(stop, match="now") as caught:
        search(rules.Primitive(make(function)))
    assert type(caught.value) is stop and function.num_calls == 1


@pytest.mark.parametrize("make", RULES.values(), ids=RULES)
def test_other_errors_are_refusals(make):
    function = Stopper(ZeroDivisionError)
    found = search(rules.Primitive(make(function)))
    assert "nn_relu_exp" not in str(found) and function.num_calls >= 1


@STOPS
def test_a_function_that_makes_a_rule_ends_the_pass(stop):
    with pytest.raises(stop, match="now"):
        search(Stopper(stop))


@STOPS
def test_a_predicate_of_tvms_own_pattern_table_ends_the_pass(stop):
    function = Stopper(stop)
    backend = make_backend(f"{K}_table", [(f"{K}_table.relu", RELU, function)])
    with pytest.raises(stop, match="now"):
        partition(parse(TEXT), [backend], {HOST: 9, f"{K}_table": 1})
    assert function.num_calls == 1


@pytest.fixture
def op_attribute():
    """Gives TVM a function as it is, for nn.relu."""

    def give(function):
        op = tvm.ir.Op.get("nn.relu")
        if op.has_attr(OP_ATTRIBUTE):
            op.reset_attr(OP_ATTRIBUTE)
        tvm.ir.register_op_attr("nn.relu", OP_ATTRIBUTE, function)

    yield give
    tvm.ir.Op.get("nn.relu").reset_attr(OP_ATTRIBUTE)


@STOPS
def test_an_op_attribute_that_its_owner_gave_to_tvm_ends_the_pass(op_attribute, stop):
    function = Stopper(stop)
    op_attribute(function)
    before = sys.unraisablehook
    with pytest.raises(stop, match="now"):
        search(rules.Primitive(rules.OpPredicate("mine", OP_ATTRIBUTE)))
    assert function.num_calls == 1 and sys.unraisablehook is before


def test_other_errors_of_an_op_attribute_are_the_reason(op_attribute):
    op_attribute(Stopper(ZeroDivisionError))
    tvm.get_global_func("collage.RegisterTargetKind")(K, 1)
    rules.set_partition_rule(K, rules.Primitive(rules.OpPredicate("mine", OP_ATTRIBUTE)))
    try:
        [refusal] = collage.refusals(parse(TEXT), [collage.host_target(), Target(K)])
    finally:
        rules.set_partition_rule(K, None)
    assert refusal.reason == "unsupported: its predicate raised ZeroDivisionError('now')"


@STOPS
def test_a_global_cost_function_ends_the_pass(stop):
    tvm.register_func(f"{K}.seconds", Stopper(stop), override=True)
    with pytest.raises(stop, match="now"):
        search(rules.Primitive(rules.Custom("all", one_relu)), CustomCostEstimator(f"{K}.seconds"))


def one_relu(graph):
    return [[node.index] for node in graph if node.op == "nn.relu"]


class Own(collage.backends.Backend):
    """One whose methods may stop."""

    name = K + "_own"
    version = available = staticmethod(lambda: None)

    def patterns(self):
        return [(f"{self.name}.relu", RELU)]

    def compile(self, function):
        raise NotImplementedError


def register(method, function):
    """Our backend with that method stopping, as a target."""
    Stopping = type("Stopping", (Own,), {method: lambda self, *args: function(*args)})
    return Target(collage.backends.register_backend(Stopping()).name)


@STOPS
@pytest.mark.parametrize("method", ["available", "partition_rule"])
def test_a_backends_own_method_ends_the_build(stop, method):
    function = Stopper(stop)
    targets = [collage.host_target(), register(method, function)]
    config = {"relay.collage.enable_collage": True}
    with pytest.raises(stop, match="now"), tvm.transform.PassContext(opt_level=3, config=config):
        relay.build(parse(TEXT), target=targets)
    assert function.num_calls == 1


@STOPS
def test_a_backends_compiler_ends_the_build(stop):
    function = Stopper(stop)
    target = register("compile", function)
    mod = partition(parse(TEXT), [target], {HOST: 9, Own.name: 1})
    with pytest.raises(stop, match="now"):
        build_library(mod, collage.host_target())
    assert function.num_calls == 1


@STOPS
def test_a_backends_cost_function_is_not_a_failed_candidate(stop):
    with pytest.raises(stop, match="now"):
        own_cost(parse(TEXT), register("cost", Stopper(stop)))


@STOPS
def test_a_pass_of_tvms_own_that_is_interrupted_ends_the_build(stop):
    @tvm.instrument.pass_instrument
    class Stopping:
        def run_before_pass(self, mod, info):
            if info.name == "CollagePartition":
                raise stop("now")

    make_backend(f"{K}_table", [(f"{K}_table.relu", RELU)])
    context = tvm.transform.PassContext(
        opt_level=3, config={"relay.collage.enable_collage": True}, instruments=[Stopping()]
    )
    with pytest.raises(stop, match="now"), context:
        relay.build(parse(TEXT), target=[collage.host_target(), Target(f"{K}_table")])


def test_carried_leaves_answers_and_other_errors_as_they_are():
    ask = tvm.runtime.convert(carried(lambda x: x + 1))
    assert ask(1) == 2
    with pytest.raises(ZeroDivisionError):
        tvm.runtime.convert(carried(lambda: 1 // 0))()


def test_what_the_ffi_loses_is_raised_once_and_by_its_own_thread():
    lost = tvm.runtime.convert(Stopper(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt), interrupts_kept(), interrupts_kept():
        lost()
    with interrupts_kept():
        assert True  # nothing is left over


def test_what_the_ffi_loses_is_known_where_the_hook_is_not_given_its_function(monkeypatch):
    """As by the ctypes of Python 3.13 and later."""

    def without_function(unraisable):
        ours(types.SimpleNamespace(**{name: getattr(unraisable, name) for name in GIVEN}))

    with pytest.raises(KeyboardInterrupt), interrupts_kept():
        ours = sys.unraisablehook
        with monkeypatch.context() as patch, contextlib.suppress(Exception):
            patch.setattr(sys, "unraisablehook", without_function)
            tvm.runtime.convert(Stopper(KeyboardInterrupt))()


def test_what_others_lose_goes_to_the_hook_before_ours(monkeypatch):
    class Leaving:
        def __del__(self):
            raise KeyboardInterrupt

    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: seen.append(unraisable.exc_type))
    with interrupts_kept():
        Leaving()
    assert seen == [KeyboardInterrupt]


def test_what_is_lost_in_a_block_that_is_interrupted_does_not_come_out_of_the_next():
    def leave():
        raise SystemExit

    with pytest.raises(KeyboardInterrupt), interrupts_kept():
        with contextlib.suppress(Exception):  # the FFI raises an error that it had before
            tvm.runtime.convert(leave)()
        raise KeyboardInterrupt
    with interrupts_kept():
        assert tvm.runtime.convert(lambda: 3)() == 3


@pytest.mark.parametrize("callback", ["_estimate_prices", "_transitions"])
def test_a_callback_that_the_ffi_made_nothing_of_is_an_error(monkeypatch, callback):
    """As it does where Ctrl-C comes in its own lines around the function: C++ must not read on."""
    monkeypatch.setattr(MockCostEstimator, callback, lambda self, *_: None)
    monkeypatch.setattr(MockCostEstimator, "has_transitions", True)
    with pytest.raises(tvm.TVMError, match="a callback in Python gave nothing"):
        search(
            rules.Primitive(RULES["predicate"](lambda call: True)),
            MockCostEstimator({HOST: 9, K: 1}),
        )
