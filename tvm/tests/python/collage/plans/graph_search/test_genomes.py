# SPDX-License-Identifier: Apache-2.0
"""The search over genomes, on problems small enough to try everything, and on one that is not."""

import itertools
import random

import pytest
from tvm.relay.collage.plans.graph_search.genomes import STRATEGIES, Search


def problem(genes, alleles, seed=0):
    """Choices, and seconds of a genome: of each gene by its allele, and of each border. What is
    cheapest gene by gene is not cheapest together."""
    chance = random.Random(seed)
    names = [chr(ord("a") + k) for k in range(alleles)]
    costs = [{name: chance.uniform(1, 2) for name in names} for _ in range(genes)]

    def seconds(genome):
        borders = sum(left != right for left, right in itertools.pairwise(genome))
        return sum(cost[allele] for cost, allele in zip(costs, genome, strict=True)) + borders / 2

    return [names] * genes, seconds


def run(search, seconds, trials, count=4):
    """Genomes by the order in which they were asked for, with their seconds."""
    tried = {}
    while len(tried) < trials and (genomes := search.ask(min(count, trials - len(tried)))):
        told = {genome: seconds(genome) for genome in genomes}
        assert not told.keys() & tried.keys(), "a genome is asked for once"
        search.tell(told)
        tried |= told
    return tried


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_finds_the_best_of_a_small_problem(strategy):
    choices, seconds = problem(genes=4, alleles=3)
    choices[1] = ["a"]
    every = list(itertools.product(*choices))
    search = Search(choices, [every[5]], strategy, population=4)
    tried = run(search, seconds, trials=1000)
    assert set(tried) <= set(every)
    best = min(every, key=seconds)
    assert search.best(1) == [best]
    assert len(tried) > len(every) // 2, "it goes on while there is something new"


def test_what_is_learned_helps():
    """Of 4 ** 40 genomes 200 are tried: chance stays far from the best, which is known."""
    choices, seconds = problem(genes=40, alleles=4)
    optimum = 56.09477668505899  # by dynamic programming along the chain
    above = {}
    for strategy in STRATEGIES:
        found = [
            min(run(Search(choices, [], strategy, seed=seed), seconds, 200).values())
            for seed in range(5)
        ]
        above[strategy] = sum(found) / len(found) - optimum
    assert 0 < above["evolutionary"] < 0.6 * above["random"]
    assert 0 < above["local"] < 0.6 * above["random"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_seed_and_answers_give_the_same_genomes(strategy):
    choices, seconds = problem(genes=12, alleles=3)
    tried = [list(run(Search(choices, [], strategy, seed=s), seconds, 40)) for s in (3, 3, 4)]
    assert tried[0] == tried[1] != tried[2]


def test_seeds_come_first_and_each_once():
    choices, _ = problem(genes=3, alleles=2)
    seeds = [("a", "a", "a"), ("b", "b", "b"), ("a", "a", "a")]
    search = Search(choices, seeds, "local")
    assert search.ask(1) == seeds[:1]
    asked = search.ask(3)
    assert asked[0] == seeds[1] and len(set(asked)) == 3 and seeds[0] not in asked


def test_evolution_begins_with_some_by_chance():
    choices, _ = problem(genes=30, alleles=3)
    same = ("a",) * 30
    search = Search(choices, [same], "evolutionary", population=8)
    search.tell(dict.fromkeys(search.ask(1), 1.0))
    # One change touches a run of genes.
    assert [g.count("a") < 20 for g in search.ask(5)] == [True, True, False, False, False]


def test_what_failed_has_no_children():
    choices, _ = problem(genes=30, alleles=3)
    good, bad = ("a",) * 30, ("b",) * 30
    search = Search([["a", "b"], *choices[1:]], [bad, good], "evolutionary", population=2)
    search.tell({genome: 1.0 if genome == good else None for genome in search.ask(2)})
    assert search.best(2) == [good]
    # One change touches a run of genes, and the genes of the one that failed are in none of them.
    assert all(child.count("a") > 10 for child in search.ask(20))


def test_a_single_genome_ends_the_search():
    search = Search([["a"]], [], "evolutionary")
    assert search.ask(5) == [("a",)] and search.ask(5) == []


@pytest.mark.parametrize(
    "seeds, strategy, message",
    [
        ([("c",)], "local", r"a seed that is no genome: \('c',\)"),
        ([("a", "a")], "local", "a seed that is no genome"),
        ([], "grid", "strategy 'grid' is none of evolutionary, local, random"),
    ],
)
def test_what_is_no_search_is_refused(seeds, strategy, message):
    with pytest.raises(ValueError, match=message):
        Search([["a", "b"]], seeds, strategy)
