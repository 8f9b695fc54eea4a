#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How Collage does on nets that nobody tuned for: many architectures, each in a process of its own.

    python bench/zoo.py --depth seconds --nets all          # it goes on where it stopped
    python bench/zoo.py --draw 12 --seed 7                  # before and after a larger change
    python bench/zoo.py --write-docs                        # the tables of docs/zoo.md

What a net does wrong is a row of the record. Docs: docs/zoo.md.
Test: bench/test_zoo.py.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from architectures import page, record, trial
from architectures.nets import NETS, Row
from harness import arguments, child, records
from harness.resume import Book, Job, run

# Where `make zoo-environment` puts torch.
_TORCH_PYTHON = arguments.ROOT / ".venv-zoo/bin/python"
PYTHON_VARIABLE, FOLDER_VARIABLE = "COLLAGE_ZOO_PYTHON", "COLLAGE_ZOO_FOLDER"
# Seconds that a net may take, export apart.
_LIMITS = {trial.SECONDS: 600.0, trial.MINUTES: 3600.0}
_ROUNDS = {trial.SECONDS: 8, trial.MINUTES: 16}
# Backends that are somebody else's whole library: each is measured alone. TVM's takes minutes.
_BACKENDS = "dnnl,onnxruntime,openvino"


def main(given: list[str] | None = None) -> int:
    options = parse(given)
    if options.write_docs:
        book = Book(options.record, record.KEY)
        return book.write_page(options.docs, page.tables, "zoo.jsonl")
    if options.list:
        for row in NETS.values():
            sizes = " ".join(str(size) for size in row.sizes if size)
            print(f"{row.name:34}{row.family:22}{row.package:14}{sizes}")
        return 0
    book = Book(options.record, record.KEY, conditions_of(options), record.CONDITIONS)
    jobs = [job_of(*each, options) for each in chosen(options)]
    found = run(jobs, book, summary, budget=options.budget, keep=options.keep)
    failed = sum(each["failure"] is not None for each in found)
    print(f"{failed} of {len(jobs)} ended early")
    return 0


def chosen(options: argparse.Namespace) -> list[tuple[Row, int, int]]:
    """What to measure: all that was named, or as many as are to be drawn, by the seed."""
    jobs = [
        (row, size, batch)
        for row in options.nets
        for size in (row.sizes if options.sizes == "all" or options.draw else row.sizes[:1])
        for batch in options.batches
    ]
    if not options.draw:
        return jobs
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    print(f"drawn with --seed {seed}:", flush=True)
    # Nets first: those of several sizes are not likelier for it.
    generator = random.Random(seed)
    names = generator.sample(list(options.nets), min(options.draw, len(options.nets)))
    drawn = [generator.choice([job for job in jobs if job[0].name == row.name]) for row in names]
    for row, size, batch in drawn:
        print(f"  {row.name} {size or ''} batch {batch}", flush=True)
    return drawn


def job_of(row: Row, size: int, batch: int, options: argparse.Namespace) -> Job:
    key = {"net": row.name, "size": size, "batch": batch, "depth": options.depth}
    title = f"{row.name} {size or ''} batch {batch}"
    return Job(title, key, lambda: measure(row, key, options, arguments=options.peers_arguments))


def measure(
    row: Row,
    key: dict[str, Any],
    options: argparse.Namespace,
    function: str = trial.TRIAL,
    **more: Any,
) -> dict[str, Any]:
    """The facts of one net that is exported, then tried by the function in a process of its own,
    which gets `more` with the request; it raises for no fault of the net's."""
    with tempfile.TemporaryDirectory(prefix="collage-zoo-", ignore_cleanup_errors=True) as folder:
        file, why = exported(row, key, folder, options)
        if why:
            return {"failure": {"stage": "export", "message": why}}
        names = ("threads", "rounds", "rtol", "limit", "backends")
        request = {name: getattr(options, name) for name in names}
        request |= {"file": file and str(file), "folder": folder}
        return trial.run_trial({**key, **request, **more}, function)


def exported(
    row: Row, key: dict[str, Any], folder: str, options: argparse.Namespace
) -> tuple[Path | None, str]:
    """The net's ONNX file, written now if it is not there, or why there is none; no file and no
    reason for the nets that the bench builds itself."""
    if row.package == "models":
        return None, ""
    given = {"size": key["size"], "batch": key["batch"], "seed": options.export_seed}
    file = options.folder / row.file_name(**given)
    if file.exists():
        return file, ""
    options.folder.mkdir(parents=True, exist_ok=True)
    ended = child.run(
        "architectures.export:export",
        {"name": row.name, "file": str(file), **given},
        limit=options.limit,
        log=Path(folder) / "export.txt",
        python=options.torch_python,
    )
    return file, ended.failure[-400:]


def summary(found: dict[str, Any]) -> str:
    """One line for who waits."""
    parts = [f"{where} {why[:200]}" for where, why in page.failures_of(found)]
    best = record.best_of_ours(found)
    if best:
        parts.insert(0, f"{best['name']} {best['ratio'][0]:.2f} of the fastest peer's speed")
    return "; ".join([*parts, f"{found['seconds']:.0f} s"])


def conditions_of(options: argparse.Namespace) -> dict[str, Any]:
    """What the figures depend on beside the key of a record."""
    settings = {name: getattr(options, name) for name in ("threads", "rounds", "rtol", "backends")}
    return records.conditions({"commit": records.commit(), **settings}, trial.PEERS)


@arguments.checked
def nets_argument(text: str) -> list[Row]:
    """Rows by name or family, with commas between, or all."""
    if text == "all":
        return list(NETS.values())
    wanted = arguments.listed(text)
    families = {row.family for row in NETS.values()}
    unknown = [each for each in wanted if each not in NETS and each not in families]
    if unknown:
        raise ValueError(f"no net and no family is called {', '.join(unknown)}")
    return [row for row in NETS.values() if row.name in wanted or row.family in wanted]


def counts(text: str) -> list[int]:
    """Whole numbers with commas between."""
    return [arguments.at_least(1)(each) for each in text.split(",")]


def add_export(parser: argparse.ArgumentParser) -> None:
    """What `exported` needs of the options beside the limit."""
    add = parser.add_argument
    folder = os.environ.get(FOLDER_VARIABLE, str(arguments.ROOT / "build/bench/zoo"))
    add("--folder", type=Path, default=folder, help=f"of the ONNX files, also {FOLDER_VARIABLE}")
    python = os.environ.get(PYTHON_VARIABLE, str(_TORCH_PYTHON))
    add("--torch-python", default=python, help=f"that has torch, also {PYTHON_VARIABLE}")
    add("--export-seed", type=int, default=0, help="of the weights")


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.make_parser(
        __doc__,
        threads=None,
        rounds=None,
        rtol=1e-3,
        record=arguments.ROOT / "docs/zoo.jsonl",
        docs=arguments.ROOT / "docs/zoo.md",
        **arguments.RESUMED,
    )
    add = parser.add_argument
    add("--depth", choices=list(trial.DEPTHS), default=trial.SECONDS)
    add("--nets", type=nets_argument, default="all", help="names or families (default: all)")
    add("--sizes", choices=("first", "all"), default="first")
    add("--batches", type=counts, help="default: 1; 1,8 for a draw")
    add(
        "--draw",
        type=arguments.at_least(1),
        default=0,
        metavar="N",
        help="so many at random, of all sizes",
    )
    add("--seed", type=int, help="of the draw (default: another each time, printed)")
    add("--backends", type=arguments.backends, default=_BACKENDS)
    add("--limit", type=float, help=f"seconds for a net (default: {_LIMITS})")
    add_export(parser)
    add("--peers-arguments", type=str.split, default=[], help="for bench/peers.py, at minutes")
    add("--list", action="store_true", help="print the table of nets")
    options = parser.parse_args(given)
    options.batches = options.batches or ([1, 8] if options.draw else [1])
    options.rounds = options.rounds or _ROUNDS[options.depth]
    options.limit = options.limit or _LIMITS[options.depth]
    return options


if __name__ == "__main__":
    sys.exit(main())
