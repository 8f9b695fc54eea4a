# SPDX-License-Identifier: Apache-2.0
"""Costs that make the search work: no backend and no size of part is best everywhere.

Test: test_search_ilp.py.
"""

import numpy as np
from tvm.relay.collage import CostEstimator


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
            return ["run_failed", 0.0, "by chance"]
        return ["estimated", float(rng.uniform(0.2, 1.8) * count**0.7) * 1e-6, ""]

    def transition_seconds(self, types, target):
        return [self._transition for _ in types]
