# SPDX-License-Identifier: Apache-2.0
"""Is each net right on each backend alone? Its outputs, beside onnxruntime's on the ONNX model.

    python bench/outputs.py --nets mobilenetv2,mobilenetv2_int8 --backends dnnl,openvino

A backend takes all that it can, TVM the rest. A line each, then a table; ends with 1 when an output
is off by more than its type allows, or when a build or run fails. Docs: docs/accuracy.md.
Test: bench/test_outputs.py.
"""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import models
import numpy as np
import tvm
from harness import arguments
from harness.contestants import PEERS, arrays_of
from harness.sides import Files, files_of, prepared
from harness.tables import markdown_table
from tvm.relay.collage import host_target
from tvm.relay.collage.backends import get_backend, greedy_partition, list_backends
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.exec.arrays import save_arrays
from tvm.relay.collage.measure import Contestant, RaceOptions, output_error
from tvm.relay.collage.measure.outputs.tolerance import OUTPUT, output_tolerance
from tvm.relay.collage.measure.race.race import race
from tvm.relay.collage.messages.foreign import last_line

TVM = "tvm"
# By how much, at most, rounding moves a number of a type.
_ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "8 bit": 2.0**-8}


class Row(NamedTuple):
    """A net on a backend: error is max|a-b| / max|b| and limit the most of it, failure says why
    there is none; parts are those of the backend, 0 where it takes nothing."""

    net: str
    backend: str
    parts: int
    error: float | None
    limit: float
    failure: str = ""

    @property
    def is_right(self) -> bool:
        return not self.failure and self.error is not None and self.error <= self.limit

    def Summary(self) -> str:
        if self.failure:
            return f"{self.net:20}{self.backend:16}FAILED: {self.failure}"
        if self.error is None:
            return f"{self.net:20}{self.backend:16}takes nothing"
        verdict = "" if self.is_right else "  WRONG"
        text = f"{self.net:20}{self.backend:16}{self.parts:5} parts  error {self.error:.1e}"
        return f"{text} (limit {self.limit:g}){verdict}"


def compare_net(
    net: models.Net, backends: Sequence[str], rtol: float | None, threads: int
) -> Iterator[Row]:
    """A row for TVM and each backend. FileNotFoundError for a real net whose file is not there."""
    with files_of(net, threads) as files:
        right = _outputs(files.peer("onnxruntime"))
        if isinstance(right, str):
            yield Row(net.name, "onnxruntime", 0, None, 0.0, f"no reference: {right}")
            return
        mod = prepared(files.model)
        exact = output_tolerance(mod) if rtol is None else rtol

        @functools.cache
        def limit_of(trades: str) -> float:
            limit = max(exact, OUTPUT[trades]) if trades else exact
            if rtol is not None:
                return limit
            return max(limit, 3 * _moved_by_rounding(trades or "float32", files, right))

        for backend in (TVM, *backends):
            limit = limit_of("" if backend == TVM else get_backend(backend).trades_accuracy)
            row = Row(net.name, backend, 0, None, limit)
            library = str(files.folder / f"{backend}.so")
            try:
                placed = mod if backend == TVM else greedy_partition(mod, backend)
                parts = len(placed.get_global_vars()) - len(mod.get_global_vars())
                row = row._replace(parts=parts)
                if not parts and backend != TVM:
                    yield row
                    continue
                with tvm.transform.PassContext(opt_level=3):
                    build_library(placed, host_target()).export_library(library)
            except Exception as error:  # noqa: BLE001 - one line of the table, not the end of it
                yield row._replace(failure=f"build: {last_line(error)}")
                continue
            found = _outputs(Contestant.of_library(backend, library, files.inputs))
            Path(library).unlink()
            if isinstance(found, str):
                yield row._replace(failure=found)
            else:
                yield row._replace(error=output_error(found, right))


def _moved_by_rounding(dtype: str, files: Files, right: list[np.ndarray]) -> float:
    """The error of the reference's own outputs when each number of its inputs is rounded once in
    that type: in a net that enlarges it, nobody's outputs are known better. 0 where it fails."""
    step, rng = _ROUNDING[dtype], np.random.default_rng(0)
    arrays = arrays_of(files.inputs)
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            moves = 1 + step * rng.uniform(-1, 1, array.shape)
            arrays[name] = (array * moves).astype(array.dtype)
    moved = files.folder / "moved.npz"
    save_arrays(moved, arrays)
    peer = PEERS["onnxruntime"].contestant(files.file, str(moved), files.environment)
    found = _outputs(peer)
    return 0.0 if isinstance(found, str) else output_error(found, right)


def _outputs(contestant: Any) -> list[np.ndarray] | str:
    """Of a process of its own; why there are none."""
    samples = race([contestant], RaceOptions(rounds=1))[contestant.name]
    return samples.outputs if samples.failure is None else samples.failure.Summary()


def table(rows: Sequence[Row]) -> str:
    """Errors by net and backend, in Markdown."""
    backends = list(dict.fromkeys(row.backend for row in rows))
    found = {(row.net, row.backend): row for row in rows}
    nets = dict.fromkeys(row.net for row in rows)
    cells = [[net, *(_cell(found.get((net, backend))) for backend in backends)] for net in nets]
    return markdown_table(["net", *backends], cells)


def _cell(row: Row | None) -> str:
    if row is None or (row.error is None and not row.failure):
        return "-"
    if row.failure:
        return "failed"
    return f"{row.error:.1e}" if row.is_right else f"**{row.error:.1e}**"


def main(given: Sequence[str] | None = None) -> int:
    parser = arguments.make_parser(__doc__, nets="all", backends=None, threads=None)
    parser.add_argument("--rtol", type=float, help="largest error (default: by the net's types)")
    parser.add_argument(
        "--output", type=Path, help="file that the rows are added to, as JSON lines"
    )
    options = parser.parse_args(given)
    if options.rtol is not None and not 0 <= options.rtol < math.inf:
        parser.error("--rtol must be at least 0")
    backends = options.backends
    if backends is None:
        backends = [each.name for each in list_backends() if each.available() is None]
    rows: list[Row] = []
    for net in options.nets:
        try:
            for row in compare_net(net, backends, options.rtol, options.threads):
                print(row.Summary(), flush=True)
                rows.append(row)
                if options.output:
                    with options.output.open("a") as stream:
                        stream.write(json.dumps(row._asdict()) + "\n")
        except FileNotFoundError as error:
            print(f"{net.name}: left out: {error}", file=sys.stderr)
    print(table(rows), end="")
    is_fine = all(row.is_right or (row.error is None and not row.failure) for row in rows)
    return 0 if rows and is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
