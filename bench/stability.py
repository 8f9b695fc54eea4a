#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does each build of a net ship as fast a plan? The same search again and again from one store of
costs, and then what was shipped beside each other and beside each backend alone.

    python bench/stability.py --nets bert,mobilenetv2 --builds 10   # it goes on where it stopped
    python bench/stability.py --nets resnet50 --builds 3 --neighbour
    python bench/stability.py --write-docs                          # the table of docs/choosing.md

A first build fills the store and does not count. With `--neighbour` a thread of another process
computes while the builds that count measure; what they shipped is compared on the machine alone.
A record says of each plan that shipped how often it did, and its time over those of the fastest
that shipped and of the fastest backend alone, with 95 % intervals. The end status is 1 if one is
surely more than 2 % slower than either; the guard's own rounds have told it otherwise then.
Docs: docs/choosing.md. Test: bench/test_stability.py.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import models
import tvm
from architectures.trial import PEERS
from collaging.judge import of_rounds
from harness import arguments, records
from harness.neighbour import busy
from harness.resume import Book, Job, run
from harness.sides import Files, PlanNames, files_of, ratio_of, usable_by_name
from harness.tables import interval_text, markdown_table, milliseconds, text_table
from tvm.relay import collage
from tvm.relay.collage.costs.statistics import fewest_samples
from tvm.relay.collage.errors import CollageError
from tvm.relay.collage.measure import Comparison, Contestant, compare
from tvm.relay.collage.report import is_single

KEY = ["net", "batch", "backends", "neighbour"]
SETTINGS = ["builds", "rounds", "threads"]
COUNTED = [*SETTINGS, "collage", "variables", "versions", "machine"]
_FAULTS = (FileNotFoundError, RuntimeError, CollageError)
# How much slower than another a plan may be by the guard's rule (docs/choosing.md).
MOST = 1.02
LEAST_ROUNDS = 2 * fewest_samples()
# The fastest of which a plan is compared with.
_KINDS = ("shipped plan", "backend alone")
# Who is slower than this has no further rounds: it is not the fastest.
_GIVE_UP_RATIO = 2.0


def main(given: list[str] | None = None) -> int:
    options = parse(given)
    if options.write_docs:
        return Book(options.record, KEY).write_page(options.docs, tables)
    settings = {name: getattr(options, name) for name in SETTINGS}
    settings |= {"commit": records.commit(), "collage": dict(options.collage)}
    settings["variables"] = records.thread_variables()
    book = Book(options.record, KEY, records.conditions(settings, PEERS), COUNTED)
    jobs = [job_of(net, options) for net in options.nets]
    found = run(jobs, book, summary, budget=options.budget, keep=options.keep, left_out=_FAULTS)
    slow = [f"{each['net']}: {line}" for each in found for line in too_slow(each["plans"])]
    for line in slow:
        print(line, file=sys.stderr)
    return int(bool(slow) or len(found) < len(jobs))


def job_of(net: models.Net, options: argparse.Namespace) -> Job:
    key = {
        "net": net.name,
        "batch": options.batch,
        "backends": ", ".join(options.backends),
        "neighbour": options.neighbour,
    }
    beside = " beside a neighbour" if options.neighbour else ""
    return Job(f"{net.name}{beside}", key, lambda: measure(net, options))


def measure(net: models.Net, options: argparse.Namespace) -> dict[str, Any]:
    """What the builds of a net shipped, as JSON values."""
    with files_of(net, options.threads, options.batch) as files:
        os.environ.update(files.environment)  # which workers and plans inherit
        builds = Builds(files)
        for build in range(options.builds + 1):
            is_counted = build > 0
            with busy() if is_counted and options.neighbour else contextlib.nullcontext():
                shipped = builds.build(options, is_counted)
            print(f"  {f'build {build}' if is_counted else 'first build'}: {shipped}", flush=True)
        found = compare(
            list(builds.contestants.values()),
            next(iter(builds.shipped)),
            options.rounds,
            1e-3,
            give_up_ratio=_GIVE_UP_RATIO,
        )
    return {"plans": judge(found, builds.shipped, builds.singles)}


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
) -> list[dict[str, Any]]:
    """The plans that shipped, each with its ratio over the fastest of either kind, which is None
    where there is none. RuntimeError for a plan that failed. Every other round says which is the
    fastest, the rounds between how much faster."""
    whole = usable_by_name(found, list(shipped))
    decide, told = of_rounds(found, 0), usable_by_name(of_rounds(found, 1), list(shipped))
    bases = {
        what: next((i.name for i in decide if i.name in names and i.cost.is_usable), None)
        for what, names in zip(_KINDS, (shipped, singles), strict=True)
    }
    most = max(len(item.samples) for item in found)
    plans = []
    for name, count in shipped.items():
        # Who left as far slower has few rounds, all of which count.
        pair = whole if len(whole[name].samples) < most else told
        over = {
            what: {"name": base, "ratio": ratio_of(pair[name], pair.get(base or ""))}
            for what, base in bases.items()
        }
        plans.append(
            {"plan": name, "builds": count, "seconds": told[name].cost.seconds, "over": over}
        )
    return plans


def too_slow(plans: Sequence[Mapping[str, Any]], *, surely: bool = True) -> list[str]:
    """A line for each plan that takes more than MOST times as long as the fastest; with all of its
    interval if `surely`, else in the median."""
    return [
        f"{plan['plan']} takes {interval_text(of['ratio'], '.3f')} times as long as {of['name']}, "
        f"the fastest {what}"
        for plan in plans
        for what, of in plan["over"].items()
        if of["ratio"] and (of["ratio"][1 if surely else 0] or 0) > MOST
    ]


HEAD = ["plan", "builds", "median ms", *(f"over the fastest {kind}" for kind in _KINDS)]


def lines_of(plans: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    def beside(name: str, of: Mapping[str, Any]) -> str:
        is_itself = name == of["name"]
        return "itself" if is_itself else f"{interval_text(of['ratio'], '.3f')} ({of['name']})"

    return [
        [
            plan["plan"],
            str(plan["builds"]),
            milliseconds(plan["seconds"]),
            *(beside(plan["plan"], plan["over"][kind]) for kind in _KINDS),
        ]
        for plan in plans
    ]


def summary(found: Mapping[str, Any]) -> str:
    """A net's table for who waits."""
    return "\n" + text_table(HEAD, lines_of(found["plans"]))


def tables(found: Sequence[Mapping[str, Any]]) -> str:
    """The page's part."""
    lines = [
        [
            each["net"],
            str(each["batch"]),
            each["backends"],
            "one" if each["neighbour"] else "none",
            *line,
        ]
        for each in found
        for line in lines_of(each["plans"])
    ]
    slow, sure = (
        sum(bool(too_slow(each["plans"], surely=surely)) for each in found)
        for surely in (False, True)
    )
    return (
        markdown_table(["net", "batch", "backends", "neighbour", *HEAD], lines)
        + f"\nA plan more than {100 * (MOST - 1):.0f} % slower than another that shipped, or than "
        + f"a backend alone, shipped in {slow} of {len(found)} comparisons by the median, and in "
        + f"{sure} with all of the interval. "
        + f"{records.origin(found)}.\n"
    )


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.make_parser(
        __doc__,
        nets="bert,mobilenetv2",
        threads=None,
        batch=1,
        rounds=60,
        backends="dnnl,cblas,onnxruntime,openvino",
        collage=[],
        record=arguments.ROOT / "docs/stability.jsonl",
        docs=arguments.ROOT / "docs/choosing.md",
        **arguments.RESUMED,
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
