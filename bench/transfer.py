#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure what schedules of other nets gain, beside Ansor's own search in the same time and for
long.

    python bench/transfer.py --nets resnet18,alexnet --trials 64 --budget 600   # again to go on

Each net gets the schedules that Ansor found for the others, by `collage tt`. All trials stay in
logs, so that a run goes on where the budget ended the one before.
Docs: docs/results.md. Test: bench/test_transfer.py.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness import arguments, records
from harness.resume import Book, Job, run
from summaries import transfers

# A net's figures of machines with vectors of another width stand beside each other.
KEY = ["net", "vector_bits"]
# The nets that are named are each other's sources.
SETTINGS = ["threads", "trials", "schedules", "rounds", "nets", "target"]


def main(given: list[str] | None = None) -> int:
    options = parse(given)
    end = time.monotonic() + options.budget
    options.folder.mkdir(parents=True, exist_ok=True)
    from tvm.relay.collage.errors import OptionError

    try:
        keys = {name: key_of(name, options) for name in options.nets}
        for name in options.nets:
            export(name, options)
        is_done = [search(name, options, end) for name in options.nets]
        moved = {name: move(name, options, end) for name in options.nets}
    except (OptionError, RuntimeError) as error:
        print(f"transfer: {error}", file=sys.stderr)
        return 1
    if not all(is_done) or any(each is None or each["untried"] for each in moved.values()):
        print(f"the budget of {options.budget:g} s ended: run it again to go on")
        return 0
    book = Book(options.record, KEY, conditions_of(options))
    jobs = [
        Job(name, keys[name], partial(measure, name, moved[name], options=options))
        for name in options.nets
    ]
    found = run(jobs, book, summary, budget=end - time.monotonic(), keep=options.keep)
    print(transfers.tables(found), end="")
    return 0


def run_tt(options: argparse.Namespace, action: str, *given: str) -> dict[str, Any]:
    """Return what `collage tt` answers as JSON; RuntimeError where that is an error."""
    command = [sys.executable, "-m", "tvm.relay.collage", "tt", action, *given, "--json"]
    command += ["--target", options.target] if options.target and action != "export" else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    answer = json.loads(done.stdout.strip() or "{}")
    if not answer or "error" in answer:
        why = answer.get("error", f"ended with {done.returncode}")
        raise RuntimeError(f"collage tt {action} {' '.join(given[:2])}: {why}")
    return answer


def file_of(name: str, options: argparse.Namespace) -> str:
    return str(options.folder / f"{name}.onnx")


def log_of(name: str, options: argparse.Namespace) -> str:
    """Return the log of Ansor's own search."""
    return str(options.folder / f"{name}.jsonl")


def moved_of(name: str, options: argparse.Namespace) -> str:
    """Return the log of the trials of other nets' schedules."""
    return str(options.folder / f"{name}-transferred.jsonl")


def export(name: str, options: argparse.Namespace) -> None:
    """Write the net's file if it is not there."""
    if not Path(file_of(name, options)).exists():
        given = ("-o", str(options.folder), "--python", options.torch_python)
        run_tt(options, "export", "--models", name, *given)


def search(name: str, options: argparse.Namespace, end: float) -> bool:
    """Search the net by Ansor until all its kernels have their trials; return if they have."""
    left = end - time.monotonic()
    if left <= 0:
        return False
    given = ["--log", log_of(name, options), "--trials", str(options.trials)]
    given += ["--search-model", options.search_model, *limit_of(left)]
    return run_tt(options, "autoschedule", file_of(name, options), *given)["ended"] != "time"


def move(name: str, options: argparse.Namespace, end: float) -> dict[str, Any] | None:
    """Try the other nets' schedules on the net; return what became of them, if there was time."""
    left = end - time.monotonic()
    if left <= 0:
        return None
    others = [log_of(each, options) for each in options.nets if each != name]
    given = ["--from", *others, "--log", moved_of(name, options)]
    given += ["--schedules", str(options.schedules), *limit_of(left)]
    return run_tt(options, "transfer", file_of(name, options), *given)


def limit_of(left: float) -> list[str]:
    return ["--seconds", f"{left:.3f}"] if math.isfinite(left) else []


def key_of(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the net, and the width of the vectors that TVM's code for the target uses."""
    from tvm.relay.collage.backends.targets import host_named
    from tvm.relay.collage.tuning.transfer.shipped import bits_of

    return {"net": name, "vector_bits": bits_of(host_named(options.target, "--target"))}


def measure(name: str, moved: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Measure whole nets end to end; moved: what `move` told."""
    given = ["--transferred", moved_of(name, options), "--ansor", log_of(name, options)]
    given += ["--rounds", str(options.rounds)]
    return {
        "kernels": moved["kernels"],
        "from": [each for each in options.nets if each != name],
        "outcomes": moved["outcomes"],
        "gain": run_tt(options, "compare", file_of(name, options), *given),
    }


def summary(found: Mapping[str, Any]) -> str:
    from tvm.relay.collage.cli.tt.gain import Gain

    return "; ".join(Gain.from_json(found["gain"]).lines()[1:])


def conditions_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return what figures depend on; not versions, since logs outlive them."""
    settings = {name: getattr(options, name) for name in SETTINGS} | {"nets": sorted(options.nets)}
    return {**settings, "commit": records.commit(), "machine": records.describe_machine()}


def parse(given: list[str] | None) -> argparse.Namespace:
    record = arguments.RESULTS / "transfer.jsonl"
    parser = arguments.make_parser(
        __doc__, threads=None, rounds=30, record=record, **arguments.RESUMED
    )
    add = parser.add_argument
    add(
        "--nets",
        type=arguments.listed,
        default=["resnet18", "alexnet", "googlenet"],
        help="of collage tt export, or files of that name in the folder; at least two",
    )
    add("--trials", type=arguments.at_least(1), default=64, help="of Ansor's for each kernel")
    add("--schedules", type=arguments.at_least(1), default=8, help="tried on each kernel at most")
    add("--folder", type=Path, default=arguments.ROOT / "build/bench/transfer", help="of all logs")
    add("--target", default="", help="a host target, else the usual one")
    add("--search-model", choices=["xgb", "random"], default="xgb")
    python = str(arguments.ROOT / ".venv-zoo/bin/python")
    add("--torch-python", default=python, help="has torch (make zoo-environment)")
    options = parser.parse_args(given)
    if len(options.nets) < 2:
        parser.error("--nets takes at least two: each gets the schedules of the others")
    return options


if __name__ == "__main__":
    sys.exit(main())
