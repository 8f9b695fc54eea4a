#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is a network's time the sum of its plan's costs? The gap, and where it comes from.

    python bench/additivity.py                                  # it goes on where it stopped
    python bench/additivity.py --nets ppocr_rec --backends dnnl,openvino
    python bench/additivity.py --write-docs                     # the tables of docs/additivity.md

For each plan of a net (the op-level optimum, TVM alone, each backend on all that it can take) the
network is built as it ships and every part as it is measured. Both run in processes of their own,
in turn; `ratio` is the network's time over the sum, with the 95 % interval of paired rounds, and
`one after the other` that over the sum of parts each of which runs again and again on one copy of
its weights. See
docs/additivity.md, which says what the rows of the gap are. Test: bench/test_additivity.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import additivity_child as child
import models
import numpy as np
import tvm
from additivity_account import ROWS, Chain, Launch, Part, account
from additivity_plans import Plan, find_plans
from architectures.trial import PEERS
from harness import arguments, records
from harness.resume import Book, Job, run
from harness.tables import interval_text, markdown_table, milliseconds, text_table
from tvm import relay
from tvm.relay.collage import CollageOptions
from tvm.relay.collage.backends.registry import has_own_threads
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.candidate.inputs import describe_inputs
from tvm.relay.collage.compile import build_library, host_target, prepare
from tvm.relay.collage.costs.kernel import for_candidates
from tvm.relay.collage.costs.statistics import ratio_interval
from tvm.relay.collage.errors import CollageError
from tvm.relay.collage.estimators.kernel_choice import choose_kernels
from tvm.relay.collage.estimators.session import open_session
from tvm.relay.collage.estimators.transitions import transition_candidates
from tvm.relay.collage.measure import CandidateModule, WorkerProcess
from tvm.relay.collage.measure.builder import build_module
from tvm.relay.collage.measure.options import MeasureOptions
from tvm.relay.collage.measure.profiler.compiled_kernels import Kernel, kernels_of
from tvm.relay.collage.measure.profiler.in_network import Place
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.relay_util.external import TVM_BACKEND
from tvm.relay.collage.report.kernels import match_kernels
from tvm_collage.threads import default_threads

NETS = "resnet50,mobilenetv2,bert,ppocr_rec"
KEY = ["net", "backends", "asked", "costs", "clock"]
SETTINGS = ["rounds", "seed"]
COUNTED = [*SETTINGS, "threads", "versions", "machine", "variables"]
_FAULTS = (FileNotFoundError, RuntimeError, CollageError)
# What is aimed at: a network's time beside the sum, at most so much more or less.
NEAR = 0.05
_CHAIN = 33
_REQUEST_SECONDS = 1200.0


class Timing:
    """One plan's libraries, built and open in two processes: the network, and what its sum is of.

    network, kernels: the kernels of the network, and of each of the distinct parts and moves (the
    transitions), which come with the number of times that they occur.
    """

    def __init__(self, plan: Plan, host: Any, folder: str, seed: int, clock: str) -> None:
        self._files = 0
        self._folder, self._seed, self._clock = folder, seed, clock
        builder = MeasureOptions().builder
        library = build_library(plan.module, host)
        self.network = kernels_of(library)
        opened = [[self._saved(library, plan.module)], []]
        self.parts = _counted(plan.parts)
        self.moves = _counted(transition_candidates(plan.transitions, host))
        self.kernels: list[list[Kernel]] = []
        for candidate, _ in (*self.parts, *self.moves):
            mod = candidate.instantiate(seed)
            library = build_module(mod, candidate, builder)
            self.kernels.append(kernels_of(library))
            own_threads = has_own_threads(candidate.backend)
            sizes = candidate.weight_bytes, candidate.inner_bytes, plan.network_bytes
            place = Place(*sizes, own_threads)._asdict()
            has_borders = candidate.backend == TVM_BACKEND
            opened[1].append(self._saved(library, mod, has_borders=has_borders, place=place))
        for length in (1, _CHAIN):
            mod = _chain(length)
            opened[1].append(self._saved(build_library(mod, host), mod))
        self._workers = [WorkerProcess(), WorkerProcess()]
        for worker, libraries in zip(self._workers, opened, strict=True):
            self._call(worker, child.open_libraries, libraries=libraries)

    def round(self, order: random.Random) -> dict[str, Any]:
        """All timings once; the processes in random order, one asleep while the other runs."""
        found: dict[str, Any] = {}
        sides = [
            (0, "network", child.time_libraries),
            (1, "parts", child.time_libraries),
            (0, "in_place", child.time_kernels_in_place),
            (1, "alone", child.time_kernels_alone),
        ]
        order.shuffle(sides)
        for worker, key, function in sides:
            found[key] = self._call(self._workers[worker], function)
        return found

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()

    def _saved(self, library: Any, mod: tvm.IRModule, **of_a_part: Any) -> dict[str, Any]:
        self._files += 1
        file = str(Path(self._folder) / f"{self._files}.so")
        library.export_library(file)
        inputs = describe_inputs(relay.transform.InferType()(mod))
        common = {"seed": self._seed, "clock": self._clock}
        return {"file": file, "inputs": inputs, **common, **of_a_part}

    @staticmethod
    def _call(worker: WorkerProcess, function: Any, **arguments: Any) -> Any:
        name = f"{function.__module__}:{function.__name__}"
        request = {"function": name, "arguments": arguments}
        reply = worker.call("call", request, _REQUEST_SECONDS)
        if reply.outcome != "ok":
            raise RuntimeError(f"{name}: {reply.outcome}: {reply.message}")
        return reply.value


def _chain(length: int) -> tvm.IRModule:
    """Kernels of one element, one after the other."""
    value = data = relay.var("x", shape=(1,))
    for _ in range(length):
        value = relay.annotation.stop_fusion(relay.add(value, relay.const(1.0)))
    return tvm.IRModule.from_expr(relay.Function([data], relay.negative(value)))


def measure(plan: Plan, host: Any, rounds: int, seed: int, clock: str) -> dict[str, Any]:
    """The plan's account as JSON values; times in seconds."""
    with tempfile.TemporaryDirectory(prefix="additivity-") as folder:
        timing = Timing(plan, host, folder, seed, clock)
        try:
            order = random.Random(seed)
            return evaluate(plan, timing, [timing.round(order) for _ in range(rounds)])
        finally:
            timing.close()


def evaluate(plan: Plan, timing: Timing, taken: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over rounds, put into an account; the ratio from each round's own figures."""
    num_parts = len(timing.parts)
    counts = [count for _, count in (*timing.parts, *timing.moves)]
    # Of the libraries beside the network: parts, moves, two chains.
    seconds, repeated = np.moveaxis([item["parts"] for item in taken], 2, 0)
    alone = [_medians([r["alone"][k]["kernels"] for r in taken]) for k in range(seconds.shape[1])]
    shares = np.median([[row["border_share"] for row in item["alone"]] for item in taken], axis=0)
    shares[num_parts:] = 0.0
    in_place = _medians([item["in_place"] for item in taken])
    medians = np.median(seconds, axis=0).tolist()
    parts = [
        Part(count, value, value * share, len(kernels))
        for count, value, share, kernels in zip(
            counts[:num_parts], medians, shares.tolist(), timing.kernels, strict=False
        )
    ]
    charged = len(counts)
    of_round, of_repeated = (
        (each[:, :charged] * (1 - shares[:charged]) @ counts).tolist()
        for each in (seconds, repeated)
    )
    moved = sum(a * b for a, b in zip(counts[num_parts:], medians[num_parts:], strict=False))
    chains = [Chain(medians[k], list(alone[k].values())) for k in (-2, -1)]
    launch = Launch.of_chains(*chains)
    own_kernels = timing.kernels[:num_parts]
    place = {id(kernel): i for i, kernels in enumerate(own_kernels) for kernel in kernels}
    comparison = match_kernels(
        timing.network,
        [
            kernel
            for (_, count), kernels in zip(timing.parts, own_kernels, strict=True)
            for _ in range(count)
            for kernel in kernels
        ],
    )
    # As measuring does, the part's run is split in the proportion of its kernels by themselves.
    stretch = [
        max(0.0, part.seconds - launch.of(part.num_kernels)) / (sum(times.values()) or 1.0)
        for part, times in zip(parts, alone, strict=False)
    ]

    def in_network(kernel: Kernel) -> float:
        return in_place[kernel.node]

    def by_itself(kernel: Kernel) -> float:
        part = place[id(kernel)]
        return alone[part][kernel.node] * stretch[part]

    networks = [item["network"][0][0] for item in taken]
    network = statistics.median(networks)
    found = account(network, parts, moved, comparison, in_network, by_itself, launch)
    changes = [(in_network(a) - by_itself(b), a.Summary()) for a, b in comparison.same] + [
        (sum(map(in_network, d.network)) - sum(map(by_itself, d.alone)), d.Summary())
        for d in comparison.differences
    ]
    changes.sort(key=lambda row: -abs(row[0]))
    return {
        "plan": plan.name,
        "num_parts": sum(counts[:num_parts]),
        "by_backend": _parts_by_backend(timing.parts),
        "distinct": num_parts,
        "ratio": list(ratio_interval(networks, of_round).to_json().values()),
        "repeated": list(ratio_interval(networks, of_repeated).to_json().values()),
        **dataclasses.asdict(found),
        "sum": found.total,
        "gap": found.gap,
        "kernels": {"same": len(comparison.same), **comparison.counts()},
        "unexplained": [item.Summary() for item in comparison.unexplained()],
        "launch": dataclasses.asdict(launch),
        "largest": changes[:12],
    }


def _counted(candidates: Sequence[CandidateModule]) -> list[tuple[CandidateModule, int]]:
    """Those that differ, and how often each occurs."""
    counts = Counter(candidate.key() for candidate in candidates)
    distinct = {candidate.key(): candidate for candidate in candidates}
    return [(candidate, counts[key]) for key, candidate in distinct.items()]


def _parts_by_backend(parts: Sequence[tuple[CandidateModule, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for candidate, count in parts:
        found[candidate.backend] += count
    return dict(found)


def _medians(rows: list[list]) -> dict[int, float]:
    """Medians by node of rows of (node, seconds), one a round."""
    by_node: dict[int, list[float]] = {}
    for row in rows:
        for node, seconds in row:
            by_node.setdefault(node, []).append(seconds)
    return {node: statistics.median(values) for node, values in by_node.items()}


HEAD = ["net", "plan", "parts", "sum ms", "network", "ratio", "one after the other", *ROWS]


def lines_of(found: Mapping[str, Any]) -> list[list[str]]:
    """One a plan: milliseconds, the ratio, and each row of the gap in % of the sum."""
    lines = []
    for item in found["plans"]:
        names = [found["net"], item["plan"], _parts_text(item)]
        times = [milliseconds(item[name]) for name in ("sum", "network")]
        shares = [f"{100 * item['rows'][row] / item['sum']:+.1f}%" for row in ROWS]
        ratios = [interval_text(item[name]) for name in ("ratio", "repeated")]
        lines.append([*names, *times, *ratios, *shares])
    return lines


def _parts_text(item: Mapping[str, Any]) -> str:
    """ "3: dnnl 2, tvm 1"; the oldest records say only how many."""
    by_backend = item.get("by_backend", {})
    each = ", ".join(f"{name} {by_backend[name]}" for name in sorted(by_backend))
    return f"{item['num_parts']}: {each}" if each else str(item["num_parts"])


def summary(found: Mapping[str, Any]) -> str:
    """A net's table for who waits."""
    return "\n" + text_table(HEAD, lines_of(found))


def tables(found: Sequence[Mapping[str, Any]]) -> str:
    """The page's part."""
    every = [plan for each in found for plan in each["plans"]]
    mixes = [plan for plan in every if len(plan.get("by_backend", {})) > 1]
    near = [
        f"{sum(_is_near(p['ratio'][:1]) for p in plans)} of {len(plans)} {what} "
        f"(for {sum(_is_near(p['ratio']) for p in plans)} with all of the interval)"
        for what, plans in (("plans", every), ("plans of several backends", mixes))
    ]
    lines = [
        [line[0], each["backends"], each["costs"], str(each["conditions"]["rounds"]), *line[1:]]
        for each in found
        for line in lines_of(each)
    ]
    return (
        markdown_table([HEAD[0], "backends", "costs", "rounds", *HEAD[1:]], lines)
        + f"\nA network's time is within {100 * NEAR:g} % of the sum for {' and '.join(near)}. "
        + f"{records.origin(found)}.\n"
    )


def _is_near(ratios: Sequence[float]) -> bool:
    return all(abs(ratio - 1) <= NEAR for ratio in ratios)


def main(given: list[str] | None = None) -> int:
    options = parse(given)
    if options.write_docs:
        return Book(options.record, KEY).write_page(options.docs, tables)
    settings = {name: getattr(options, name) for name in SETTINGS}
    settings |= {"commit": records.commit(), "variables": records.thread_variables()}
    settings["threads"] = default_threads()
    book = Book(options.record, KEY, records.conditions(settings, PEERS), COUNTED)
    targets = parse_targets([host_target(), *options.backends])
    jobs = [job_of(net, targets, options) for net in options.nets]
    found = run(jobs, book, summary, budget=options.budget, keep=options.keep, left_out=_FAULTS)
    return int(len(found) < len(jobs))


def job_of(net: models.Net, targets: Any, options: argparse.Namespace) -> Job:
    key = {
        "net": net.name,
        "backends": ", ".join(options.backends),
        "asked": options.plans or "all",
        "costs": "measured" if options.made_up is None else f"made up by seed {options.made_up}",
        "clock": options.clock,
    }

    def measure_net() -> dict[str, Any]:
        return {"plans": list(run_net(*models.to_relay(net.build(1)), targets, options))}

    return Job(f"{net.name} with {key['backends']}", key, measure_net)


def run_net(mod: Any, params: Any, targets: Any, options: Any) -> Iterator[dict[str, Any]]:
    """All plans of one net, searched and measured."""
    prepared = prepare(mod, params, targets.host, opt_level=3)
    config = {"relay.collage.store": options.store, "relay.collage.seed": options.seed}
    with (
        tvm.transform.PassContext(opt_level=3, config=config),
        open_session(CollageOptions.current(), targets.external, prepared) as session,
    ):
        if options.made_up is None:  # what ships runs by kernels that were chosen
            kernels = choose_kernels(session, Plans(prepared, targets).parts_with_kernels())
            session = dataclasses.replace(session, kernels=for_candidates(kernels))
        names = arguments.listed(options.plans)
        for plan in find_plans(prepared, targets, names, options.made_up, session):
            yield measure(plan, targets.host, options.rounds, options.seed, options.clock)


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.make_parser(
        __doc__,
        nets=NETS,
        backends="dnnl",
        record=arguments.ROOT / "docs/additivity.jsonl",
        docs=arguments.ROOT / "docs/additivity.md",
        **arguments.RESUMED,
    )
    add = parser.add_argument
    add("--plans", default="", help="default: all of collage, tvm, and each backend")
    # An interval needs two rounds.
    add("--rounds", type=arguments.at_least(2), default=15)
    add(
        "--clock",
        choices=child.CLOCKS,
        default="wall",
        help="cpu: processor time, for a busy machine, needs TVM_NUM_THREADS=1",
    )
    add("--seed", type=int, default=0)
    add(
        "--made-up",
        type=int,
        metavar="SEED",
        help="plans by random costs instead of measured ones: any plan must add up",
    )
    add("--store", default="none", help="costs of the search (docs/store.md)")
    options = parser.parse_args(given)
    if options.clock == "cpu" and os.environ.get("TVM_NUM_THREADS") != "1":
        parser.error("--clock cpu counts all threads: set TVM_NUM_THREADS=1")
    return options


if __name__ == "__main__":
    sys.exit(main())
