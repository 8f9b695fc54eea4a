#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does each build of a net ship as fast a plan? The same search again and again from one store of
costs, and then what was shipped beside each other and beside each backend alone.

    python bench/stability.py --nets bert,mobilenetv2 --builds 10
    python bench/stability.py --nets resnet50 --builds 3 --neighbour

A first build fills the store and does not count. With `--neighbour` a thread of another process
computes while the builds that count measure; what they shipped is compared on the machine alone.
Printed: each plan that shipped, how often, and its time over that of the fastest that shipped and
of the fastest backend alone, with 95 % intervals. Ends with 1 if one is surely more than 2 % slower
than either; the guard's own rounds have told it otherwise then. Test: bench/test_stability.py.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import models
import tvm
from collaging.judge import of_rounds
from harness import arguments
from harness.neighbour import busy
from harness.records import machine_line
from harness.sides import Files, PlanNames, files_of, print_each, ratio_of, usable_by_name
from harness.tables import interval_text, text_table
from tvm.relay import collage
from tvm.relay.collage.costs.statistics import fewest_samples
from tvm.relay.collage.errors import CollageError
from tvm.relay.collage.measure import Comparison, Contestant, compare
from tvm.relay.collage.report import is_single

# How much slower than another a plan may be by the guard's rule (docs/choosing.md).
MOST = 1.02
LEAST_ROUNDS = 2 * fewest_samples()
# Who is slower than this has no further rounds: it is not the fastest.
_GIVE_UP_RATIO = 2.0


def main(given: list[str] | None = None) -> int:
    options = parse(given)
    print(machine_line(options.threads), flush=True)
    unstable: list[str] = []
    status = print_each(
        options.nets,
        lambda net: net.name,
        lambda net: measure(net, options, unstable),
        (FileNotFoundError, RuntimeError, CollageError),
    )
    for line in unstable:
        print(line, file=sys.stderr)
    return 1 if unstable else status


def measure(net: models.Net, options: argparse.Namespace, unstable: list[str]) -> Iterator[str]:
    """A net's lines; those for plans that are too slow go into `unstable`, too."""
    with files_of(net, options.threads, options.batch) as files:
        os.environ.update(files.environment)  # which workers and plans inherit
        builds = Builds(files)
        for build in range(options.builds + 1):
            is_counted = build > 0
            with busy() if is_counted and options.neighbour else contextlib.nullcontext():
                shipped = builds.build(options, is_counted)
            yield f"{net.name}, {f'build {build}' if is_counted else 'first build'}: {shipped}"
        found = compare(
            list(builds.contestants.values()),
            next(iter(builds.shipped)),
            options.rounds,
            1e-3,
            give_up_ratio=_GIVE_UP_RATIO,
        )
        lines, slow = judge(found, builds.shipped, builds.singles)
        yield lines
        unstable += [f"{net.name}: {line}" for line in slow]


class Builds:
    """What builds of one net ship, by name, and each backend alone, as libraries.

    shipped: how often each plan did. singles: the backends alone. A backend alone is the same plan
    in each build, since all find their kernels' times in one store.
    """

    def __init__(self, files: Files) -> None:
        self.shipped: Counter[str] = Counter()
        self.singles: list[str] = []
        self.contestants: dict[str, Contestant] = {}
        self._files = files
        self._mod, self._params = models.to_relay(files.model)
        self._mixes = PlanNames()

    def build(self, options: argparse.Namespace, is_counted: bool) -> str:
        """The name of what this build ships. RuntimeError where its guard measured nothing."""
        targets = [collage.host_target(), *map(tvm.target.Target, options.backends)]
        settings = {"store": str(self._files.folder / "costs.sqlite"), "progress": "quiet"}
        settings |= dict(options.collage)
        with tvm.transform.PassContext(opt_level=3):
            result = collage.optimize(
                self._mod, self._params, targets, collage.CollageOptions(**settings)
            )
        if result.guard is None:
            raise RuntimeError(f"no plan was measured whole: {result.guard_skipped}")
        if not is_counted:
            return result.plan
        name = result.plan
        if not is_single(name):
            name = self._mixes.name(name, result.mod)  # whatever the guard called it
        self._add(name, result.guard.libraries[result.plan])
        self.shipped[name] += 1
        for item in result.guard.comparisons:
            if is_single(item.name) and item.cost.is_usable and not item.same_as:
                self._add(item.name, result.guard.libraries[item.name])
                self.singles += [item.name] * (item.name not in self.singles)
        return name

    def _add(self, name: str, library: Any) -> None:
        if name not in self.contestants:
            file = str(self._files.folder / f"plan_{len(self.contestants)}.so")
            library.export_library(file)
            self.contestants[name] = Contestant.of_library(
                name, file, self._files.inputs, environment=self._files.environment
            )


def judge(
    found: Sequence[Comparison], shipped: Mapping[str, int], singles: Sequence[str]
) -> tuple[str, list[str]]:
    """A table of the plans that shipped, and a line for each that is too slow. RuntimeError for one
    that failed. Every other round says which is the fastest, the rounds between how much faster."""
    whole = usable_by_name(found, list(shipped))
    decide, told = of_rounds(found, 0), usable_by_name(of_rounds(found, 1), list(shipped))
    bases = {
        what: next((i.name for i in decide if i.name in names and i.cost.is_usable), None)
        for what, names in (("shipped plan", shipped), ("backend alone", singles))
    }
    rows, slow = [], []
    for name, count in shipped.items():
        row = [name, str(count), f"{1e3 * told[name].cost.seconds:.3f}"]
        for what, base in bases.items():
            left = len(whole[name].samples) < max(len(item.samples) for item in found)
            pair = (
                whole if left else told
            )  # who left as far slower has few rounds, all of which count
            ratio = ratio_of(pair[name], pair.get(base or ""))
            row.append("itself" if name == base else f"{interval_text(ratio, '.3f')} ({base})")
            if ratio and ratio[1] and ratio[1] > MOST:
                slow.append(
                    f"{name} takes {interval_text(ratio, '.3f')} times as long as {base}, the "
                    f"fastest {what}"
                )
        rows.append(row)
    head = ["plan", "builds", "median ms", *(f"over the fastest {what}" for what in bases)]
    return text_table(head, rows), slow


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.make_parser(
        __doc__,
        nets="bert,mobilenetv2",
        threads=None,
        batch=1,
        rounds=60,
        backends="dnnl,cblas,onnxruntime,openvino",
        collage=[],
    )
    at_least = arguments.at_least
    parser.add_argument("--builds", type=at_least(1), default=10, help="that count")
    parser.add_argument("--neighbour", action="store_true", help="builds measure beside one")
    options = parser.parse_args(given)
    if options.rounds < LEAST_ROUNDS:
        parser.error(
            f"--rounds must be at least {LEAST_ROUNDS}: half of them choose, and fewer than "
            f"{fewest_samples()} bound no ratio"
        )
    for name, _ in options.collage:
        if name in ("store", "retry_failed"):
            parser.error(
                f"--collage {name} is no setting here: all builds share one store as it is"
            )
    return options


if __name__ == "__main__":
    sys.exit(main())
