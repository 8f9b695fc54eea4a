# SPDX-License-Identifier: Apache-2.0
"""Where the parts of a graph run: on one backend, op by op or in regions, or by random costs.

Nothing is measured. Test: backends/test_fuzz.py.
"""

import dataclasses

import numpy as np
import tvm
from relay_text import plain_host
from tvm.contrib import graph_executor
from tvm.relay.collage import CostEstimator
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.compile.library import build_library
from tvm.relay.collage.measure import Cost
from tvm.relay.collage.plans.greedy import greedy_partition
from tvm.relay.collage.plans.run_pass import partition

from .graph import Graph
from .values import worst

# Ops of a composite at most: what a backend runs as one kernel (the longest GELU and its product).
_KERNEL = 9


@dataclasses.dataclass(frozen=True)
class Variant:
    """A way to place a graph. targets: none for TVM alone, several for random costs; most_calls:
    the operators of a part, None for as many as can be joined."""

    name: str
    targets: tuple[str, ...] = ()
    most_calls: int | None = None

    @property
    def may_mix(self) -> bool:
        """Whether convolutions may run by Winograd's algorithm."""
        return any("dnnl" in target and "never" not in target for target in self.targets)


ALONE = Variant("tvm")
REGISTERED = {
    "dnnl": ("dnnl -winograd=never", "dnnl -winograd=always", "xnnpack"),
    "onnx": ("onnxruntime", "openvino"),
    "blas": ("cblas", "mkl"),
    "qnn": ("dnnl",),
    "narrow": ("dnnl",),
    "empty": ("dnnl", "cblas", "onnxruntime"),
}


def own_variants(target: str) -> list[Variant]:
    """The ways to place all that one backend takes."""
    sizes = {"op": 1, "kernels": _KERNEL, "regions": None}
    return [Variant(f"{target} {name}", (target,), size) for name, size in sizes.items()]


def variants_of(profile: str, available: set[str]) -> list[Variant]:
    """The ways to place a graph of the profile, on backends that are available."""
    found = []
    for target in REGISTERED[profile]:
        if target.split()[0] in available:
            found += own_variants(target)
    names = ["dnnl -winograd=always", "cblas", "mkl", "onnxruntime", "openvino", "xnnpack"]
    mixed = tuple(name for name in names if name.split()[0] in available)
    return [*found, Variant("random costs", mixed)] if len(mixed) > 1 else found


class RandomCosts(CostEstimator):
    """By signature and seed; TVM is dear, so that most calls are placed on a backend."""

    has_transitions = False

    def __init__(self, seed: int):
        super().__init__()
        rng = np.random.default_rng(seed)
        self._seed, self._power = seed, rng.choice([0.3, 0.7, 1.0])

    def price_batch(self, signatures, works, targets):
        return [
            self._price(signature, work.num_calls, target)
            for signature, work, target in zip(signatures, works, targets, strict=True)
        ]

    def _price(self, signature, count, target):
        rng = np.random.default_rng([self._seed, int(signature, 16)])
        factor = 4.0 if target.kind.name == "llvm" else 1.0
        return Cost.estimated(factor * rng.uniform(0.2, 1.8) * count**self._power * 1e-6)


def placed(mod: tvm.IRModule, variant: Variant, seed: int) -> tvm.IRModule:
    """The typed module with its parts where the variant has them."""
    host = plain_host()
    with tvm.transform.PassContext(opt_level=3):
        prepared = prepare(mod, None, host)
        if not variant.targets:
            return prepared
        if len(variant.targets) == 1:
            target = tvm.target.Target(variant.targets[0])
            return greedy_partition(prepared, target.kind.name, variant.most_calls, target)
        targets = parse_targets([host, *map(tvm.target.Target, variant.targets)])
        return partition(prepared, targets, RandomCosts(seed))


def outputs_of(mod: tvm.IRModule, inputs: dict[str, np.ndarray]) -> list[list[np.ndarray]]:
    """Outputs of the placed module's first run, and of one after a run on nothing but NaN: what is
    left of that must not come back."""
    library = build_library(mod, plain_host())
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))

    def run(arrays):
        for name, array in arrays.items():
            module.set_input(name, array)
        module.run()
        return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]

    first = run(inputs)
    run({k: v * np.nan if v.dtype.kind == "f" else v for k, v in inputs.items()})
    return [first, run(inputs)]


def wrong_outputs(graph: Graph, variant: Variant, seed: int) -> list[tuple[int, float, str]]:
    """(output's node, times its bound, text) of each output that is wrong."""
    runs = outputs_of(placed(graph.module(), variant, seed), graph.inputs())
    wanted = graph.wanted(variant.may_mix)
    found = {}
    for number, outputs in enumerate(runs):
        for index, got in zip(graph.outputs, outputs, strict=True):
            ratio, text = worst(got, wanted[index])
            if ratio and index not in found:
                found[index] = (index, ratio, f"run {number + 1}: {text}")
    return list(found.values())
