#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX files beside what Collage writes of them: a file is imported, prepared as for partitioning,
and written as one ONNX model again, which onnxruntime and OpenVINO should fuse as the original.

Printed for each library: the nodes that it executes of the original and of ours, then what ours has
more or fewer of, by type. With --rounds also the largest difference of the outputs and the time of
ours over the original's, each in the library's own Python API, with a 95 % interval; --runtime adds
Collage's library of the net on that backend alone.
Needs the environment that `make build` makes.
Run: python bench/exported.py net.onnx --rounds 20 --runtime. Test: bench/test_exported.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import tvm
from harness import arguments
from harness.contestants import PEERS
from harness.sides import files_of, prepared, print_each, ratio_text, usable_by_name
from harness.tables import text_table
from models import Net, random_inputs
from tvm.relay.collage.backends import UnsupportedOpError, get_backend
from tvm.relay.collage.backends.onnx_model import export_function
from tvm.relay.collage.exec.arrays import save_arrays
from tvm.relay.collage.measure import Comparison, compare

ORIGINAL, EXPORTED, RUNTIME = "original", "exported", "through our runtime"
# What OpenVINO lists beside the nodes that it executes.
_NOT_EXECUTED = {"Const", "Input", "Output"}
# An output may differ by so much of its largest value: fused differently, sums round differently.
_RTOL = 1e-3


def main(given: list[str] | None = None) -> int:
    parser = arguments.make_parser(__doc__, threads=None)
    parser.add_argument("files", nargs="+", type=Path, help="ONNX models of static shapes")
    libraries = arguments.chosen_of(LIBRARIES, "library")
    parser.add_argument("--libraries", type=libraries, default=",".join(LIBRARIES))
    parser.add_argument("--rounds", type=int, default=0, help="of measuring; 0: none")
    parser.add_argument("--runtime", action="store_true", help="measure Collage's library as well")
    options = parser.parse_args(given)
    left_out = (OSError, RuntimeError, UnsupportedOpError, tvm.TVMError)
    return print_each(
        options.files, lambda file: file.stem, lambda file: lines_of(file, options), left_out
    )


def lines_of(file: Path, options: argparse.Namespace) -> Iterator[str]:
    """A file's lines. UnsupportedOpError where the net has what is not exported, TVMError where it
    is not imported, RuntimeError for a side that fails or whose outputs are others."""
    net = Net(file.stem, file.name, lambda _: onnx.load(file), str(file))
    with files_of(net, options.threads) as files:
        mod = prepared(files.model)
        ours = files.folder / "exported.onnx"
        arrays = random_inputs(net, files.model)
        numbered = files.folder / "numbered.npz"
        names = [param.name_hint for param in mod["main"].params]
        save_arrays(numbered, {f"input_{i}": arrays[name] for i, name in enumerate(names)})
        for library in options.libraries:
            # Whole, with what the backend would leave to TVM.
            preferred = get_backend(library).preferred_operators
            onnx.save(export_function(mod["main"], library, preferred=preferred), ours)
            before, after = (LIBRARIES[library](path, files.folder) for path in (file, ours))
            yield f"{file.stem:24s}{library:12s}{text_of_counts(before, after)}"
            if not options.rounds:
                continue
            exported = PEERS[library].contestant(str(ours), str(numbered), files.environment)
            sides = [
                dataclasses.replace(files.peer(library), name=ORIGINAL),
                dataclasses.replace(exported, name=EXPORTED),
                *([files.alone(RUNTIME, mod, library)] if options.runtime else []),
            ]
            yield text_of_times(compare(sides, ORIGINAL, options.rounds, _RTOL))


def openvino_nodes(file: Path, folder: Path) -> Counter[str]:
    """The nodes by type that OpenVINO executes of a model."""
    import openvino

    core = openvino.Core()
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(file), "CPU", settings)
    nodes = compiled.get_runtime_model().get_ops()
    kinds = [node.get_rt_info()["layerType"].astype(str) for node in nodes]
    return Counter(kind for kind in kinds if kind not in _NOT_EXECUTED)


def onnxruntime_nodes(file: Path, folder: Path) -> Counter[str]:
    """The nodes by type that onnxruntime executes of a model, as it writes them into the folder."""
    import onnxruntime

    optimised = folder / "optimised.onnx"
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(optimised)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(optimised).graph.node)


LIBRARIES: dict[str, Callable[[Path, Path], Counter[str]]] = {
    "onnxruntime": onnxruntime_nodes,
    "openvino": openvino_nodes,
}


def text_of_counts(before: Counter[str], after: Counter[str]) -> str:
    """Both sums, and the types that differ, the largest difference first."""
    differences = {kind: after[kind] - before[kind] for kind in before | after}
    named = sorted((-abs(count), kind, count) for kind, count in differences.items() if count)
    listed = ", ".join(f"{kind} {count:+d}" for _, kind, count in named)
    return f"{before.total():5d} -> {after.total():5d}  {listed}".rstrip()


def text_of_times(found: list[Comparison]) -> str:
    """Each side's median and ratio to the original. RuntimeError for a side that failed."""
    by_name = usable_by_name(found)
    rows = [
        [
            item.name,
            f"{1e3 * item.cost.seconds:.2f}",
            ratio_text(item, by_name[ORIGINAL], ".3f"),
            f"{item.output_error:.1e}",
        ]
        for item in found
    ]
    return text_table(["side", "ms", "over the original", "off by"], rows)


if __name__ == "__main__":
    sys.exit(main())
