#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency of nets that run once after each pause: with the pool's threads kept on CPUs of their own
(COLLAGE_SPREAD_THREADS=1, docs/thread_pool.md), without, which is the default, and of the peers
that are installed.

Each side is a process of its own; they are woken one at a time, in a new random order each round.
Printed: medians, and each side's time over that of ours with a 95 % interval.
Needs the environment that `make build` makes.
Run: python bench/pauses.py --nets mobilenetv2 --pauses 0,20,100. Test: bench/test_pauses.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import models
from peer.alone import build_alone, prepared
from peer.contestants import PEERS
from peer.paused import paused
from peer.sides import print_each, ratio_text, usable_by_name, with_threads
from tvm.relay.collage.backends import require_backend
from tvm.relay.collage.measure import Comparison, Contestant, compare
from tvm.relay.collage.plans import TVM_ALONE
from tvm_collage.threads import default_threads

OURS, UNTOUCHED = "ours", "ours, not spread"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", type=models.nets_argument, default="mobilenetv2")
    parser.add_argument("--backend", default="dnnl", help="that has all that it takes; or tvm")
    parser.add_argument("--pauses", type=_milliseconds, default="0,20,100", help="milliseconds")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--threads", type=int, default=default_threads())
    options = parser.parse_args(arguments)
    if options.backend != TVM_ALONE:
        try:
            require_backend(options.backend)
        except (ValueError, RuntimeError) as error:  # RuntimeError: it cannot run here
            parser.error(str(error))
    return print_each(options.nets, lambda net: net.name, lambda net: measure(net, options))


def measure(net: models.Net, options: argparse.Namespace) -> Iterator[str]:
    """A net's lines. FileNotFoundError for a real net that is not there, RuntimeError for a
    side of ours that failed."""
    model = net.build(1)
    environment = with_threads(options.threads)
    with tempfile.TemporaryDirectory(prefix="collage-pauses-") as folder:
        file, inputs = models.save(net, model, Path(folder))
        library = str(Path(folder) / "net.so")
        build_alone(prepared(model), options.backend).export_library(library)
        sides = [
            Contestant.of_library(
                name, library, inputs, environment={**environment, "COLLAGE_SPREAD_THREADS": value}
            )
            for name, value in ((OURS, "1"), (UNTOUCHED, "0"))
        ]
        sides += [
            peer.contestant(file, inputs, environment)
            for peer in PEERS.values()
            if peer.is_installed()
        ]
        for pause in options.pauses:
            # Paused ones need no warm-up: what a run is like after a pause is the question.
            chosen = [paused(side, pause) for side in sides] if pause else sides
            settings = {"warm_seconds": 0.0, "sample_seconds": 1e-6} if pause else {}
            found = compare(chosen, UNTOUCHED, options.rounds, 1e-3, **settings)
            yield text_of(net.name, pause, found)


def text_of(net: str, pause: float, found: list[Comparison]) -> str:
    """The lines of one pause. RuntimeError for a side of ours that failed."""
    by_name = usable_by_name(found, [OURS, UNTOUCHED])
    lines = [f"{net}, a pause of {1e3 * pause:g} ms before each run: median, and ratio to ours"]
    for item in found:
        if item.cost.is_usable:
            ratio = ratio_text(item, by_name[OURS])
            figures = f"{1e3 * item.cost.seconds:8.2f} ms  {ratio}"
        else:
            figures = item.cost.Summary()
        lines.append(f"  {item.name:18s}{figures}")
    return "\n".join(lines)


def _milliseconds(text: str) -> list[float]:
    """Seconds of a list of milliseconds."""
    return [float(item) / 1e3 for item in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
