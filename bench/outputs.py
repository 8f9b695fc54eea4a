# SPDX-License-Identifier: Apache-2.0
"""Is each net right on each backend alone? Its outputs, beside onnxruntime's on the ONNX model.

    python bench/outputs.py --nets mobilenetv2,mobilenetv2_int8 --backends dnnl,openvino

A backend takes all that it can, TVM the rest. A line each, then a table; ends with 1 when an output
is off by more than its type allows, or when a build or run fails. Docs: docs/accuracy.md.
Test: bench/test_outputs.py.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import models
import numpy as np
from peer.contestants import PEERS

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


def compare_net(net: models.Net, backends: Sequence[str], rtol: float | None) -> Iterator[Row]:
    """A row for TVM and each backend. FileNotFoundError for a real net whose file is not there."""
    import tvm
    from tvm.relay.collage import host_target
    from tvm.relay.collage.backends import get_backend, greedy_partition
    from tvm.relay.collage.compile import build_library, prepare
    from tvm.relay.collage.costs.tolerance import OUTPUT, output_tolerance

    model = net.build(1)
    count = os.environ.get("TVM_NUM_THREADS", "2")
    with tempfile.TemporaryDirectory(prefix="collage-outputs-") as name:
        folder = Path(name)
        file, inputs = models.save(net, model, folder)
        reference = functools.partial(
            PEERS["onnxruntime"].contestant, file, environment={"TVM_NUM_THREADS": count}
        )
        right = _outputs(reference(inputs))
        if isinstance(right, str):
            yield Row(net.name, "onnxruntime", 0, None, 0.0, f"no reference: {right}")
            return
        host = host_target()
        with tvm.transform.PassContext(opt_level=3):
            mod, params = models.to_relay(model)
            del model
            prepared = prepare(mod, params, host)
        exact = output_tolerance(prepared) if rtol is None else rtol

        @functools.cache
        def limit_of(trades: str) -> float:
            limit = max(exact, OUTPUT[trades]) if trades else exact
            if rtol is not None:
                return limit
            return max(limit, 3 * _moved_by_rounding(trades or "float32", reference, inputs, right))

        for backend in (TVM, *backends):
            trades = "" if backend == TVM else get_backend(backend).trades_accuracy
            limit = limit_of(trades)
            library, parts = str(folder / f"{backend}.so"), 0
            try:
                placed = prepared if backend == TVM else greedy_partition(prepared, backend)
                parts = len(placed.get_global_vars()) - len(prepared.get_global_vars())
                if not parts and backend != TVM:
                    yield Row(net.name, backend, 0, None, limit)
                    continue
                with tvm.transform.PassContext(opt_level=3):
                    build_library(placed, host).export_library(library)
            except Exception as error:  # noqa: BLE001 - one line of the table, not the end of it
                last = (str(error).strip() or repr(error)).splitlines()[-1]
                yield Row(net.name, backend, parts, None, limit, f"build: {last}")
                continue
            yield _compare(Row(net.name, backend, parts, None, limit), library, inputs, right)


def _compare(row: Row, library: str, inputs: str, right: list[np.ndarray]) -> Row:
    from tvm.relay.collage.measure import Contestant
    from tvm.relay.collage.timing.comparison import output_error

    found = _outputs(Contestant.of_library(row.backend, library, inputs))
    Path(library).unlink()
    if isinstance(found, str):
        return row._replace(failure=found)
    return row._replace(error=output_error(found, right))


def _moved_by_rounding(
    dtype: str, reference: Callable[[str], Any], inputs: str, right: list[np.ndarray]
) -> float:
    """The error of the reference's own outputs when each number of its inputs is rounded once in
    that type: in a net that enlarges it, nobody's outputs are known better. 0 where it fails."""
    from tvm.relay.collage.exec.arrays import save_arrays
    from tvm.relay.collage.timing.comparison import output_error

    step, rng = _ROUNDING[dtype], np.random.default_rng(0)
    moved = str(Path(inputs).with_name("moved.npz"))
    with np.load(inputs) as values:
        arrays = {name: values[name] for name in values.files}
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            moves = 1 + step * rng.uniform(-1, 1, array.shape)
            arrays[name] = (array * moves).astype(array.dtype)
    save_arrays(moved, arrays)
    found = _outputs(reference(moved))
    return 0.0 if isinstance(found, str) else output_error(found, right)


def _outputs(contestant: Any) -> list[np.ndarray] | str:
    """Of a process of its own; why there are none."""
    from tvm.relay.collage.measure import measure_interleaved

    samples = measure_interleaved([contestant], rounds=1)[contestant.name]
    return samples.outputs if samples.failure is None else samples.failure.Summary()


def table(rows: Sequence[Row]) -> str:
    """Errors by net and backend, in Markdown."""
    backends = list(dict.fromkeys(row.backend for row in rows))
    found = {(row.net, row.backend): row for row in rows}
    lines = [f"| net | {' | '.join(backends)} |", f"|---|{'---|' * len(backends)}"]
    for net in dict.fromkeys(row.net for row in rows):
        cells = [_cell(found.get((net, backend))) for backend in backends]
        lines.append(f"| {net} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: Row | None) -> str:
    if row is None or (row.error is None and not row.failure):
        return "-"
    if row.failure:
        return "failed"
    return f"{row.error:.1e}" if row.is_right else f"**{row.error:.1e}**"


def main(arguments: Sequence[str] | None = None) -> int:
    from tvm.relay.collage.backends import list_backends, require_backend

    parser = argparse.ArgumentParser(prog="bench/outputs.py", description=__doc__.splitlines()[0])
    parser.add_argument("--nets", default="all", help="names with commas between (default: all)")
    parser.add_argument("--backends", help="external ones (default: all that can run here)")
    parser.add_argument("--rtol", type=float, help="largest error (default: by the net's types)")
    parser.add_argument(
        "--output", type=Path, help="file that the rows are added to, as JSON lines"
    )
    options = parser.parse_args(arguments)
    if options.rtol is not None and not 0 <= options.rtol < math.inf:
        parser.error("--rtol must be at least 0")
    try:
        nets = models.find(options.nets)
        names = options.backends and [each.strip() for each in options.backends.split(",")]
        backends = [require_backend(each).name for each in names or [] if each]
    except (ValueError, RuntimeError) as error:  # RuntimeError: a backend that cannot run here
        parser.error(str(error))
    if names is None:
        backends = [each.name for each in list_backends() if each.available() is None]
    rows: list[Row] = []
    for net in nets:
        try:
            for row in compare_net(net, backends, options.rtol):
                print(row.Summary(), flush=True)
                rows.append(row)
                if options.output:
                    with options.output.open("a") as stream:
                        stream.write(json.dumps(row._asdict()) + "\n")
        except FileNotFoundError as error:
            print(f"{net.name}: left out: {error}", file=sys.stderr)
    print(table(rows))
    is_fine = all(row.is_right or (row.error is None and not row.failure) for row in rows)
    return 0 if rows and is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
