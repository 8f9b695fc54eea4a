# SPDX-License-Identifier: Apache-2.0
"""A fresh interleaved comparison of what was built, every contestant in a process of its own.

The guard chose its winner by its own measurement, so that one flatters the winner: this one decides
what the demo says. Test: demos/test_demo.py.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from demo_checks import FINAL, OUTPUT_TOLERANCE, in_question
from demo_models import DemoModel

# Not our backend of that name.
ONNXRUNTIME = "onnxruntime itself"
TVM_ALONE = "tvm"
# Who is slower than this has told enough after a few rounds.
_GIVE_UP_RATIO = 2.0


def measure_plans(
    model: DemoModel,
    result: Any,
    rounds: int,
    further_seconds: float,
) -> Sequence[Any]:
    """Compare each plan that the guard built, the final one and onnxruntime: rows of compare_plans.

    The final plan *is* one of the others, the same library file, so it is measured as that one
    only: two processes of one library differ by chance alone. It and the best backend alone run
    for up to further_seconds more while it is undecided whether it is fast enough beside that.
    """
    from tvm.relay.collage.measure import Contestant
    from tvm.relay.collage.measure.race.comparison import compare_plans
    from tvm.relay.collage.measure.race.rounds import Further
    from tvm.relay.collage.plans.names import is_single

    built = result.guard.libraries
    equals = {i.name: i.same_as for i in result.guard.comparisons if i.same_as and i.name in built}
    libraries = {name: built[name] for name in built if name not in equals}
    singles = [name for name in built if is_single(name)]
    question = functools.partial(
        in_question,
        ships=equals.get(result.plan, result.plan),
        singles={equals.get(name, name) for name in singles},
    )

    def peers(inputs: str) -> list[Any]:
        if not model.onnx:
            return []
        arguments = {"model": model.onnx, "inputs": inputs}
        return [Contestant(ONNXRUNTIME, "demo_onnx:session_contestant", arguments)]

    found = beside_each_other(
        libraries,
        model.inputs[0],
        rounds,
        peers=peers,
        reference=reference_of(model),
        rtol=OUTPUT_TOLERANCE,
        further=Further(question, further_seconds),
    )
    by_name = {item.name: item for item in found}
    for name, other in equals.items():
        by_name[name] = dataclasses.replace(by_name[other], name=name, same_as=other)
    order = sorted(built, key=lambda name: not is_single(name))  # backends alone come first
    comparisons = [by_name[name] for name in order]
    comparisons.append(dataclasses.replace(by_name[result.plan], name=FINAL))
    if model.onnx:
        comparisons.append(by_name[ONNXRUNTIME])
    return compare_plans(comparisons, singles, FINAL)


def beside_each_other(
    libraries: Mapping[str, Any],
    inputs: Mapping[str, np.ndarray],
    rounds: int,
    peers: Callable[[str], Sequence[Any]] = lambda inputs: (),
    **options: Any,
) -> list[Any]:
    """The comparison of libraries by name, and of what `peers` gives for the file of the inputs,
    each in a process of its own; options are those of measure.compare. Tells how far it is."""
    from tvm.relay.collage.exec.arrays import save_arrays
    from tvm.relay.collage.measure import Contestant, compare
    from tvm.relay.collage.messages.progress import steps

    with (
        tempfile.TemporaryDirectory(prefix="collage-demo-") as folder,
        steps("comparing") as on_step,
    ):
        on_step("opening", 0, rounds)
        file = os.path.join(folder, "inputs.npz")
        save_arrays(file, inputs)
        contestants = []
        for index, (name, library) in enumerate(libraries.items()):
            path = os.path.join(folder, f"plan_{index}.so")
            library.export_library(path)
            contestants.append(Contestant.of_library(name, path, file))
        contestants += peers(file)
        return compare(
            contestants,
            rounds=rounds,
            on_round=lambda done, goal: on_step("measuring", done, goal),
            **{"give_up_ratio": _GIVE_UP_RATIO, **options},
        )


def holds_one(ratio: Any) -> bool:
    """Whether an interval does not tell which of two is the faster."""
    return bool(ratio.low <= 1 <= ratio.high)


def print_beside(
    libraries: Mapping[str, Any], inputs: Mapping[str, np.ndarray], rounds: int
) -> None:
    """Measure libraries of `DemoModel.build`, and print a line for each, beside the first.

    The ratio is the median of the rounds' own, since what slows a round slows all in it: it may
    differ from that of the two medians.
    """
    from tvm.relay.collage.costs.cost import format_seconds
    from tvm.relay.collage.measure.race.comparison import paired_ratio

    first = next(iter(libraries))
    rows = {item.name: item for item in beside_each_other(libraries, inputs, rounds)}
    print(f"  median of a run; how many times as fast as {first}, by runs of the same round:")
    for name, library in libraries.items():
        cost = rows[name].cost
        if not cost.is_usable:
            print(f"  {name:20} {cost.Summary()}")
            continue
        times = paired_ratio(rows[first].samples, rows[name].samples)
        is_open = name != first and times.is_bounded and holds_one(times)
        ratio = times.Summary(".2f", f"x {first}") + (" (undecided)" if is_open else "")
        print(
            f"  {name:20}{format_seconds(cost.seconds):>9}  {ratio}, ships {library.collage.plan}"
        )


def reference_of(model: DemoModel) -> str:
    """Whose outputs are right: onnxruntime's, else those of TVM alone, nothing partitioned."""
    return ONNXRUNTIME if model.onnx else TVM_ALONE


def read_outputs(model: DemoModel, result: Any) -> tuple[str, str]:
    """What the final library answers to each sample, as text, and what the reference does."""
    import demo_onnx

    final = _Executor(result.library)
    if model.onnx:
        reference = lambda inputs: demo_onnx.run_once(model.onnx, inputs)  # noqa: E731
    else:
        reference = _Executor(result.guard.libraries[TVM_ALONE])
    texts = [
        ", ".join(model.read(run(item)) for item in model.inputs) for run in (final, reference)
    ]
    return texts[0], texts[1]


class _Executor:
    """A library of the graph executor as a function of arrays by name."""

    def __init__(self, library: Any) -> None:
        import tvm
        from tvm.contrib.graph_executor import GraphModule

        self._module = GraphModule(library["default"](tvm.cpu()))

    def __call__(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        for name, value in inputs.items():  # not as keywords: an input may be called "key"
            self._module.set_input(name, value)
        self._module.run()
        count = self._module.get_num_outputs()
        return [self._module.get_output(k).numpy() for k in range(count)]
