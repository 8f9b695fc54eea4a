# SPDX-License-Identifier: Apache-2.0
"""Cost estimators as the pass takes them: mock, custom, functions, the old protocol."""

import math

import pytest
import tvm
from relay_text import make_backend, parse, partition
from tvm import relay
from tvm.relay.collage import CostEstimator, CustomCostEstimator, MockCostEstimator, optimizer
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.estimators import FunctionCosts
from tvm.relay.collage.measure import Cost
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.target import Target

NAME = "estimator_test"
LLVM = Target("llvm")


@pytest.fixture(scope="module")
def backend():
    return make_backend(NAME, [(f"{NAME}.relu", is_op("nn.relu")(wildcard()))])


def ask(estimator, text, target=LLVM):
    [cost] = estimator.estimate_batch([parse(text)], [target], ["it"])
    return cost.status, pytest.approx(cost.seconds), cost.message


RELU = "def @main(%x: $T) { nn.relu(%x) }"


@pytest.mark.parametrize(
    "body, seconds",
    [
        ("nn.relu(%x)", 10),
        ("nn.relu(nn.relu(%x))", 19),  # with a benefit for fusion
        ("abs(nn.relu(tanh(%x)))", 27.1),
        ("%x", 0),
        ("%0 = nn.relu(%x); add(%0, %0)", 19),  # a shared call counts once
        ('%0 = fn (%a: $T, Composite="c") -> $T { nn.relu(tanh(%a)) }; %0(%x)', 19),
    ],
)
def test_mock_prices_calls(body, seconds):
    mock = MockCostEstimator({"llvm": 10, NAME: 3})
    assert ask(mock, f"def @main(%x: $T) {{ {body} }}") == ("measured", seconds, "")


def test_mock_prices_the_functions_that_main_calls(backend):
    mock = MockCostEstimator({"llvm": 10, NAME: 3})
    part = f"""
    def @part(%a: $T, Primitive=1, Compiler="{NAME}", global_symbol="part") -> $T {{ nn.relu(%a) }}
    def @main(%x: $T) {{ @part(%x) }}
    """
    assert ask(mock, part, backend)[1] == 3


def test_mock_needs_a_cost_for_each_kind(backend):
    mock = MockCostEstimator({"llvm": 10})
    with pytest.raises(ValueError, match=f"MockCostEstimator has no cost for target kind '{NAME}'"):
        ask(mock, RELU, backend)


def test_mock_refuses_more_candidates_than_expected(backend):
    text = "def @main(%x: $T) { tanh(nn.relu(%x)) }"
    costs = {"llvm": 10, NAME: 1}
    enough = MockCostEstimator(costs, max_estimates=10)
    partition(parse(text), [backend], enough)
    with pytest.raises(ValueError, match="more than 1 distinct candidates were generated"):
        partition(parse(text), [backend], MockCostEstimator(costs, max_estimates=1))
    # An equal candidate is not counted again.
    for _ in range(3):
        partition(parse(text), [backend], enough)


@pytest.mark.parametrize("costs, limit", [({"llvm": "x"}, 0), ({"llvm": 1}, 1.5)])
def test_mock_refuses_costs_and_limits_that_are_no_numbers(costs, limit):
    with pytest.raises((TypeError, ValueError)):
        MockCostEstimator(costs, limit)


def test_a_function_is_asked_once_for_each_distinct_candidate(backend):
    asked = []

    def seconds_of(mod, target):
        asked.append((tvm.ir.structural_hash(mod), str(target)))
        return 1.0

    text = "def @main(%x: $T) { tanh(nn.relu(tanh(nn.relu(tanh(%x))))) }"
    estimator = FunctionCosts(seconds_of)
    partition(parse(text), [backend], estimator)
    once = len(asked)
    assert once == len(set(asked))
    partition(parse(text), [backend], estimator)
    assert len(asked) == once


def test_weights_of_another_value_are_another_candidate():
    values = iter([1.0, 2.0])
    estimator = FunctionCosts(lambda mod, target: next(values))
    for constant, seconds in (("1f", 1.0), ("2f", 2.0), ("1f", 1.0)):
        assert ask(estimator, f"def @main(%x: $T) {{ add(%x, {constant}) }}")[1] == seconds


@pytest.mark.parametrize("value", [math.inf, math.nan, -1.0, 1e300])
def test_infinity_and_what_is_no_seconds_mean_that_the_target_cannot_run_it(value):
    status, _, message = ask(FunctionCosts(lambda mod, target: value), RELU)
    assert (status, message) == ("unsupported", f"the cost function gave {value}")


def test_a_function_may_answer_a_whole_cost():
    costs = {"a": Cost.estimated(2.0), "b": Cost.failed("wrong_result", "said so")}
    rows = [ask(FunctionCosts(lambda mod, target, name=name: costs[name]), RELU) for name in costs]
    assert rows == [("estimated", 2.0, ""), ("wrong_result", None, "said so")]


def test_custom_asks_a_global_function_by_name(backend):
    def seconds_of(mod, target):
        return 1.0 if target.kind.name == NAME else 2.0

    tvm.register_func("tvm.relay.collage.estimate_seconds_custom", seconds_of, override=True)
    result = partition(parse(RELU), [backend], CustomCostEstimator())
    assert len(result.functions) == 2
    tvm.register_func("estimator_test.seconds", lambda mod, target: 1.0, override=True)
    result = partition(parse(RELU), [backend], CustomCostEstimator("estimator_test.seconds"))
    assert len(result.functions) == 1


def test_custom_needs_its_function():
    with pytest.raises(ValueError, match="Cannot find global function nope"):
        CustomCostEstimator("nope")


def test_a_subclass_may_price_whole_batches(backend):
    sizes = []

    class Batches(CostEstimator):
        def estimate_batch(self, mods, targets, labels):
            assert all(isinstance(label, str) for label in labels)
            assert all(isinstance(mod, tvm.IRModule) for mod in mods)
            sizes.append(len(mods))
            return [Cost.estimated(1.0) for _ in mods]

    partition(parse("def @main(%x: $T) { tanh(nn.relu(%x)) }"), [backend], Batches())
    assert max(sizes) > 1, "candidates are asked for many at a time"


@pytest.mark.parametrize("answer", [1.0, ["measured", 1.0, ""], None])
def test_an_answer_of_another_form_is_shown(backend, answer):
    class Wrong(CostEstimator):
        def estimate_batch(self, mods, targets, labels):
            return [answer for _ in mods]

    with pytest.raises(ValueError) as caught:
        partition(parse(RELU), [backend], Wrong())
    assert str(caught.value) == (
        f"estimate_batch gives a measure.Cost for each candidate, not {answer!r}"
    )


def test_reports_are_plain_python(backend):
    estimator = MockCostEstimator({"llvm": 1, NAME: 1})
    partition(parse(RELU), [backend], estimator)
    [report] = estimator.reports
    assert type(report.parts) is tuple and type(report.parts[0].cost.seconds) is float
    assert type(report.seconds) is float and type(report.nodes) is int
    assert type(report.function) is str and type(report.is_optimal) is bool


def test_several_estimators_keep_their_own_memory(backend):
    cheap, dear = MockCostEstimator({"llvm": 5, NAME: 1}), MockCostEstimator({"llvm": 1, NAME: 5})
    assert len(partition(parse(RELU), [backend], cheap).functions) == 2
    assert len(partition(parse(RELU), [backend], dear).functions) == 1
    assert len(cheap.reports) == len(dear.reports) == 1


def test_the_pass_can_be_made_once_and_run_often(backend):
    with tvm.transform.PassContext() as context:
        config = tvm.target.make_compilation_config(context, [LLVM, backend])
        run = relay.transform.CollagePartition(config, MockCostEstimator({"llvm": 5, NAME: 1}))
        assert run.info.name == "CollagePartition"
        assert len(run(parse(RELU)).functions) == len(run(parse(RELU)).functions) == 2


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", ["estimate_batch", "transition_seconds"])
def test_an_interrupt_comes_out_of_the_pass(backend, interrupt, where):
    class Stops(CostEstimator):
        def estimate_batch(self, mods, targets, labels):
            return [Cost.estimated(1.0) for _ in mods]

        def transition_seconds(self, types, target):
            return [0.0] * len(types)

    def stop(self, *args):
        raise interrupt("now")

    setattr(Stops, where, stop)
    text = """def @main(%x: Tensor[(1, 8, 6, 6), float32], %w: Tensor[(8, 8, 3, 3), float32]) {
      nn.relu(nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]))
    }"""
    estimator = Stops()
    with pytest.raises(interrupt, match="now"):
        partition(parse(text), [backend], estimator)


def test_an_interrupt_comes_out_of_partition(backend):
    class Stops(CostEstimator):
        def estimate_batch(self, mods, targets, labels):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimizer.partition(parse(RELU), parse_targets([LLVM, backend]), Stops())
