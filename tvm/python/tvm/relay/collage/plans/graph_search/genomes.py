# SPDX-License-Identifier: Apache-2.0
"""The search over genomes: who is tried next, given how those before did; it measures nothing.

A genome has one allele a gene, out of that gene's choices. Whoever searches asks for some, finds
out how each does, and tells:

    search = Search(choices, seeds, "evolutionary", population=8, seed=0)
    while genomes := search.ask(8):
        search.tell({genome: seconds_of(genome) for genome in genomes})

| strategy     | a new genome is                                                        |
|---|---|
| evolutionary | a child of two of the best `population`, each the best of two by chance |
| local        | the best so far, changed                                                |
| random       | made of runs of genes, each run with one allele by chance               |

The first population of an evolution has some made by chance. Genes are in the order of execution,
and what pays is a run of neighbours on one backend: so parents are crossed between two cuts, and a
change gives one allele to a run of genes (those that do not have the allele keep theirs). The same
arguments and answers give the same genomes.
Test: plans/graph_search/test_genomes.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence

Genome = tuple[str, ...]

STRATEGIES = ("evolutionary", "local", "random")
# So many times in a row nothing new: all that is left is out of reach, or everything was tried.
_TRIES = 200
# Of so many of the first population one is made by chance: seeds alone are too much alike.
_POPULATION_OF_ONE_BY_CHANCE = 4
# Mean length of a run of genes.
_MEAN_RUN = 3.0


class Search:
    """One search; the seeds are asked for first, then what the strategy makes."""

    def __init__(
        self,
        choices: Sequence[Sequence[str]],
        seeds: Iterable[Genome],
        strategy: str,
        *,
        population: int = 8,
        seed: int = 0,
    ) -> None:
        if strategy not in STRATEGIES:
            raise ValueError(f"strategy {strategy!r} is none of {', '.join(STRATEGIES)}")
        self._choices = [tuple(alleles) for alleles in choices]
        self._seeds = list(dict.fromkeys(seeds))
        for genome in self._seeds:
            if len(genome) != len(self._choices) or not all(map(_is_in, genome, self._choices)):
                raise ValueError(f"a seed that is no genome: {genome}")
        self._make: Callable[[], Genome] = getattr(self, f"_{strategy}")
        self._population = population
        self._first = len(self._seeds) + population // _POPULATION_OF_ONE_BY_CHANCE
        self._chance = random.Random(seed)
        self._asked: set[Genome] = set()
        self._seconds: dict[Genome, float] = {}

    def ask(self, count: int) -> list[Genome]:
        """Up to `count` genomes that were not asked for before; none when there are no more."""
        found = [genome for genome in self._seeds if genome not in self._asked][:count]
        self._asked.update(found)
        for _ in range(_TRIES):
            if len(found) == count:
                break
            for _ in range(count - len(found)):
                genome = self._make()
                if genome not in self._asked:
                    self._asked.add(genome)
                    found.append(genome)
        return found

    def tell(self, seconds: Mapping[Genome, float | None]) -> None:
        """Learn how genomes did; None for one that failed, which then has no children."""
        self._seconds.update({g: value for g, value in seconds.items() if value is not None})

    def best(self, count: int) -> list[Genome]:
        """Return the best genomes that were told of, the best first."""
        return sorted(self._seconds, key=lambda genome: self._seconds[genome])[:count]

    def _random(self) -> Genome:
        genome: list[str] = []
        for alleles in self._choices:
            is_new_run = not genome or self._chance.random() < 1 / _MEAN_RUN
            goes_on = not is_new_run and genome[-1] in alleles
            genome.append(genome[-1] if goes_on else self._chance.choice(alleles))
        return tuple(genome)

    def _local(self) -> Genome:
        best = self.best(1)
        return self._changed(best[0]) if best else self._random()

    def _evolutionary(self) -> Genome:
        parents = self.best(self._population)
        if len(self._asked) < self._first or not parents:
            return self._random()
        mother, father = self._picked(parents), self._picked(parents)
        first, last = sorted(self._chance.randrange(len(mother) + 1) for _ in range(2))
        return self._changed((*mother[:first], *father[first:last], *mother[last:]))

    def _picked(self, parents: Sequence[Genome]) -> Genome:
        """Pick the better of two; parents are the best first."""
        return parents[min(self._chance.randrange(len(parents)) for _ in range(2))]

    def _changed(self, genome: Genome) -> Genome:
        """Change one allele, which is given to a run of genes."""
        first = self._chance.randrange(len(genome))
        allele = self._chance.choice(self._choices[first])
        run = range(first, min(first + self._run(), len(genome)))
        return tuple(
            allele if k in run and allele in self._choices[k] else old
            for k, old in enumerate(genome)
        )

    def _run(self) -> int:
        length = 1
        while self._chance.random() > 1 / _MEAN_RUN:
            length += 1
        return length


def _is_in(allele: str, alleles: Sequence[str]) -> bool:
    return allele in alleles
