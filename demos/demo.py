# SPDX-License-Identifier: Apache-2.0
"""Real models through Collage: parts on the backend measured fastest, beside each backend alone.

`make demo` runs this; ARGS="--help" lists the options. All that is printed is measured in the run
and also written as JSON. Beside that are a picture of each model's placement, and costs.sqlite with
the candidates' costs of the last run. Exit code 1 when an expectation is broken (see
demo_checks.py); what stays undecided is no fault.

Test: demos/test_demo.py.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import logging
import os
import platform
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from demo_checks import FINAL, broken_expectations, ratio_text, undecided
from demo_compare import ONNXRUNTIME, holds_one
from demo_models import MODELS, DemoModel
from demo_settings import BOUNDED, QUICK
from tvm_collage.words import Effort

# What fits four minutes, but not on slow cores; others by --models.
DEFAULT = ("magika", "cls")
NOT_JUDGED = "A quick run: outputs are checked, speed is not judged."
# For the further rounds of each model, while it is undecided whether what ships is fast enough.
FURTHER_SECONDS = 5.0


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    began = time.perf_counter()
    options.collage["store"] = str(make_fresh_store(options.output.parent))
    # What the guard builds of each model is measured once more.
    options.collage["reuse_decision"] = False
    from tvm.relay.collage.report import make_console

    console = make_console()
    models, broken = [], []
    for name in options.models:
        try:
            with _without_advice_to_tune():
                record = run_model(MODELS[name](), options, console)
        except Exception as error:  # noqa: BLE001 - the other models still run
            broken.append(_describe_failure(name, error))
            continue
        record["broken"] = broken_expectations(record, judge_speed=not options.quick)
        record["undecided"] = "" if options.quick else undecided(record)
        if record["undecided"]:
            console.print(record["undecided"], highlight=False, markup=False)
        models.append(record)
        broken += record["broken"]
    report = {
        "machine": describe_machine(),
        "options": options.collage,
        "backends": options.backends,
        "rounds": options.rounds,
        "models": models,
        "broken": broken,
        "seconds": time.perf_counter() - began,
    }
    options.output.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n")
    if models:
        console.rule()
        console.print(mix_text(models, is_quick=options.quick), highlight=False, markup=False)
    console.print(f"{report['seconds']:.0f} s in all; the same numbers: {options.output}")
    if options.quick:
        console.print(NOT_JUDGED)
    for line in broken:
        print(f"demo: {line}", file=sys.stderr)
    return 1 if broken else 0


@contextlib.contextmanager
def _without_advice_to_tune() -> Iterator[None]:
    """TVM's warning that its kernels are not tuned, which is what `make demo-autotune` is about."""
    logger = logging.getLogger("autotvm")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def run_model(model: DemoModel, options: argparse.Namespace, console: Any) -> dict[str, Any]:
    """Compile, compare and print one model; its record as JSON values, times in seconds."""
    from demo_compare import measure_plans, read_outputs, reference_of
    from tvm.relay.collage.files.records import to_json
    from tvm.relay.collage.report import head_lines, plan_table, print_decision, print_titled

    console.rule(f"[bold]{model.title}")
    clock: dict[str, float] = {}
    with _phase("compile", clock):
        result = model.build(targets_of(options.backends), options.collage).collage
    with _phase("compare", clock):
        further = 0.0 if options.quick else FURTHER_SECONDS
        rows = measure_plans(model, result, options.rounds, further_seconds=further)
    text, reference_text = read_outputs(model, result)
    picture = options.output.with_name(f"{model.name}.svg")
    result.save_picture(picture)
    report, plans = result.record, to_json(rows)
    reference = reference_of(model)
    agrees = "as" if text == reference_text else f"NOT {reference_text!r} as"
    ships, _, _ = head_lines(report)
    spent = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in clock.items())
    for line in (
        f"It answers {text!r}, {agrees} {reference} does.",
        latency_text(report, rows) + (f" {NOT_JUDGED}" if options.quick else ""),
        f"{alone_text(plans)}.",
        f"{ships} ({spent})",
        f"What runs where, with times of the search's own measurement: {picture}",
    ):
        console.print(line, highlight=False, markup=False)
    if options.details:
        title = f"{model.name}: latency, {options.rounds} interleaved rounds or more"
        print_titled(title, plan_table(rows, notes={FINAL: f"is plan {result.plan}"}), console)
        print_decision(report, console)
    return {
        "name": model.name,
        "title": model.title,
        "text": text,
        "reference": reference,
        "reference_text": reference_text,
        "picture": picture.name,
        "plans": plans,
        "collage": report.to_json(),
        "summary": report.summary,
        "seconds": clock,
    }


def latency_text(report: Any, plans: Sequence[Any]) -> str:
    """Say how fast what ships is, beside the other plans; onnxruntime itself is none."""
    from tvm.relay.collage.report import head_lines

    beside = tuple(row for row in plans if row.name != ONNXRUNTIME)
    return head_lines(dataclasses.replace(report, plans=beside))[1]


def alone_text(plans: Sequence[Mapping[str, Any]]) -> str:
    """What each backend alone takes, the fastest first, and onnxruntime itself."""
    from tvm.relay.collage.costs.cost import format_seconds

    ran = sorted((row for row in plans if row["seconds"]), key=lambda row: row["seconds"])
    alone = [row for row in ran if row["is_single_backend"] or row["name"] == ONNXRUNTIME]
    times = [f"{row['name']} {format_seconds(row['seconds'])}" for row in alone]
    return f"Alone: {', '.join(times)}"


def mix_text(models: Sequence[Mapping[str, Any]], is_quick: bool = False) -> str:
    """On which models a mix of backends ships, and how much faster that is. Of a quick run, whose
    rounds are too few to judge speed by, none is called as fast as another."""
    from tvm.relay.collage.costs.statistics import Interval

    texts = []
    for model in models:
        final = next((row for row in model["plans"] if row["name"] == FINAL), None)
        if final and is_mix(model["plans"], model["collage"]):
            is_level = not is_quick and holds_one(Interval.from_json(final["ratio_to_best_single"]))
            beside = ": level with it" if is_level else ""
            ratio = f"{ratio_text(final)} as fast as the best backend alone"
            texts.append(f"{model['name']} ({ratio}{beside})")
    if not texts:
        none = "On none of these models does a mix of backends ship"
        return f"{none}." if is_quick else f"{none}: one backend alone is as fast."
    return f"A mix of backends ships on {', '.join(texts)}."


def is_mix(plans: Sequence[Mapping[str, Any]], report: Mapping[str, Any]) -> bool:
    """Whether what ships has parts of several backends, and is no backend alone by another name."""
    ships = report["plan"]
    if len({row["backend"] for row in report["placement"]}) < 2:
        return False
    same = {row["same_as"] for row in plans if row["name"] == ships}
    equal = [row for row in plans if {row["name"], row["same_as"]} & {ships, *same} - {""}]
    return not any(row["is_single_backend"] for row in equal if row["name"] != FINAL)


def targets_of(backends: Sequence[str]) -> list[Any]:
    """TVM and these backends, or all that can run here."""
    import tvm
    from tvm.relay import collage

    if not backends:
        return collage.available_targets()
    return [collage.host_target(), *map(tvm.target.Target, backends)]


def make_fresh_store(folder: Path) -> Path:
    """The demo's own store of costs, empty, so that every run measures."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "costs.sqlite"
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return path


def describe_machine() -> dict[str, Any]:
    """What the figures depend on."""
    import tvm
    from tvm.relay import collage

    return {
        "target": str(collage.host_target()),
        "threads": int(os.environ["TVM_NUM_THREADS"]),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "tvm": tvm.__version__,
        "system": platform.platform(),
    }


def _describe_failure(name: str, error: Exception) -> str:
    """One line; where it happened goes to standard error, unless the user has a file missing."""
    if not isinstance(error, FileNotFoundError):
        traceback.print_exception(error)
    lines = str(error).strip().splitlines() or [""]
    return f"{name}: {type(error).__name__}: {lines[-1].strip()}"


@contextlib.contextmanager
def _phase(name: str, clock: dict[str, float]):
    began = time.perf_counter()
    yield
    clock[name] = time.perf_counter() - began


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compile real models with Collage and check them.")
    parser.add_argument(
        "--models", default=",".join(DEFAULT), help="comma separated, of: " + ", ".join(MODELS)
    )
    parser.add_argument(
        "--backends", default="", help="comma separated; default: all that can run here"
    )
    parser.add_argument(
        "--rounds", type=int, default=24, help="rounds of the last comparison, at least"
    )
    parser.add_argument("--output", type=Path, default=Path("build/demo/result.json"))
    parser.add_argument(
        "--details", action="store_true", help="print tables of all plans and parts"
    )
    parser.add_argument(
        "--effort",
        choices=[str(effort) for effort in Effort],
        default=str(Effort.NORMAL),
        help="how long a better mix is looked for; default: %(default)s",
    )
    parser.add_argument("--quick", action="store_true", help="short; speed is not judged")
    options = parser.parse_args(arguments)
    options.models = options.models.split(",")
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"unknown models {', '.join(unknown)}: choose of {', '.join(MODELS)}")
    options.backends = _checked_backends(parser, options.backends)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    options.collage = {**(QUICK if options.quick else BOUNDED), "effort": options.effort}
    if options.quick:
        options.rounds = min(options.rounds, 5)
    return options


def _checked_backends(parser: argparse.ArgumentParser, text: str) -> list[str]:
    """Names with commas between; the parser's error for one that cannot run here."""
    names = [name for name in text.split(",") if name]
    if names:
        from tvm.relay.collage.backends import require_backend

        try:
            return [require_backend(name).name for name in names]
        except (RuntimeError, ValueError) as error:
            parser.error(f"--backends: {error}")
    return []


if __name__ == "__main__":
    sys.exit(main())
