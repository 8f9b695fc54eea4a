# SPDX-License-Identifier: Apache-2.0
"""Plans, their libraries and a comparison of them that need no process, for tests of the guard."""

import os

import numpy as np
import pytest
from relay_text import parse
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.measure.race.comparison import paired_ratio
from tvm.relay.collage.plans.graph_search import libraries

ORDER = ["tvm", "dnnl", "collage"]


def ran(name, ratio, reference="tvm"):
    """A plan that is so many times slower than the best, in each round or in turns."""
    ratios = ratio if isinstance(ratio, tuple) else (ratio,)
    samples = tuple(1e-3 * ratios[k % len(ratios)] for k in range(30))
    ratio = paired_ratio(samples, [1e-3] * 30)
    return Comparison(name, Cost.measured(samples), ratio, 0.0, samples, reference)


def failed(name, status="crashed", message="signal 11"):
    return Comparison(name, Cost.failed(status, message))


class FakeLibrary:
    def export_library(self, path):
        with open(path, "w") as file:
            file.write("library")


def fake(module):
    return FakeLibrary()


def plans():
    mod = parse("def @main(%x: $T, %i: Tensor[(3), int32]) { (nn.relu(%x), %i) }")
    return {name: mod for name in ORDER}


@pytest.fixture
def fake_compare(monkeypatch):
    """Puts a comparison without processes in place; returns what it was asked."""
    asked = {}

    def compare(contestants, right, options):
        inputs = np.load(contestants[0].arguments["inputs"])
        asked.update(
            names=[contestant.name for contestant in contestants],
            reference=right.references,
            rounds=options.rounds,
            seed=options.seed,
            mod_name=contestants[0].arguments["mod_name"],
            sets=contestants[0].arguments.get("sets", 0),
            tolerance=right.rtol,
            exact=right.exact,
            options=options,
            inputs={name: inputs[name] for name in inputs.files},
            files=[os.path.exists(item.arguments["library"]) for item in contestants],
        )
        if right.truth:
            with np.load(right.truth) as arrays:
                asked["right"] = [arrays[name].tolist() for name in arrays.files]
        options.on_wait("waiting for another search")
        for done in (0, options.rounds):
            options.on_round(done, options.rounds)
        fail = asked.get("fail", [])
        runs = [item.name for item in contestants if item.name not in fail]
        used = asked.get("truth", runs[0] if runs else None)
        rows = [ran(n, 1 + k, reference=used) for k, n in enumerate(runs)]
        return [*rows, *(failed(name, asked.get("status", "crashed")) for name in fail)]

    monkeypatch.setattr(libraries, "compared", compare)
    return asked
