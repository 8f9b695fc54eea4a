#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how fast nets are with Collage. Each is tried in a process of its own, as deep as is
asked.

    python bench/zoo.py --nets all                              # it goes on where it stopped
    python bench/zoo.py --draw 12 --seed 7                      # before and after a larger change
    python bench/zoo.py --depth minutes --models dcgan,resnet50 # what ships, beside the libraries
    python bench/zoo.py --depth hours --nets fsrcnn,espcn       # one backend more at a time
    python bench/zoo.py --depth effort --draw 20 --seed 7       # seconds and what they lose

seconds: each backend alone beside the libraries. minutes: what ships beside each backend alone and
the libraries. hours: the same, and what ships with fewer backends. effort: how long a compile takes
at each effort, and what ships. What a net does wrong is a row of its record. Docs: docs/bench.md,
docs/results.md. Test: bench/test_zoo.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import random
import secrets
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from architectures.nets import NETS, Row
from harness import arguments, child, records
from harness.resume import Book, Job, run
from harness.tables import interval_text, milliseconds, text_table
from summaries import efforts, libraries, mixes
from trials import trial

KEY = ("net", "size", "batch", "depth")
# Where `make zoo-environment` puts torch.
_TORCH_PYTHON = arguments.ROOT / ".venv-zoo/bin/python"
PYTHON_VARIABLE, FOLDER_VARIABLE = "COLLAGE_ZOO_PYTHON", "COLLAGE_ZOO_FOLDER"


@dataclasses.dataclass(frozen=True)
class Depth:
    """A question about nets, and how it is answered."""

    asks: str
    trial: str  # what a process runs for a net, as "module:function"
    record: Path  # where the answers stand
    rounds: int  # of measuring
    limit: float  # seconds that a net may take, export apart
    backends: str  # in the order in which columns add them
    summary: Callable[[Mapping[str, Any]], str]  # one line of a record
    totals: Callable[[Sequence[Mapping[str, Any]]], str] = lambda _: ""  # of all records


_LIBRARIES, _ALL = "dnnl,onnxruntime,openvino", "dnnl,cblas,onnxruntime,openvino"
DEPTHS = {
    "seconds": Depth(
        "Is a backend alone as fast as the libraries?",
        "trials.trial:alone",
        arguments.RESULTS / "zoo.jsonl",
        rounds=8,
        limit=600.0,
        backends=_LIBRARIES,
        summary=libraries.summary_of,
    ),
    "minutes": Depth(
        "Is what ships as fast as the libraries?",
        "trials.columns:ships",
        arguments.ROOT / "build/bench/ships.jsonl",
        rounds=16,
        limit=3600.0,
        backends=_ALL,
        summary=mixes.summary_of,
    ),
    "hours": Depth(
        "What does each further backend gain, and does a mix ship?",
        "trials.columns:trial",
        arguments.RESULTS / "mixes.jsonl",
        rounds=40,
        limit=3600.0,
        backends=_ALL,
        summary=mixes.summary_of,
    ),
    "effort": Depth(
        "How long does a compile take at each effort, and what does less of it lose?",
        "trials.efforts:trial",
        arguments.ROOT / "build/bench/efforts.jsonl",
        rounds=30,
        limit=3600.0,
        backends="dnnl,cblas,mkl,onnxruntime,openvino",
        summary=efforts.summary_of,
        totals=efforts.totals,
    ),
}
# Settings that a record's figures depend on.
_SETTINGS = ("threads", "rounds", "rtol", "backends", "collage")


def main(given: Sequence[str] | None = None) -> int:
    options = parse(given)
    if options.list:
        for row in NETS.values():
            sizes = " ".join(str(size) for size in row.sizes if size)
            print(f"{row.name:34}{row.family:22}{row.package:14}{sizes}")
        return 0
    settings = {name: getattr(options, name) for name in _SETTINGS}
    settings |= {name: _described(log) for name, log in logs_of(options).items()}
    conditions = records.conditions({"commit": records.commit(), **settings}, trial.PEERS)
    jobs = [job_of(*each, options) for each in chosen(options)]
    summary = DEPTHS[options.depth].summary
    book = Book(options.record, KEY, conditions)
    found = run(jobs, book, summary, budget=options.budget, keep=options.keep)
    for each in found:
        print(table(each), end="")
    print(DEPTHS[options.depth].totals(found), end="")
    failed = sum(each["failure"] is not None for each in found)
    print(f"{failed} of {len(jobs)} ended early")
    return 0


def chosen(options: argparse.Namespace) -> list[tuple[Row, int, int, str]]:
    """Return what to measure, and where it is from: the nets of bench/models, and all rows of the
    zoo that were named, or as many as are to be drawn, by the seed."""
    rows = [Row(net.name, "", "models", make=net.name, sizes=(0,)) for net in options.models]
    jobs = [(row, 0, batch, mixes.MODELS) for row in rows for batch in options.batches]
    of_zoo = [
        (row, size, batch, mixes.NAMED)
        for row in options.nets
        for size in (row.sizes if options.sizes == "all" or options.draw else row.sizes[:1])
        for batch in options.batches
    ]
    if not options.draw:
        return jobs + of_zoo
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    print(f"drawn with --seed {seed}:", flush=True)
    # Nets first: those of several sizes are not likelier for it.
    generator = random.Random(seed)
    names = generator.sample(list(options.nets), min(options.draw, len(options.nets)))
    drawn = [generator.choice([job for job in of_zoo if job[0].name == row.name]) for row in names]
    for row, size, batch, _ in drawn:
        print(f"  {row.name} {size or ''} batch {batch}", flush=True)
    return jobs + [(*each[:3], mixes.ZOO) for each in drawn]


def job_of(row: Row, size: int, batch: int, source: str, options: argparse.Namespace) -> Job:
    key = {"net": row.name, "size": size, "batch": batch, "depth": options.depth}
    title = f"{row.name} {size or ''} batch {batch}"
    return Job(title, key, lambda: {"from": source, **measure(row, key, options)})


def measure(row: Row, key: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return the facts of one net that is exported, then tried; raise for no fault of the net's."""
    with tempfile.TemporaryDirectory(prefix="collage-zoo-", ignore_cleanup_errors=True) as folder:
        file, why = exported(row, key, folder, options=options)
        if why:
            return {"failure": {"stage": "export", "message": why}}
        request = {name: getattr(options, name) for name in (*_SETTINGS, "limit")}
        request |= {"file": file and str(file), "folder": folder, "config": dict(options.collage)}
        request["logs"] = {f"tvm-{name}": str(log) for name, log in logs_of(options).items()}
        return trial.run_trial({**key, **request}, DEPTHS[options.depth].trial)


def exported(
    row: Row, key: Mapping[str, Any], folder: str, options: argparse.Namespace
) -> tuple[Path | None, str]:
    """Return the net's ONNX file, written now if it is not there, or why there is none; no file and
    no reason for the nets that the bench builds itself."""
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


def table(found: Mapping[str, Any]) -> str:
    """Return a row for each side of a record, the fastest first; the ratio is the one it has."""
    rows = sorted(
        found.get("rows", []), key=lambda row: (row["seconds"] is None, row["seconds"] or 0)
    )
    if not rows:
        return ""
    lines = [
        [
            row["name"],
            milliseconds(row["seconds"]),
            interval_text(row["ratio"], ".2f"),
            "-" if row["output_error"] is None else f"{row['output_error']:.1e}",
            "noisy" if row.get("noisy") else "",
            "" if row["status"] == "measured" else f"{row['status']}: {row['message']}",
        ]
        for row in rows
    ]
    head = [f"{found['net']} batch {found['batch']}", "median ms", "ratio", "output error"]
    return f"{text_table(head, lines)}\n"


def logs_of(options: argparse.Namespace) -> dict[str, Path]:
    """Return the files of tuning records that were given."""
    return {name: log for name in mixes.LOGS if (log := getattr(options, name))}


def _described(log: Path) -> str:
    """Return a log's name, and what tells it from another of that name."""
    return f"{log.name} {hashlib.sha256(log.read_bytes()).hexdigest()[:12]}"


@arguments.checked
def nets_argument(text: str) -> list[Row]:
    """Return rows by name or family, with commas between, or all."""
    if text == "all":
        return list(NETS.values())
    wanted = arguments.listed(text)
    families = {row.family for row in NETS.values()}
    unknown = [each for each in wanted if each not in NETS and each not in families]
    if unknown:
        raise ValueError(f"no net and no family is called {', '.join(unknown)} (or --models)")
    return [row for row in NETS.values() if row.name in wanted or row.family in wanted]


@arguments.checked
def _log(text: str) -> Path:
    """Return a file of tuning records, which is read, so that no net waits for one that is none."""
    from tvm.relay.collage.tuning.log import read_log

    read_log(text)
    return Path(text).absolute()


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.make_parser(
        __doc__,
        threads=None,
        rounds=None,
        rtol=1e-3,
        backends=None,
        collage=[],
        record=None,
        **arguments.RESUMED,
    )
    add = parser.add_argument
    add("--depth", choices=list(DEPTHS), default="seconds")
    add("--nets", type=nets_argument, help="of the zoo, names or families (default: all)")
    add("--models", type=arguments.nets, default=[], help="nets of bench/models by name, or all")
    add("--sizes", choices=("first", "all"), default="first")
    counts = partial(map, arguments.at_least(1))
    add("--batches", type=lambda text: list(counts(arguments.listed(text))), metavar="N,N")
    positive = arguments.at_least(1)
    add("--draw", type=positive, default=0, metavar="N", help="so many at random, of all sizes")
    add("--seed", type=int, help="of the draw (default: another each time, printed)")
    add("--limit", type=float, help="seconds for a net")
    add("--tuned", type=_log, metavar="LOG", help="tuning records, for columns of their own")
    add("--transferred", type=_log, metavar="LOG", help="the same, of other nets' schedules")
    folder = os.environ.get(FOLDER_VARIABLE, str(arguments.ROOT / "build/bench/zoo"))
    add("--folder", type=Path, default=folder, help=f"of the ONNX files, also {FOLDER_VARIABLE}")
    python = os.environ.get(PYTHON_VARIABLE, str(_TORCH_PYTHON))
    add("--torch-python", default=python, help=f"that has torch, also {PYTHON_VARIABLE}")
    add("--export-seed", type=int, default=0, help="of the weights")
    add("--list", action="store_true", help="print the table of nets")
    options = parser.parse_args(given)
    depth = DEPTHS[options.depth]
    if options.nets is None:  # nets of bench/models alone are wanted where they are named alone
        options.nets = [] if options.models and not options.draw else list(NETS.values())
    options.batches = options.batches or ([1, 8] if options.draw else [1])
    for name in ("rounds", "limit", "record"):
        if getattr(options, name) is None:
            setattr(options, name, getattr(depth, name))
    options.backends = options.backends or arguments.backends(depth.backends)
    return options


if __name__ == "__main__":
    sys.exit(main())
