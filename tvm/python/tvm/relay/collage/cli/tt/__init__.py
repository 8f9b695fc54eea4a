# SPDX-License-Identifier: Apache-2.0
"""`collage tt`: Transfer-Tuning, from logs of Ansor to schedules for another model.

Docs: docs/transfer.md. Test: cli/test_tt.py.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tvm

from ..errors import CollageError
from ..files import write_whole
from ..progress import steps
from ..targets import host_target
from ..transfer.choose import are_timed, scores, shares
from ..transfer.kernel import Kernel, to_comment
from ..transfer.log import distil, kernels_of, read_ansor, sources_of
from ..tuner.pipeline import Model, autoschedule, load_onnx, one_worker, open_model, transfer_to
from ..tuner.session import check_cost_model
from ..tuner.transfer import Transfer, Trial, best_of, outcomes
from ..tuning.logs import Line


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("tt", help="schedules of other models' kernels, tried on yours")
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    def add(name: str, run: Callable[..., int], help: str) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=help, description=help)
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=run)
        return action

    action = add("info", _info, "the kernels of a model (*.onnx) or of logs, by class")
    action.add_argument("input", nargs="+", type=Path)
    _add_model(action)
    action = add("autoschedule", _autoschedule, "have Ansor search a model's kernels")
    action.add_argument("model", type=Path, help="an ONNX file")
    _add_model(action)
    _add_log(action)
    action.add_argument("--trials", type=_positive, default=64, help="of each kernel (64)")
    action.add_argument("--search-model", choices=["xgb", "random"], default="xgb")
    action = add("distil", _distil, "keep the best trials of each kernel")
    action.add_argument("logs", nargs="+", type=Path)
    action.add_argument("--output", "-o", type=Path, required=True, help="a new log")
    action.add_argument("--best", type=_positive, default=1, help="of each kernel (1)")
    action = add("split", _split, "a log for each class of kernels")
    action.add_argument("logs", nargs="+", type=Path)
    action.add_argument("--output", "-o", type=Path, required=True, help="a folder")
    action = add("choose", _choose, "which of some logs promises most to a model")
    action.add_argument("model", type=Path, help="an ONNX file")
    action.add_argument("--from", dest="sources", nargs="+", type=Path, required=True)
    _add_model(action)
    action = add("transfer", _transfer, "try the schedules of logs on a model's kernels")
    action.add_argument("model", type=Path, help="an ONNX file")
    action.add_argument("--from", dest="sources", nargs="+", type=Path, required=True)
    action.add_argument(
        "--choose", action="store_true", help="of these logs, use the one that promises most"
    )
    action.add_argument("--best", type=_positive, default=1, help="of each source kernel (1)")
    _add_model(action)
    _add_log(action)


def _add_model(action: argparse.ArgumentParser) -> None:
    action.add_argument("--target", default="", help="a host target, else the usual one")
    action.add_argument(
        "--shape",
        metavar="INPUT=DIMS",
        type=_shape,
        action="append",
        default=[],
        help="of an input that the model leaves open, as x=1,3,224,224",
    )


def _add_log(action: argparse.ArgumentParser) -> None:
    action.add_argument("--log", type=Path, required=True, help="trials are appended to it")
    action.add_argument(
        "--seconds", type=_seconds, default=600.0, help="for all kernels together (600)"
    )
    action.add_argument(
        "--progress", choices=["auto", "rich", "lines", "quiet", "json"], default="auto"
    )


def _info(options: argparse.Namespace) -> int:
    models = [path for path in options.input if path.suffix == ".onnx"]
    logs = [path for path in options.input if path.suffix != ".onnx"]
    kernels = [kernel for path in models for kernel in _kernels_of_model(path, options)]
    lines = [line for path in logs for line in read_ansor(path)]
    for path in logs:
        kernels += kernels_of(path).values()
    seconds: dict[str, float] = {}
    for line in lines:
        if line.seconds is not None:
            seconds[line.workload] = min(line.seconds, seconds.get(line.workload, line.seconds))
    trials = Counter(line.workload for line in lines)
    unknown = set(trials) - {kernel.workload for kernel in kernels}
    share = shares(kernels, seconds)
    rows = [
        {
            **kernel.to_json(),
            "share_of_class": share[kernel.kind],
            "trials": trials[kernel.workload],
            "seconds": seconds.get(kernel.workload),
        }
        for kernel in sorted(kernels, key=lambda kernel: (-share[kernel.kind], -kernel.operations))
    ]
    if options.json:
        print(json.dumps({"kernels": rows, "unknown_workloads": sorted(unknown)}, indent=1))
        return 0
    unit = "time" if are_timed(kernels, seconds) else "operations"
    for kind, part in sorted(share.items(), key=lambda item: -item[1]):
        members = [row for row in rows if row["kind"] == kind]
        count = f"{len(members)} kernel{'s' * (len(members) > 1)}"
        print(f"class {kind}: {count}, {100 * part:.0f} % of the {unit}")
        for row in members:
            print(f"  {_kernel_text(row)}")
    if unknown:
        print(f"{len(unknown)} workloads have trials, but no log says what kernels they are")
    return 0


def _autoschedule(options: argparse.Namespace) -> int:
    check_cost_model(options.search_model, "autoschedule", "--search-model random")
    with one_worker() as workers:
        model = _open(options.model, options, workers)
        with steps("tuning", options.progress) as on_step:
            failed = autoschedule(
                model,
                workers,
                options.log,
                options.trials,
                options.seconds,
                options.search_model,
                on_step,
            )
    names = {kernel.workload: kernel.name for kernel in model.kernels}
    counts = {"kernels": len(names), "searched": len(names) - len(failed)}
    _print(options, {**counts, "failed": {names[key]: why for key, why in failed.items()}})
    return 0 if counts["searched"] else 1


def _distil(options: argparse.Namespace) -> int:
    lines = [line for path in options.logs for line in read_ansor(path)]
    best = distil(lines, options.best)
    _write({options.output: best}, options.logs)
    _print(options, {"trials": len(lines), "kept": len(best)})
    return 0


def _split(options: argparse.Namespace) -> int:
    kernels = kernels_of(*options.logs)
    groups: dict[str, list[Line]] = {}
    for path in options.logs:
        for line in read_ansor(path):
            kernel = kernels.get(line.workload)
            groups.setdefault(kernel.kind if kernel else "unknown", []).append(line)
    options.output.mkdir(parents=True, exist_ok=True)
    files = {options.output / f"{kind}.jsonl": lines for kind, lines in groups.items()}
    _write(files, options.logs)
    _print(options, {kind: len(lines) for kind, lines in groups.items()})
    return 0


def _choose(options: argparse.Namespace) -> int:
    kernels = _kernels_of_model(options.model, options)
    found = _scores(kernels, options.sources)
    _print(options, {name: round(score, 3) for name, score in found.items()})
    return 0


def _transfer(options: argparse.Namespace) -> int:
    with one_worker() as workers:
        model = _open(options.model, options, workers)
        logs = list(options.sources)
        if options.choose:
            logs = [Path(next(iter(_scores(model.kernels, logs))))]
        transfer = Transfer(sources_of(logs, options.best), options.log, workers)
        with steps("tuning", options.progress) as on_step:
            trials = transfer_to(model, transfer, options.seconds, on_step)
    rows = [_transferred(kernel, trials[kernel.workload]) for kernel in model.kernels]
    all_trials = [trial for found in trials.values() for trial in found]
    served = sum(row["seconds"] is not None for row in rows)
    summary = {
        "from": list(map(str, logs)),
        "kernels": len(rows),
        "served": served,
        "outcomes": outcomes(all_trials),
        "log": str(options.log),
    }
    if options.json:
        reasons = Counter(trial.reason for trial in all_trials if trial.seconds is None)
        print(json.dumps({**summary, "reasons": reasons, "rows": rows}, indent=1))
    else:
        for row in rows:
            best = "-" if row["seconds"] is None else f"{1e6 * row['seconds']:.1f} us"
            print(f"{row['name']} {row['shape']}: {best} of {row['trials']} trials")
        _print(options, summary)
    return 0 if served else 1


def _transferred(kernel: Kernel, trials: Sequence[Trial]) -> dict[str, Any]:
    best = best_of(trials)
    return {
        "name": kernel.name,
        "workload": kernel.workload,
        "shape": list(kernel.shape),
        "trials": len(trials),
        "seconds": best.seconds if best else None,
        "from": best.source.kernel.workload if best else None,
    }


def _scores(kernels: Iterable[Kernel], logs: Sequence[Path]) -> dict[str, float]:
    """What each log promises to a model with these kernels, the best first. CollageError where no
    log has a schedule of any of its classes."""
    models = {str(path): [source.kernel for source in sources_of([path])] for path in logs}
    found = scores(shares(kernels, {}), models)
    if not any(found.values()):
        raise CollageError(
            f"no schedule in {', '.join(models)} is of a class of the model's kernels: name logs "
            "of models that are more like it (collage tt info tells the classes)"
        )
    return found


def _open(path: Path, options: argparse.Namespace, workers: Any) -> Model:
    target = tvm.target.Target(options.target) if options.target else host_target()
    return open_model(load_onnx(path, dict(options.shape)), target, path.name, workers)


def _kernels_of_model(path: Path, options: argparse.Namespace) -> list[Kernel]:
    with one_worker() as workers:
        return list(_open(path, options, workers).kernels)


def _write(groups: dict[Path, list[Line]], logs: Iterable[Path]) -> None:
    """New logs with these trials and their kernels, each at once or not at all. CollageError before
    any is written where one is there already."""
    for path in groups:
        if path.exists():
            raise CollageError(f"{path} exists already: name another, or remove it")
    kernels = kernels_of(*logs)
    for path, lines in groups.items():
        workloads = dict.fromkeys(line.workload for line in lines)
        known = [to_comment(kernels[each]) for each in workloads if each in kernels]
        write_whole(str(path), "\n".join([*known, *(line.text for line in lines), ""]))


def _print(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    if options.json:
        print(json.dumps(facts, indent=1))
    else:
        print("\n".join(f"{name}: {_text(value)}" for name, value in facts.items()))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {each}" for key, each in value.items()) or "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _kernel_text(row: dict[str, Any]) -> str:
    tried = f", {row['trials']} trial{'s' * (row['trials'] > 1)}" if row["trials"] else ""
    best = f", best {1e6 * row['seconds']:.1f} us" if row["seconds"] else ""
    shape = "x".join(map(str, row["shape"]))
    return f"{row['calls']} x {row['name']} {shape}{tried}{best}"


def _shape(text: str) -> tuple[str, list[int]]:
    name, equals, dims = text.partition("=")
    try:
        if name and equals:
            return name, [int(dim) for dim in dims.split(",")]
        raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no INPUT=DIMS, as x=1,3,224,224") from None


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds above 0")
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number
