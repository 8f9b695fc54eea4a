# SPDX-License-Identifier: Apache-2.0
"""`collage store`: look into the store of measured costs, and move costs between stores.

Docs: docs/store.md. Test: cli/test_store.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tvm_collage.cli.parser import is_json_lines

from ..candidate.candidate import TUNING
from ..errors import CollageError, OptionError
from ..files.text import check_file_path
from ..machine.environment import vector_bits
from ..messages.progress import one_step
from ..store import (
    CostStore,
    Decisions,
    StoredDecision,
    StoreError,
    StoreOlderError,
    store_path,
)
from ..store.explain import (
    decided_before,
    decided_by_other_versions,
    explain,
    measured_before,
    of_other_versions,
    summary_lines,
)
from ..store.row import StoredCost, read_lines, to_line
from ..store.salvage import salvage
from ..tuning.transfer.shipped import made, shipped_kernels, shipped_log
from . import tell

_logger = logging.getLogger(__name__)


def _filters(options: argparse.Namespace) -> dict[str, str]:
    return {name: getattr(options, name) for name in ("candidate", "backend", "status")}


def _path(options: argparse.Namespace) -> Path:
    path, _ = store_path(options.store)
    if path is None:
        raise CollageError("there is no store (COLLAGE_STORE=none): name its file by --store")
    return path


def _working(options: argparse.Namespace, file: object) -> contextlib.AbstractContextManager[None]:
    """Return a block around what may last, with a store of many costs."""
    return one_step("store", str(file), options.progress)


@contextlib.contextmanager
def _open(options: argparse.Namespace, **how: Any) -> Iterator[CostStore]:
    path = _path(options)
    with _working(options, path), CostStore(path, **how) as store:
        yield store


def list_costs(options: argparse.Namespace) -> int:
    with _open(options, create=False, write=False) as store:
        rows = store.rows(**_filters(options))
    failed = sum(row.cost.is_failure for row in rows)
    busy = sum(row.cost.is_busy for row in rows)
    left = f", {busy} from a busy machine" if busy else ""
    total = f"{len(rows)} costs, {failed} of them failures{left}; {store.path}"
    tell(options, [row.to_json() for row in rows], [*map(_text, rows), total])
    return 0


def _text(row: StoredCost) -> str:
    key = row.key
    backend = f"{key.backend} {key.backend_version}".strip()
    tuned = json.loads(key.options).get(TUNING, "")
    label = f"{row.label} with records {tuned}" if tuned else row.label
    return "  ".join([key.candidate, row.measured_at[:19], backend, label, row.cost.Summary()])


def list_decisions(options: argparse.Namespace) -> int:
    with _open(options, create=False, write=False) as store:
        rows = Decisions(store).rows()
    total = f"{len(rows)} decisions; {store.path}"
    tell(options, [row.to_json() for row in rows], [*(row.Summary() for row in rows), total])
    return 0


def explain_costs(options: argparse.Namespace) -> int:
    with _open(options, create=False, write=False) as store:
        explained = explain(store.rows(**_filters(options)), dict(options.set))
    if not explained:
        wrong = OptionError if options.candidate else CollageError
        raise wrong("no cost in the store is of these: such candidates were never measured")
    texts = [item.Summary() for item in explained]
    lines = texts if options.candidate else summary_lines(explained)
    tell(options, [item.to_json() for item in explained], lines)
    return 0


def export_costs(options: argparse.Namespace) -> int:
    if options.salvage:
        path = _path(options)
        with _working(options, path):
            rows = salvage(path)
    else:
        with _open(options, create=False, write=False) as store:
            rows = store.rows(**_filters(options))
    if options.output == "-":
        sys.stdout.writelines(map(to_line, rows))
    else:
        check_file_path(options.output, "--output", is_appended=True)
        with open(options.output, "w", encoding="utf-8") as file:
            file.writelines(map(to_line, rows))
    if not (options.quiet or is_json_lines(options)):
        print(f"collage: {len(rows)} costs exported", file=sys.stderr)
    return 0


def import_costs(options: argparse.Namespace) -> int:
    if options.input == "-":
        rows = read_lines(sys.stdin, "standard input")
    else:
        with _working(options, options.input), open(options.input, encoding="utf-8") as file:
            rows = read_lines(file, options.input)
    with _open(options) as store:
        changed = store.merge(rows)
    counts = {"read": len(rows), "changed": changed, "store": str(store.path)}
    line = f"{len(rows)} costs read, {changed} of them new or newer; {store.path}"
    tell(options, counts, [line])
    return 0


def prune_costs(options: argparse.Namespace) -> int:
    filters = _filters(options)
    if not (any(filters.values()) or options.other_versions or options.older_than is not None):
        raise OptionError(
            "prune removes nothing unless told what: give a hash, --backend, --status, "
            "--older-than or --other-versions"
        )
    with _open(options, create=False, write=not options.dry_run) as store:
        everything, rows = store.rows(), store.rows(**filters)
        if options.older_than is not None:
            rows = measured_before(rows, options.older_than)
        if options.other_versions:
            rows = of_other_versions(rows)
        decisions = [] if any(filters.values()) else _decisions_to_prune(store, options)
        removed = 0 if options.dry_run or not rows else store.remove(rows)
        if not options.dry_run and decisions:
            Decisions(store).remove(decisions)
        if not options.dry_run and (removed or decisions):
            try:
                store.shrink()
            except StoreError as error:
                _logger.warning("removed, but the file is as large as it was: %s", error)
    kept = len(everything) - removed
    report = {
        "removed": removed,
        "rows": [row.to_json() for row in rows],
        "kept": kept,
        "decisions": [row.to_json() for row in decisions],
    }
    done = f"{len(rows)} would be removed" if options.dry_run else f"{removed} removed"
    if decisions:
        done += f", and {len(decisions)} decisions"
    lines = [*map(_text, rows), *(row.Summary() for row in decisions)]
    tell(options, report, [*lines, f"{len(everything)} costs, {done}; {store.path}"])
    return 0


def _decisions_to_prune(store: CostStore, options: argparse.Namespace) -> list[StoredDecision]:
    rows = Decisions(store).rows()
    if options.older_than is not None:
        rows = decided_before(rows, options.older_than)
    return decided_by_other_versions(rows) if options.other_versions else rows


def show_shipped(options: argparse.Namespace) -> int:
    path, bits = shipped_log(), vector_bits()
    with _working(options, path):
        facts = made(path) if path else {}
        kernels = shipped_kernels()
    lines = [f"none for this CPU, whose vectors have {bits} bits"]
    if path is not None:
        count = f"schedules of {len(kernels)} kernels, for vectors of {bits} bits; {path}"
        lines = [count, _made_text(facts)]
    rows = [kernel.to_json() for kernel in kernels]
    answer = {"file": str(path or ""), "bits": bits, "made": facts, "kernels": rows}
    tell(options, answer, lines)
    return 0


def _made_text(facts: dict[str, Any]) -> str:
    """Say how a file of schedules was made; it is a log, which need not say."""
    if not facts:
        return "the file does not say how it was made"
    nets = ", ".join(
        f"{net} (at least {trials} trials a kernel)" for net, trials in facts["nets"].items()
    )
    return (
        f"made for {nets}, on {facts['cpu']}, {facts['threads']} threads, with TVM "
        f"{facts['tvm']}, {facts['date']}"
    )


def check_store(options: argparse.Namespace) -> int:
    count, decided, path = 0, 0, _path(options)
    try:
        with _open(options, create=False, write=False) as store:
            decisions = Decisions(store)
            problems = [*store.problems(), *decisions.problems()]
            count, decided = len(store.rows()), len(decisions.rows())
    except StoreOlderError:
        raise  # no fault
    except StoreError as error:
        problems = [str(error)]
    counts = {"costs": count, "decisions": decided}
    report = {"store": str(path), "sound": not problems, **counts, "problems": problems}
    verdict = "FAULTY" if problems else f"sound, {count} costs, {decided} decisions"
    tell(options, report, [*problems, f"{path}: {verdict}"])
    return 1 if problems else 0
