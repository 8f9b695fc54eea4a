# SPDX-License-Identifier: Apache-2.0
"""A backend's own options on the target, and its own cost function."""

import numpy as np
import pytest
import tvm
from onednn_nets import run
from option_backend import BACKEND, NAME
from relay_text import HOST, parse, partition
from tvm.relay.collage import (
    Backend,
    CollageOptions,
    CostEstimator,
    MockCostEstimator,
    OptionError,
    backends,
    candidates,
    register_backend,
)
from tvm.relay.collage.backends.registry import REGISTERED
from tvm.relay.collage.backends.target_options import options_in, options_of
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.estimators.session import open_session
from tvm.relay.collage.measure import Cost, candidate_module
from tvm.relay.collage.optimizer import partition as partition_for
from tvm.relay.collage.plans.greedy import take_all
from tvm.relay.collage.plans.placement.replay import placed_parts, rewrite
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.target import Target

NET = "def @main(%x: $T) -> $T { tanh(nn.relu(%x)) }"
X = np.linspace(-1, 2, 8).astype("float32").reshape(2, 4)


def found(target):
    """The ops that the backend could run."""
    return sorted(
        candidate.sub_graph.graph[next(iter(candidate.sub_graph.inside))].op
        for candidate in candidates(parse(NET), [Target(HOST), Target(target)])
        if candidate.backend == NAME
    )


def test_options_are_typed_and_have_defaults():
    target = Target(f"{NAME} -relu=0 -rank=3 -scale=2.5f")
    assert options_of(BACKEND, target) == {"relu": False, "rank": 3, "scale": "2.5f"}
    assert options_of(BACKEND, Target(NAME)) == {} and BACKEND.options["rank"] == 2
    assert Target({"kind": NAME, "rank": 3}).attrs["rank"] == 3


def test_patterns_and_predicates_see_them():
    assert found(NAME) == ["nn.relu", "tanh"]
    assert found(f"{NAME} -relu=0") == ["tanh"]
    assert found(f"{NAME} -rank=3") == ["nn.relu"]


@pytest.mark.parametrize("plan", ["searched", "alone"])
def test_codegen_sees_them_where_the_part_is_compiled(plan):
    for scale in ("1", "3"):
        target = Target(f"{NAME} -scale={scale} -rank=7")
        if plan == "searched":
            mod = partition(parse(NET), [target], {HOST: 100, NAME: 1})
        else:
            mod = backends.greedy_partition(parse(NET), NAME, target=target)
        [found] = run(build_library(mod, HOST), {"x": X})
        expected = np.tanh(X * np.float32(scale))  # where relu was, the backend scales
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_they_reach_the_workers():
    target = Target(f"{NAME} -scale=nonsense -rank=7", host=HOST)
    part = backends.greedy_partition(parse(NET), NAME, target=target)
    options = CollageOptions(workers=1, measure_seconds=0.01, progress="quiet")
    with open_session(options.session, [target]) as session:
        [cost] = CostEstimator(session).estimate_batch([part], [target], ["part"])
    assert cost.status == "compile_failed" and "'nonsense' undeclared" in cost.message


def key_of(target):
    mod = parse("def @main(%x: $T) -> $T { nn.relu(%x) }")
    part = backends.greedy_partition(mod, NAME, target=Target(target))
    return candidate_module(part, NAME, HOST).key()


def test_options_are_a_part_of_a_cost_s_key():
    plain = key_of(NAME)
    assert key_of(f"{NAME} -scale=1 -relu=1") == plain  # the defaults, spelt out
    assert len({plain, key_of(f"{NAME} -scale=2"), key_of(f"{NAME} -rank=3")}) == 3


def test_a_placement_keeps_them():
    mod = parse(NET)
    targets = parse_targets([HOST, f"{NAME} -scale=2"])
    _, [report] = take_all(mod, targets)
    again = rewrite(mod, {"main": placed_parts(report.placement)})
    parts = [f for f in again.functions.values() if "Compiler" in (f.attrs or {})]
    assert parts and all(options_in(part) == {"scale": "2"} for part in parts)


def test_added_rules_carry_them_too():
    try:
        backends.add_pattern_rule(NAME, lambda call: call.op.name == "exp", name="exp")
        text = "def @main(%x: $T) -> $T { exp(%x) }"
        mod = partition(parse(text), [Target(f"{NAME} -rank=5")], {HOST: 100, NAME: 1})
    finally:
        BACKEND.added_rules = {}
    [part] = [f for f in mod.functions.values() if "Compiler" in (f.attrs or {})]
    assert options_in(part) == {"rank": 5}


def test_tvm_names_an_unknown_option_and_a_wrong_type():
    with pytest.raises(ValueError, match="Cannot recognize 'fast'"):
        Target(f"{NAME} -fast=1")
    with pytest.raises(ValueError, match="rank"):
        Target(f"{NAME} -rank=many")


def test_one_backend_with_two_sets_of_options():
    targets = [HOST, f"{NAME} -rank=2", f"{NAME} -rank=3"]
    with pytest.raises(OptionError, match=f"backend '{NAME}' is in the target list with different"):
        parse_targets(targets)
    assert len(parse_targets([HOST, f"{NAME} -rank=3", f"{NAME} -rank=3"]).external) == 1


def test_an_option_cannot_change_its_type():
    class Changed(Backend):
        name = NAME
        options = {"rank": "2"}

    with pytest.raises(ValueError, match=r"'rank' cannot be of type str: .*already \(int\)"):
        register_backend(Changed())
    assert backends.get_backend(NAME) is BACKEND
    register_backend(BACKEND)  # the same types again are no conflict


class Priced(Backend):
    """Takes relu and tanh; `answer` is what its cost function gives, or a function of the call."""

    name = "priced_test"
    options = {"price": 1}
    answer = (None,)

    def patterns(self):
        ops = ("nn.relu", "tanh")
        return [(f"{self.name}.{op}", is_op(op)(wildcard())) for op in ops]

    def compile(self, function):
        raise AssertionError("nothing is compiled for a cost that is given")

    def cost(self, candidate):
        assert "main" in [var.name_hint for var in candidate.get_global_vars()]
        [answer] = self.answer
        return answer(self) if callable(answer) else answer


@pytest.fixture
def priced():
    yield register_backend(Priced())
    REGISTERED.pop(Priced.name)


def costs(answer, target="priced_test"):
    """The costs that the search saw for the backend's candidates."""
    Priced.answer = (answer,)
    estimator = CostEstimator()
    try:
        found = candidates(parse(NET), [Target(HOST), Target(target)], _TvmMocked(estimator))
    finally:
        estimator.close()
        Priced.answer = (None,)
    return [candidate.cost for candidate in found if candidate.backend == "priced_test"]


class _TvmMocked(MockCostEstimator):
    """TVM's candidates cost 1 s; the rest is asked of the estimator that measures."""

    price_batch = None

    def __init__(self, estimator):
        super().__init__({HOST: 1})
        self._real = estimator

    def estimate_batch(self, mods, targets, labels):
        costs = [Cost.given(1.0) for _ in mods]
        for k, target in enumerate(targets):
            if target.kind.name != HOST:
                [costs[k]] = self._real.estimate_batch([mods[k]], [target], [labels[k]])
        return costs


def test_own_costs_are_estimated_and_nothing_is_built(priced):
    assert [(cost.status, cost.seconds) for cost in costs(2e-6)] == [("estimated", 2e-6)] * 2
    by_option = costs(lambda self: self.options["price"] * 1e-3, "priced_test -price=7")
    assert [cost.seconds for cost in by_option] == [7e-3] * 2
    assert {cost.status for cost in costs(Cost.measured([1e-6, 1e-6]))} == {"estimated"}


def test_a_cost_may_be_a_failure(priced):
    [cost, _] = costs(Cost.failed("timeout", "the model says never"))
    assert (cost.status, cost.message) == ("timeout", "the model says never")


@pytest.mark.parametrize(
    "answer, message",
    [
        (float("nan"), "ValueError: a estimated cost needs finite seconds"),
        (-1.0, "finite seconds from 0"),
        ("fast", "could not convert string to float"),
        (lambda self: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_no_cost_fails_the_candidate(priced, answer, message):
    for cost in costs(answer):
        assert (
            cost.status == "unsupported"
            and "backend priced_test: its cost function" in cost.message
        )
        assert message in cost.message


def test_the_search_goes_by_own_costs(priced):
    for seconds, is_taken in ((1e-9, True), (100.0, False)):
        Priced.answer = (seconds,)
        estimator = CostEstimator()
        targets = parse_targets([HOST, "priced_test"])
        with tvm.transform.PassContext(
            opt_level=3, config={"relay.collage.workers": 1, "relay.collage.measure_seconds": 0.01}
        ):
            mod = partition_for(parse(NET), targets, estimator)
        estimator.close()
        Priced.answer = (None,)
        assert ("priced_test.tanh" in str(mod)) == is_taken
