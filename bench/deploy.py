#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency of a library that Collage compiled, wherever it is deployed, and beside busy neighbours.

The same file runs in Python with Relay, in Python on TVM's runtime and ours alone, and in the C++
program of demos/cpp_deploy; with --neighbour, in Python and beside onnxruntime while other
processes compute. See docs/deploy.md. Test: bench/test_deploy.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import models
from harness import arguments
from harness.build import COLLAGE, build
from harness.calls import job_of, within
from harness.contestants import PEERS
from harness.neighbour import LOOP, beside
from harness.records import write_figures
from harness.served import cpp_library, runtime_library
from harness.sides import Files, files_of, print_each, row_of
from harness.tables import interval_text, milliseconds, text_table
from tvm.relay.collage.exec.resolve import path_of
from tvm.relay.collage.machine.load import LoadMeter
from tvm.relay.collage.measure import Comparison, Contestant, compare

PYTHON, RUNTIME, CPP = "python", "runtime alone", "c++"
PEER = "onnxruntime"
# How much slower a busy neighbour may make us.
LIMIT = 2.5
# Of the CPUs, that others may use before and after in a run whose slowdowns are judged.
_MOST_OTHER_WORK = 0.1
# Long enough for the scheduler to have shared the cores among all that run.
_SAMPLE_SECONDS = 0.1


def main(given: list[str] | None = None) -> int:
    options = parse(given)
    records: list[dict[str, Any]] = []

    def lines_of(net: models.Net) -> list[str]:
        records.append(measure(net, options))
        return [text(records[-1])]

    status = print_each(options.nets, lambda net: net.name, lines_of)
    write_figures(options.output, records)
    return 1 if any(map(has_fault, records)) else status


def measure(net: models.Net, options: argparse.Namespace) -> dict[str, Any]:
    """One net's record. FileNotFoundError for a real net whose file is not there, RuntimeError when
    Collage or the C++ program cannot be built."""
    with files_of(net, options.threads) as files:
        built = build(
            COLLAGE,
            files.file,
            files.folder,
            options.threads,
            backends=options.backends,
            config={"guard": False},
        )
        if built.failure:
            raise RuntimeError(built.failure)
        library = built.libraries[COLLAGE]
        environment = files.environment
        ours = Contestant.of_library(PYTHON, library, files.inputs, environment=environment)
        spins = [_with_spins(ours, count) for count in options.spins]
        if options.neighbour:
            groups = _beside_neighbours(ours, spins, files)
        else:
            groups = [_deployed(ours, build_program(files.folder), library, files.inputs) + spins]
        everybody = [contestant for group in groups for contestant in group]
        before = LoadMeter().look()
        found = compare(everybody, ours.name, options.rounds, 1e-3, sample_seconds=_SAMPLE_SECONDS)
    by_name = {item.name: item for item in found}
    rows = [
        _row(by_name[each.name], by_name[(ours if each is group[0] else group[0]).name])
        for group in groups
        for each in group
    ]
    work = max(before, LoadMeter().look())
    return {"net": net.name, "threads": options.threads, "other_work": work, "rows": rows}


def _with_spins(ours: Contestant, count: int) -> Contestant:
    """Ours with threads that take so many turns before they sleep."""
    environment = {**ours.environment, "GOMP_SPINCOUNT": str(count)}
    name = f"{ours.name}, {count} spins"
    return dataclasses.replace(ours, name=name, environment=environment)


def _deployed(ours: Contestant, program: str, library: str, inputs: str) -> list[Contestant]:
    """The library in Python with Relay, to which the others compare, without, and in C++."""
    arguments, environment = {"library": library, "inputs": inputs}, ours.environment
    with_program = {"program": program, **arguments}
    return [
        ours,
        Contestant(RUNTIME, path_of(runtime_library), arguments, environment),
        Contestant(CPP, path_of(cpp_library), with_program, environment),
    ]


def _beside_neighbours(
    ours: Contestant, variants: Sequence[Contestant], files: Files
) -> list[list[Contestant]]:
    """Ours, its variants, and the peer if it is installed: each beside nothing, to which it
    compares, beside a thread that computes, and beside ours and the peer on as many threads."""
    jobs = [ours, *([files.peer(PEER)] if PEERS[PEER].is_installed() else [])]
    frameworks = [ours, *variants, *jobs[1:]]
    neighbours = {"": None, " beside a loop": LOOP}
    neighbours |= {f" beside {each.name}": job_of(each) for each in jobs}
    return [
        [
            dataclasses.replace(within(each, beside, neighbour=job), name=f"{each.name}{suffix}")
            for suffix, job in neighbours.items()
        ]
        for each in frameworks
    ]


def build_program(folder: Path) -> str:
    """The C++ example, built; RuntimeError with what make said."""
    command = ["make", "-s", "-C", arguments.ROOT / "demos/cpp_deploy", f"BUILD={folder}"]
    done = subprocess.run(
        [*command, f"PYTHON={sys.executable}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"make of demos/cpp_deploy failed: {done.stderr[-500:]}")
    return str(folder / "cpp_deploy")


def _row(item: Comparison, base: Comparison) -> dict[str, Any]:
    """Figures of a contestant beside the base, whose own ratio is None."""
    return row_of(item, None if item is base else base) | {"base": base.name}


def text(record: dict[str, Any]) -> str:
    """A row for each contestant; what is beside a neighbour is held against the limit."""
    rows = []
    for row in record["rows"]:
        if row["seconds"] is None:
            rows.append([row["name"], "-", "-", f"{row['status']}: {row['message']}"])
            continue
        ratio = row["ratio"]
        base = f"of {row['base']}" if ratio else ""
        if ratio and " beside " in row["name"]:
            base += verdict(ratio, record["other_work"])
        ratio_of_base = interval_text(ratio) if ratio else ""
        rows.append(
            [row["name"], milliseconds(row["seconds"]), ratio_of_base, base, row["message"]]
        )
    head = [f"{record['net']}, {record['threads']} threads", "median ms", "times the base, 95 %"]
    return text_table(head, rows)


def has_fault(record: dict[str, Any]) -> bool:
    """Whether a contestant failed, or one of ours is surely above LIMIT beside a neighbour."""
    for row in record["rows"]:
        if row["seconds"] is None:
            return True
        is_judged = " beside " in row["name"] and record["other_work"] <= _MOST_OTHER_WORK
        if is_judged and not row["name"].startswith(PEER) and row["ratio"][1] > LIMIT:
            return True
    return False


def verdict(ratio: Sequence[float], other_work: float) -> str:
    """Where the interval stands to the limit; nothing of it where others were busy all the time, as
    the base then had neighbours too."""
    if other_work > _MOST_OTHER_WORK:
        return f", not judged: others used {other_work:.0%} of the CPUs"
    _, low, high = ratio
    if high is not None and high <= LIMIT:
        return f", at most {LIMIT}"
    return f", ABOVE {LIMIT}" if low > LIMIT else f", {LIMIT} is within the interval"


def parse(given: list[str] | None) -> argparse.Namespace:
    parser = arguments.make_parser(
        __doc__,
        nets="resnet50,mobilenetv2",
        backends="dnnl,cblas",
        threads=None,
        rounds=20,
        output=arguments.ROOT / "build/bench/deploy.json",
    )
    parser.add_argument("--neighbour", action="store_true", help="beside busy processes")
    parser.add_argument(
        "--spins",
        type=_counts,
        default="",
        help="values of GOMP_SPINCOUNT that take part beside ours, as 100,300",
    )
    return parser.parse_args(given)


@arguments.checked
def _counts(text: str) -> list[int]:
    counts = arguments.listed(text)
    if not all(count.isdigit() for count in counts):
        raise ValueError(f"takes counts with commas between, as 100,300, got {text!r}")
    return [int(count) for count in counts]


if __name__ == "__main__":
    sys.exit(main())
