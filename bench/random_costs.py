# SPDX-License-Identifier: Apache-2.0
"""Costs that make the search work: no backend and no size of part is best everywhere; and costs
that are only told when they are asked for, as measured ones are.

Test: search/test_ilp.py.
"""

import numpy as np
from tvm.relay.collage import AnalyticCostEstimator, CostEstimator, Machine
from tvm.relay.collage.measure import Cost


class RandomCosts(CostEstimator):
    """Costs by signature and seed: fewer calls cost less, roughly; some candidates fail.

    Transitions cost `transition` seconds each for any type, 0 means free.
    """

    def __init__(self, seed, fails=0.0, transition=0.0):
        self.has_transitions = transition > 0
        super().__init__()
        self._seed, self._fails, self._transition = seed, fails, transition

    def price_batch(self, signatures, works, targets):
        return [
            self._one(signature, work.num_calls, target)
            for signature, work, target in zip(signatures, works, targets, strict=True)
        ]

    def _one(self, signature, count, target):
        rng = np.random.default_rng([self._seed, int(signature, 16)])
        if target.kind.name != "llvm" and rng.uniform() < self._fails:
            return Cost.failed("run_failed", "by chance")
        return Cost.estimated(float(rng.uniform(0.2, 1.8) * count**0.7) * 1e-6)

    def transition_seconds(self, types, target):
        return [self._transition for _ in types]


class AskedCosts(AnalyticCostEstimator):
    """Costs that a machine might measure, and only of what is asked for: a start, and the roofline
    at 30 to 100 % of its peaks, by chance. Regions of oneDNN are the fastest by far, as in real
    nets."""

    price_batch = None

    def __init__(self):
        machine = Machine(gflops=200.0, gigabytes_per_second=100.0, launch_seconds=1.5e-6)
        super().__init__(machine, {"dnnl": machine._replace(gflops=300.0)})

    def _cost(self, work, target):
        rng = np.random.default_rng([int(work.operations), int(work.bytes), work.num_calls])
        machine = self._machine_of(target)
        seconds = machine.seconds(work) - machine.launch_seconds
        return Cost.estimated(machine.launch_seconds + seconds / rng.uniform(0.3, 1.0))


class BoundedCosts(AskedCosts):
    """The same costs, and what none of them is below: a start, and certain arithmetic at the peak,
    as measured peaks would tell it."""

    def least_seconds(self, works, targets, host):
        return [
            self._machine_of(target).seconds(work) if work.num_calls else 0.0
            for work, target in zip(works, targets, strict=True)
        ]
