#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What does mixing gain? Each backend alone, one backend more at a time, and the peers, net by net.

    python bench/ablation.py                                # the peers' nets and 20 of the zoo
    python bench/ablation.py --nets dcgan,nasrnn --zoo 0 --batches 1
    python bench/ablation.py --tuned nets.jsonl             # and TVM with these records
    python bench/ablation.py --write-docs                   # the tables of docs/collaging.md

It goes on where it stopped. Docs: docs/collaging.md. Test: bench/test_ablation.py.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import zoo
from architectures.nets import NETS as ZOO
from architectures.nets import Row
from architectures.trial import PEERS
from collaging import page
from harness import arguments, records
from harness.resume import Book, Job, run

KEY = ("net", "size", "batch")
CONDITIONS = ("versions", "machine", "threads", "rounds", "rtol", "backends", "collage")
RECORDS = "collaging.jsonl"
# So many nets of the zoo are drawn if none is named.
_DRAWN = 20
# Of backends, in the order in which columns add them.
_BACKENDS = "dnnl,cblas,onnxruntime,openvino"


def main(given: Sequence[str] | None = None) -> int:
    options = parse(given)
    if options.write_docs:
        return Book(options.record, KEY).write_page(options.docs, page.tables, RECORDS)
    settings = {name: getattr(options, name) for name in CONDITIONS[2:]}
    settings |= {name: _described(log) for name in page.LOGS if (log := getattr(options, name))}
    conditions = records.conditions({"commit": records.commit(), **settings}, PEERS)
    book = Book(options.record, KEY, conditions, (*CONDITIONS, *page.LOGS))
    jobs = jobs_of(options)
    found = run(jobs, book, summary, budget=options.budget, keep=options.keep)
    print(f"{sum(each['failure'] is not None for each in found)} of {len(jobs)} ended early")
    return 0


def jobs_of(options: argparse.Namespace) -> list[Job]:
    """The nets that are named, and those of the zoo that are named or drawn by the seed. A named
    one is from the zoo's list if the seed would have drawn it, too."""
    is_number = isinstance(options.zoo, int)
    drawable = [row for row in ZOO.values() if row.package != "models"]
    count = min(options.zoo if is_number else _DRAWN, len(drawable))
    drawn = random.Random(options.seed).sample(drawable, count)
    if is_number and drawn:
        print(f"drawn with --seed {options.seed}: {', '.join(row.name for row in drawn)}")
    rows = [(Row(net.name, "", "models", net.name, (0,)), page.PEERS) for net in options.nets]
    of_zoo = drawn if is_number else options.zoo
    rows += [(row, page.ZOO if row in drawn else page.NAMED) for row in of_zoo]
    return [
        job_of(row, batch, source, options) for batch in options.batches for row, source in rows
    ]


def job_of(row: Row, batch: int, source: str, options: argparse.Namespace) -> Job:
    size = row.sizes[0]
    key = {"net": row.name, "size": size, "batch": batch}

    def measure() -> dict[str, Any]:
        logs = {f"tvm-{name}": str(log) for name in page.LOGS if (log := getattr(options, name))}
        more = {"peers": PEERS, "config": dict(options.collage), "logs": logs}
        return {"from": source, **zoo.measure(row, key, options, "collaging.columns:trial", **more)}

    return Job(f"{row.name} batch {batch}", key, measure)


def summary(found: dict[str, Any]) -> str:
    """One line for who waits."""
    if found["failure"]:
        return f"{found['failure']['stage']}: {found['failure']['message'][:200]}"
    ratio = found["shipped"]["over_single"]
    kind = "a mix" if page.is_mix(found) else "no mix"
    gain = f"{ratio[0]:.2f} times as fast as the best single backend" if ratio else "no figure"
    return f"ships {found['ships']}, {kind}, {gain}; {found['seconds']:.0f} s"


@arguments.checked
def _zoo(text: str) -> int | list[Row]:
    """How many nets to draw, or which."""
    return int(text) if text.isdigit() else zoo.nets_argument(text)


def _described(log: Path) -> str:
    """A log's name, and what tells it from another of that name."""
    return f"{log.name} {hashlib.sha256(log.read_bytes()).hexdigest()[:12]}"


@arguments.checked
def _log(text: str) -> Path:
    """A file of tuning records, which is read, so that no net waits for one that is none."""
    from tvm.relay.collage.tuning.log import read_log

    read_log(text)
    return Path(text).absolute()


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.make_parser(
        __doc__,
        nets="all",
        threads=None,
        rounds=40,
        backends=_BACKENDS,
        rtol=1e-3,
        collage=[],
        record=arguments.ROOT / "docs" / RECORDS,
        docs=arguments.ROOT / "docs/collaging.md",
        **arguments.RESUMED,
    )
    add = parser.add_argument
    of_zoo = "how many of its nets are drawn, or names or families"
    add("--zoo", type=_zoo, default=_DRAWN, help=of_zoo)
    add("--seed", type=int, default=15, help="of the draw")
    add("--batches", type=zoo.counts, default="1,8")
    add("--limit", type=float, default=3600.0, help="seconds for a net")
    of_records = "of tuning records, for columns of TVM and of all backends with them"
    add("--tuned", type=_log, metavar="LOG", help=of_records)
    add("--transferred", type=_log, metavar="LOG", help=of_records)
    zoo.add_export(parser)
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())
