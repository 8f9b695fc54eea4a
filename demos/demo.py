# SPDX-License-Identifier: Apache-2.0
"""Real models through Collage: parts on the backend measured fastest, outputs and speed checked.

`make demo` runs this; ARGS="--help" lists the options. All that is printed is measured in the run
and also written as JSON; costs.sqlite beside it keeps the candidates' costs of the last run. Exit
code 1 when an expectation is broken (see demo_checks.py).

Test: demos/test_demo.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from demo_checks import broken_expectations
from demo_models import MODELS, DemoModel

# Candidates of up to so many calls, each timed for so long: less than the defaults, so that the
# whole demo ends within ten minutes on two cores.
OPTIONS = {"tvm_max_depth": 4, "byoc_max_depth": 4, "measure_seconds": 0.1}
# Only to see that everything works: speed is not judged.
QUICK_OPTIONS = {
    "tvm_max_depth": 1,
    "byoc_max_depth": 1,
    "measure_seconds": 0.01,
    "guard_rounds": 2,
}
BACKENDS = ("dnnl",)


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    began = time.perf_counter()
    options.collage["store"] = str(make_fresh_store(options.output.parent))
    from tvm.relay.collage.report import make_console

    console = make_console()
    models, broken = [], []
    for name in options.models:
        try:
            record = run_model(MODELS[name](), options, console)
        except Exception as error:  # noqa: BLE001 - the other models still run
            broken.append(_describe_failure(name, error))
            continue
        record["broken"] = broken_expectations(record, judge_speed=not options.quick)
        models.append(record)
        broken += record["broken"]
    report = {
        "machine": describe_machine(),
        "options": options.collage,
        "rounds": options.rounds,
        "models": models,
        "broken": broken,
        "seconds": time.perf_counter() - began,
    }
    options.output.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n")
    console.print(f"{report['seconds']:.0f} s in all; the same numbers: {options.output}")
    if options.quick:
        console.print("A quick run: outputs are checked, speed is not judged.")
    for line in broken:
        print(f"demo: {line}", file=sys.stderr)
    return 1 if broken else 0


def run_model(model: DemoModel, options: argparse.Namespace, console: Any) -> dict[str, Any]:
    """Import, compile, compare and print one model; its record as JSON values, times in seconds."""
    from demo_compare import measure_plans, read_outputs, reference_of
    from tvm.relay.collage.report import head_lines, plan_table, print_decision, print_titled

    console.rule(f"[bold]{model.title}")
    clock: dict[str, float] = {}
    with _phase("import", clock, console):
        mod, params = model.load()
    with _phase("compile", clock, console):
        result = compile_model(mod, params, options.collage).collage
    with _phase("compare", clock, console), _rounds_bar(console) as on_round:
        plans = measure_plans(model, result, options.rounds, on_round)
    text, reference_text = read_outputs(model, result)
    report = result.to_json()
    reference = reference_of(model)
    agrees = "as" if text == reference_text else f"NOT {reference_text!r} as"
    _, latency, _ = head_lines({**report, "plans": plans})
    ships, _, _ = head_lines(report)
    for line in (f"It answers {text!r}, {agrees} {reference} does.", latency, ships):
        console.print(line, highlight=False, markup=False)
    if options.details:
        title = f"{model.name}: latency, {options.rounds} interleaved rounds"
        print_titled(title, plan_table(plans), console)
        print_decision(report, console)
    return {
        "name": model.name,
        "title": model.title,
        "text": text,
        "reference": reference,
        "reference_text": reference_text,
        "plans": plans,
        "collage": report,
        "summary": report["summary"],
        "seconds": clock,
    }


def compile_model(mod: Any, params: dict[str, Any], options: dict[str, Any]) -> Any:
    """`relay.build` with Collage; `.collage` of the library tells what was decided."""
    import tvm
    from tvm import relay
    from tvm.relay import collage

    config = {f"relay.collage.{name}": value for name, value in options.items()}
    config["relay.collage.enable_collage"] = True
    targets = [collage.host_target(), *(tvm.target.Target(name) for name in BACKENDS)]
    with tvm.transform.PassContext(opt_level=3, config=config):
        return relay.build(mod, target=targets, params=params)


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
def _phase(name: str, clock: dict[str, float], console: Any):
    """Time a phase; say what is going on, since it may take minutes."""
    console.print(f"{name} ...", highlight=False)
    began = time.perf_counter()
    yield
    clock[name] = time.perf_counter() - began
    console.print(f"{name}: {clock[name]:.1f} s", highlight=False)


@contextlib.contextmanager
def _rounds_bar(console: Any):
    """A bar for rounds of measuring; yields on_round(done, rounds)."""
    from rich.progress import Progress

    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("rounds")
        yield lambda done, rounds: bar.update(task, completed=done, total=rounds)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compile real models with Collage and check them.")
    parser.add_argument(
        "--models", default=",".join(MODELS), help="comma separated, of: " + ", ".join(MODELS)
    )
    parser.add_argument("--rounds", type=int, default=40, help="rounds of the last comparison")
    parser.add_argument("--output", type=Path, default=Path("build/demo/result.json"))
    parser.add_argument(
        "--details", action="store_true", help="print tables of all plans and parts"
    )
    parser.add_argument("--quick", action="store_true", help="short; speed is not judged")
    options = parser.parse_args(arguments)
    options.models = options.models.split(",")
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"unknown models {', '.join(unknown)}: choose of {', '.join(MODELS)}")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    options.collage = dict(QUICK_OPTIONS if options.quick else OPTIONS)
    if options.quick:
        options.rounds = min(options.rounds, 5)
    return options


if __name__ == "__main__":
    sys.exit(main())
