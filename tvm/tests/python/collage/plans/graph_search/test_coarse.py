# SPDX-License-Identifier: Apache-2.0
"""Plans of fewer parts that join the guard: which are chosen, by a front of plans that is made up,
and that of a net, by the pass with prices for costs."""

import json

from relay_text import HOST, is_external, make_backend, parse
from tvm.relay.collage import MockCostEstimator
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.plans.graph_search import coarse_plans
from tvm.relay.collage.plans.graph_search.space import SLACK
from tvm.relay.collage.plans.names import is_single
from tvm.relay.collage.plans.placement.replay import rewrite
from tvm.relay.collage.plans.run_pass import partition
from tvm.relay.dataflow_pattern import is_op, wildcard

FINER, COARSER = SLACK


def replan_of(*front):
    """Answers as the pass does, from plans of so many seconds and parts; they charge what they are
    told to for each part."""

    def part(number):
        cost = {"status": "measured", "seconds": 0.0, "message": "", "flags": []}
        row = {"nodes": [number], "backend": "dnnl", "rule": "", "label": "", "composites": []}
        return {**row, "is_primitive": True, "cost": cost}

    def answer(request):
        price = json.loads(request)["part_seconds"]
        seconds, count = min(front, key=lambda plan: plan[0] + price * plan[1])
        return json.dumps({"seconds": seconds, "parts": [part(k) for k in range(count)]})

    return answer


def counts(*front, **others):
    found = coarse_plans({"main": replan_of(*front), **others})
    return {name: len(parts["main"]) for name, parts in found.items()}


def test_the_fewest_parts_within_each_slack():
    front = (1.0, 40), (1.02, 20), (1.04, 10), (1.1, 4), (1.3, 1)
    assert counts(*front) == {FINER: 10, COARSER: 4}


def test_each_price_is_asked_for_once():
    requests = []

    def replan(request):
        requests.append(request)
        return answer(request)

    answer = replan_of((1.0, 40), (1.04, 10), (1.1, 4), (1.3, 1))
    assert len(coarse_plans({"main": replan})) == 2
    assert len(requests) == len(set(requests))


def test_what_is_no_coarser_is_left_out():
    assert counts((1.0, 40)) == {}
    assert counts((1.0, 40), (1.5, 1)) == {}
    assert counts((1.0, 40), (1.04, 10), (2.0, 1)) == {FINER: 10}
    assert counts((1.0, 40), (1.1, 10), (2.0, 1)) == {COARSER: 10}
    assert coarse_plans({}) == {}


def test_a_function_without_a_coarser_plan_has_its_optimum():
    found = coarse_plans({"main": replan_of((1.0, 9), (1.01, 3)), "f": replan_of((1.0, 7))})
    assert {name: len(parts) for name, parts in found[FINER].items()} == {"main": 3, "f": 7}


def test_they_are_no_backend_alone():
    assert not any(is_single(name) for name in SLACK) and is_single("dnnl")


def test_a_plan_of_the_pass_that_leaves_all_to_tvm():
    """A backend that is faster at each second operator: TVM would have fused across it."""
    make_backend("coarse_backend", [("coarse_backend.tanh", is_op("tanh")(wildcard()))])
    mod = parse("def @main(%x: $T) { nn.relu(tanh(nn.relu(tanh(%x)))) }")
    estimator = MockCostEstimator({HOST: 10, "coarse_backend": 5})
    estimator.replans = {}
    partitioned = partition(mod, parse_targets([HOST, "coarse_backend"]), estimator)
    assert sum(map(is_external, partitioned.functions.values())) == 2  # 30 s, by TVM alone 34.39
    found = coarse_plans(estimator.replans)
    assert list(found) == [COARSER]
    plan = rewrite(mod, found[COARSER])
    assert not any(map(is_external, plan.functions.values()))
