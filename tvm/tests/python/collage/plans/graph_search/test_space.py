# SPDX-License-Identifier: Apache-2.0
"""Genomes as plans of a module, by the pass with prices for costs: each is a plan that can run."""

import itertools
import json
import random

import numpy as np
import pytest
import tvm
from relay_text import HOST, assert_same_outputs, is_external, parse
from tvm import relay
from tvm.relay.collage import MockCostEstimator
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.plans.graph_search import PlanSpace
from tvm.relay.collage.plans.graph_search.space import ANY, APART, JOINED, plan_again
from tvm.relay.collage.plans.placement.replay import rewrite
from tvm.relay.collage.plans.run_pass import partition


def net():
    """What the first convolution makes is read by both sides of the sum: a region over all that
    dnnl takes would wait for itself."""
    x = relay.var("x", shape=(1, 4, 8, 8))
    values = np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype("float32")
    weight = relay.const(values)
    conv = lambda data: relay.nn.conv2d(data, weight, padding=(1, 1))  # noqa: E731
    first = relay.nn.relu(conv(x))
    second = relay.nn.relu(conv(relay.cos(first)))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(first + second)))
    return relay.transform.InferType()(mod)


def space_of(mod, prices, backends=("dnnl",)):
    estimator = MockCostEstimator(prices)
    estimator.replans = {}
    partition(mod, parse_targets([HOST, *backends]), estimator)
    return PlanSpace(estimator.replans, HOST), estimator


@pytest.fixture(scope="module")
def found():
    mod = net()
    space, estimator = space_of(mod, {HOST: 10, "dnnl": 1})
    return mod, space, estimator


def backends(mod):
    return [str(f.attrs["Compiler"]) for f in mod.functions.values() if is_external(f)]


def test_genes_are_what_several_backends_can_take(found):
    _, space, _ = found
    assert {gene.alleles for gene in space.genes} == {(ANY, "dnnl", HOST)}
    nodes = [node for gene in space.genes for node in gene.nodes]
    assert len(nodes) == len(set(nodes)) and nodes == sorted(nodes)
    assert space.choices[-1] == (APART, JOINED)


def test_seeds_are_the_optimum_and_the_known_plans(found):
    mod, space, estimator = found
    # Without a wish it is the pass's own plan.
    [report] = estimator.reports
    optimum = space.parts_of(space.seeds()[0])["main"]
    assert [p.nodes for p in optimum] == [tuple(row["nodes"]) for row in report.placement]
    known = [space.parts_of(genome) for genome in product_of(space)]
    plans = [{}, *known]
    seeds = PlanSpace(estimator.replans, HOST, plans).seeds()
    assert [seed[-1] for seed in seeds] == [APART, JOINED, *[APART] * len(plans)]
    for seed, plan in zip(seeds[2:], plans, strict=True):
        assert backends(rewrite(mod, space.parts_of(seed))) == backends(rewrite(mod, plan))
        assert space.key_of(space.parts_of(seed)) == space.key_of(plan)
    assert len({space.key_of(plan) for plan in plans}) >= 3, "TVM alone, dnnl and mixes"


def product_of(space):
    """Every genome without joined neighbours that names a backend for each gene."""
    return itertools.product(*(alleles[1:] for alleles in space.choices[:-1]), [APART])


def test_every_genome_is_a_plan_that_can_run(found):
    """Rewriting refuses parts that wait for each other, and what is not convex."""
    mod, space, _ = found
    chance = random.Random(1)
    plans = {}
    for _ in range(40):
        parts = space.parts_of(tuple(chance.choice(alleles) for alleles in space.choices))
        plans[space.key_of(parts)] = rewrite(mod, parts)
    assert len(plans) >= 4
    mixed = next(plan for plan in plans.values() if len(backends(plan)) >= 2)
    assert_same_outputs(mod, mixed)


def test_an_allele_decides_against_the_costs(found):
    mod, space, _ = found
    plain = space.seeds()[0]
    for k, gene in enumerate(space.genes):
        genome = (*plain[:k], HOST, *plain[k + 1 :])
        taken = {
            node
            for part in space.parts_of(genome)["main"]
            if part.backend == "dnnl"
            for node in part.nodes
        }
        assert not taken & set(gene.nodes)


def test_plans_that_are_the_same_module_have_one_key(found):
    mod, space, _ = found
    parts = space.parts_of(space.seeds()[0])
    host_alone = {"main": [part for part in parts["main"] if part.backend != HOST]}
    assert space.key_of(parts) == space.key_of(host_alone)
    assert tvm.ir.structural_equal(rewrite(mod, parts), rewrite(mod, host_alone))
    tvm_alone = space.parts_of((*([HOST] * len(space.genes)), APART))
    assert space.key_of(tvm_alone) != space.key_of(parts)
    assert space.label_of(tvm_alone) == "tvm" and space.label_of(parts).endswith(" dnnl")


def test_where_one_backend_takes_all_there_is_nothing_to_search():
    space, _ = space_of(parse("def @main(%x: $T) { cos(%x) }"), {HOST: 1, "dnnl": 1})
    assert space.genes == [] and space.seeds() == []


def test_the_pass_tells_who_may_be_wished_for(found):
    _, _, estimator = found
    [replan] = estimator.replans.values()
    plan = plan_again(replan)
    costs = [part["cost"]["seconds"] or 0.0 for part in plan.parts]
    assert plan.seconds == pytest.approx(sum(costs))
    answer = json.loads(str(replan("{}")))
    assert set(answer) == {"takers"}
    assert {name for names in answer["takers"] for name in names} == {"dnnl", HOST}
