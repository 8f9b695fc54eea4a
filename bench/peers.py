#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency of Collage beside the frameworks that a user could pick instead, net by net.

Each contestant runs in its own process with as many threads, woken one at a time in rounds of
random order. See docs/peers.md. Test: bench/test_peers.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import Any

import models
from harness import arguments, records
from harness.build import COLLAGE, STOCK, build
from harness.contestants import PEERS, stock
from harness.resume import Book, Job, run
from harness.sides import files_of
from peers_report import (
    failed_alone,
    make_record,
    net_text,
    ours_failed,
    plot,
    slowest_parts,
    summary_text,
)

CONTESTANTS = (COLLAGE, "alone", *PEERS, STOCK)
# Whose outputs count as right: the first that has some.
REFERENCES = (*PEERS, STOCK, "tvm alone")
# Three kinds of net in minutes; all of them take hours.
DEFAULT_NETS = "mobilenetv2,dcgan,resnet50"
# Of a record; others of the same net were made under other conditions.
KEY = ("net", "made_under")


def main(given: list[str] | None = None) -> int:
    options = parse(given)
    for name, reason in options.left_out.items():
        print(f"left out: {name} ({reason})")
    chosen = run(jobs_of(options), book_of(options), net_text, budget=options.budget)
    if not chosen:
        print("peers: nothing was measured", file=sys.stderr)
        return 1
    print(summary_text(chosen))
    picture = options.output.with_suffix(".png")
    if plot(chosen, picture):
        print(f"plot: {picture}")
    return 1 if COLLAGE in options.contestants and any(map(ours_failed, chosen)) else 0


def jobs_of(options: argparse.Namespace) -> list[Job]:
    made_under = records.digest(conditions_of(options))
    return [
        Job(net.name, {"net": net.name, "made_under": made_under}, partial(measure, net, options))
        for net in options.nets
    ]


def book_of(options: argparse.Namespace) -> Book:
    if options.fresh:
        options.output.unlink(missing_ok=True)

    def is_failed(record: dict[str, Any]) -> bool:
        return COLLAGE in options.contestants and ours_failed(record)

    return Book(options.output, KEY, conditions_of(options), is_failed=is_failed)


def measure(net: models.Net, options: argparse.Namespace) -> dict[str, Any]:
    """One net's record; whoever fails stands in it with the reason. FileNotFoundError for a real
    net whose file is not there."""
    from tvm.relay.collage.measure import Contestant, compare

    contestants, failures, facts = [], {}, {}
    with_alone = "alone" in options.contestants
    with files_of(net, options.threads, options.batch) as files:
        environment = files.environment
        for side in (COLLAGE, STOCK):
            if side not in options.contestants:
                continue
            log = files.folder / f"{side}.log"
            print(f"  building {side}, which may take minutes: see {log}", flush=True)
            built = build(
                side,
                files.file,
                files.folder,
                options.threads,
                backends=list(options.backends),
                config=options.collage,
                with_alone=with_alone,
                timeout=options.build_timeout,
            )
            if built.failure:
                failures[side] = built.failure
            for name, library in built.libraries.items():
                if side == STOCK:
                    contestant = stock(name, library, files.inputs, environment)
                else:
                    contestant = Contestant.of_library(
                        name, library, files.inputs, environment=environment
                    )
                contestants.append(contestant)
            facts[f"{side}_build_seconds"] = built.seconds
            if side == COLLAGE:
                facts |= {"ships": built.ships, "parts": slowest_parts(built.report)}
                failures |= failed_alone(built.report) if with_alone else {}
        contestants += [files.peer(name) for name in options.contestants if name in PEERS]
        names = [item.name for item in contestants]
        print(f"  measuring {', '.join(names)}", flush=True)
        comparisons = compare(
            contestants,
            [name for name in REFERENCES if name in names],
            options.rounds,
            options.rtol,
            open_timeout=options.build_timeout,
            give_up_ratio=options.give_up_ratio,
        )
    key = {"net": net.name, "batch": options.batch, "threads": options.threads}
    facts |= {"load": os.getloadavg()[0]}
    return make_record(key, comparisons, [*PEERS, STOCK], failures, facts)


def conditions_of(options: argparse.Namespace) -> dict[str, Any]:
    """What a record's figures depend on beside the net; equal ones need no second measurement."""
    names = ("batch", "threads", "rounds", "rtol", "give_up_ratio", "build_timeout")
    settings = {name: getattr(options, name) for name in (*names, "backends", "collage")}
    settings |= {"asked": options.contestants, "variables": records.thread_variables()}
    packages = [PEERS[name].package for name in options.contestants if name in PEERS]
    return records.conditions(settings, packages)


def parse(given: list[str] | None) -> argparse.Namespace:
    parser = arguments.make_parser(
        __doc__,
        nets=DEFAULT_NETS,
        batch=1,
        threads=None,
        rounds=30,
        backends=None,
        rtol=1e-3,
        budget=float("inf"),
        collage=[],
        output=arguments.ROOT / "build/bench/peers.jsonl",
    )
    add = parser.add_argument
    add(
        "--contestants",
        type=arguments.chosen_of(CONTESTANTS, "contestant"),
        help=f"of {', '.join(CONTESTANTS)}; all that are installed by default",
    )
    add("--skip-stock", action="store_true", help="without TVM alone (slow builds)")
    add("--measure-seconds", type=float, help="time that Collage runs a candidate")
    add("--build-timeout", type=float, default=3600.0, help="seconds")
    add("--give-up-ratio", type=float, default=10.0)
    add("--fresh", action="store_true", help="forget what the output file holds")
    options = parser.parse_args(given)
    from tvm.relay.collage.options import PREFIX, check_options

    try:
        options.contestants, options.left_out = _chosen(options.contestants)
        options.backends = _versions_of(options.backends)
        options.collage = dict(options.collage)
        if options.measure_seconds is not None:
            options.collage["measure_seconds"] = options.measure_seconds
        check_options({f"{PREFIX}{name}": value for name, value in options.collage.items()})
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    if options.skip_stock:
        options.contestants = [name for name in options.contestants if name != STOCK]
    return options


def _chosen(asked: list[str] | None) -> tuple[list[str], dict[str, str]]:
    """Contestants that take part, and those left out with the reason; ValueError for one that was
    asked for and is not installed."""
    names = list(CONTESTANTS) if asked is None else asked
    missing = {
        name: f"not installed: pip install {PEERS[name].package}"
        for name in names
        if name in PEERS and not PEERS[name].is_installed()
    }
    if len(set(names)) < len(names):
        raise ValueError(f"a contestant is named twice: {', '.join(names)}")
    if "alone" in names and COLLAGE not in names:
        raise ValueError(f"contestant alone needs {COLLAGE}, whose guard builds these plans")
    if asked is not None and missing:
        name, reason = next(iter(missing.items()))
        raise ValueError(f"contestant {name} is {reason}")
    return [name for name in names if name not in missing], missing


def _versions_of(names: list[str] | None) -> dict[str, str]:
    """Versions of Collage's backends that take part: those that are named, or all that can run here
    and trade no accuracy."""
    from tvm.relay.collage.backends import get_backend, list_backends

    if names is None:
        found = [each for each in list_backends() if not each.trades_accuracy]
        found = [each for each in found if each.available() is None]
    else:
        found = [get_backend(name) for name in names]
    return {backend.name: backend.version() for backend in found}


if __name__ == "__main__":
    sys.exit(main())
