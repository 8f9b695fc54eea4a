# SPDX-License-Identifier: Apache-2.0
"""`collage tt info, distil, split`: what models and logs have, without a trial.

Test: cli/test_tt.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...costs.cost import format_seconds
from ...errors import OptionError
from ...files.text import check_file_path, make_folder, write_whole
from ...importer.onnx_file import check_is_file
from ...tuning import TuningLogError
from ...tuning.ansor_kernel import AnsorKernel, to_comment
from ...tuning.log import best_lines, kernels_of
from ...tuning.transfer.log import read_given
from ...tuning.transfer.sources import HOW_TO_TELL, are_timed, distil, shares
from ...tuning.tuner import Line
from .common import kernels_of_model, print_facts
from .kernel_text import texts_of


def list_kernels(options: argparse.Namespace) -> int:
    models = [path for path in options.input if path.suffix == ".onnx"]
    logs = [path for path in options.input if path.suffix != ".onnx"]
    for path in models:
        check_is_file(path)
    try:
        lines = [line for path in logs for line in read_given(path)]
    except TuningLogError as error:
        raise TuningLogError(f"{error.text}; a model is named by its ONNX file (*.onnx)") from None
    in_models = [kernel for path in models for kernel in kernels_of_model(path, options)]
    kernels = _joined(in_models, kernels_of(*logs))
    trials = Counter((line.workload, line.target) for line in lines)
    best = {
        (line.workload, line.target): line.seconds
        for line in best_lines(lines)
        if line.seconds is not None
    }
    targets = sorted({line.target for line in lines})
    # The times of two targets say nothing together.
    seconds = {workload: each for (workload, _), each in best.items() if len(targets) == 1}
    share, texts = shares(kernels, seconds), texts_of(kernels)
    rows = [
        {
            **kernel.to_json(),
            "text": texts[kernel.workload],
            "share_of_class": share[kernel.kind],
            "target": target,
            "trials": trials[kernel.workload, target],
            "seconds": best.get((kernel.workload, target)),
        }
        for kernel in sorted(kernels, key=lambda kernel: (-share[kernel.kind], -kernel.operations))
        for target in [each for each in targets if trials[kernel.workload, each]] or [""]
    ]
    unit = "time" if are_timed(kernels, seconds) else "operations"
    unknown = {workload for workload, _ in trials} - {kernel.workload for kernel in kernels}
    if options.json:
        found = {"kernels": rows, "share_of": unit, "unknown_workloads": sorted(unknown)}
        print(json.dumps(found, indent=1))
        return 0
    for kind, part in sorted(share.items(), key=lambda item: -item[1]):
        members = sum(kernel.kind == kind for kernel in kernels)
        count = f"{members} kernel{'s' * (members > 1)}"
        print(f"class {kind}: {count}, {100 * part:.0f} % of the {unit}")
        for row in rows:
            if row["kind"] == kind:
                print(f"  {_kernel_text(row, tells_target=len(targets) > 1)}")
    if unknown:
        print(
            f"{len(unknown)} workloads have trials, but no comment of a log says what kernels they "
            f"are; {HOW_TO_TELL}"
        )
    return 0


def _joined(
    in_models: Iterable[AnsorKernel], in_logs: Mapping[str, AnsorKernel]
) -> list[AnsorKernel]:
    """Return each kernel once, called as often as the models call it together, or as a log tells of
    one that is in no model."""
    kernels, calls = dict(in_logs), Counter[str]()
    for kernel in in_models:
        calls[kernel.workload] += kernel.calls
        kernels[kernel.workload] = dataclasses.replace(kernel, calls=calls[kernel.workload])
    return list(kernels.values())


def distil_logs(options: argparse.Namespace) -> int:
    lines = [line for path in options.logs for line in read_given(path)]
    best = distil(lines, options.best)
    _write({options.output: best}, options.logs)
    print_facts(options, {"trials": len(lines), "kept": len(best)})
    return 0


def split_logs(options: argparse.Namespace) -> int:
    lines = [line for path in options.logs for line in read_given(path)]
    kernels = kernels_of(*options.logs)
    groups: dict[str, list[Line]] = {}
    for line in lines:
        kernel = kernels.get(line.workload)
        groups.setdefault(kernel.kind if kernel else "unknown", []).append(line)
    make_folder(options.output, "--output")
    files = {options.output / f"{kind}.jsonl": lines for kind, lines in groups.items()}
    _write(files, options.logs)
    print_facts(options, {kind: len(lines) for kind, lines in groups.items()})
    return 0


def _write(groups: dict[Path, list[Line]], logs: Iterable[Path]) -> None:
    """Write new logs with these trials and their kernels, each at once or not at all. OptionError
    before any is written where one is there already."""
    for path in groups:
        if path.exists():
            raise OptionError(f"{path} exists already: name another, or remove it")
        check_file_path(str(path), "--output")
    kernels = kernels_of(*logs)
    for path, lines in groups.items():
        workloads = dict.fromkeys(line.workload for line in lines)
        known = [to_comment(kernels[each]) for each in workloads if each in kernels]
        write_whole(str(path), "\n".join([*known, *(line.text for line in lines), ""]))


def _kernel_text(row: dict[str, Any], tells_target: bool) -> str:
    tried = f", {row['trials']} trial{'s' * (row['trials'] > 1)}" if row["trials"] else ""
    if tried and tells_target:
        tried += f" for {row['target']}"
    best = f", best {format_seconds(row['seconds'])}" if row["seconds"] else ""
    return f"{row['calls']} x {row['text']}{tried}{best}"
