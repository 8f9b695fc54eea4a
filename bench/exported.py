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
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import tvm
from peer.alone import build_alone, prepared
from peer.contestants import PEERS
from peer.sides import print_each, ratio_text, usable_by_name, with_threads
from tvm.relay.collage.backends import UnsupportedOpError, get_backend
from tvm.relay.collage.backends.onnx_model import export_function
from tvm.relay.collage.exec.arrays import save_arrays
from tvm.relay.collage.measure import Comparison, Contestant, compare
from tvm_collage.threads import default_threads

ORIGINAL, EXPORTED, RUNTIME = "original", "exported", "through our runtime"
# What OpenVINO lists beside the nodes that it executes.
_NOT_EXECUTED = {"Const", "Input", "Output"}
# An output may differ by so much of its largest value: fused differently, sums round differently.
_RTOL = 1e-3


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, help="ONNX models of static shapes")
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help=f"of {list(LIBRARIES)}")
    parser.add_argument("--rounds", type=int, default=0, help="of measuring; 0: none")
    parser.add_argument("--runtime", action="store_true", help="measure Collage's library as well")
    parser.add_argument("--threads", type=int, default=default_threads())
    options = parser.parse_args(arguments)
    options.libraries = options.libraries.split(",")
    unknown = set(options.libraries) - set(LIBRARIES)
    if unknown:
        parser.error(f"--libraries: {', '.join(sorted(unknown))}: choose of {list(LIBRARIES)}")
    left_out = (OSError, RuntimeError, UnsupportedOpError, tvm.TVMError)
    return print_each(
        options.files, lambda file: file.stem, lambda file: lines_of(file, options), left_out
    )


def lines_of(file: Path, options: argparse.Namespace) -> Iterator[str]:
    """A file's lines. UnsupportedOpError where the net has what is not exported, TVMError where it
    is not imported, RuntimeError for a side that fails or whose outputs are others."""
    with tempfile.TemporaryDirectory(prefix="collage-exported-") as folder:
        yield from beside_each_other(file, Path(folder), options)


def beside_each_other(file: Path, folder: Path, options: argparse.Namespace) -> Iterator[str]:
    model = onnx.load(file)
    mod = prepared(model)
    ours = folder / "exported.onnx"
    names = [param.name_hint for param in mod["main"].params]
    inputs = made_up_inputs(model)
    given, numbered = str(folder / "given.npz"), str(folder / "numbered.npz")
    save_arrays(Path(given), inputs)
    save_arrays(Path(numbered), {f"input_{i}": inputs[name] for i, name in enumerate(names)})
    environment = with_threads(options.threads)
    for library in options.libraries:
        # Whole, with what the backend would leave to TVM.
        preferred = get_backend(library).preferred_operators
        onnx.save(export_function(mod["main"], library, preferred=preferred), ours)
        before, after = (LIBRARIES[library](path, folder) for path in (file, ours))
        yield f"{file.stem:24s}{library:12s}{text_of_counts(before, after)}"
        if not options.rounds:
            continue
        peer = PEERS[library]
        sides = [
            dataclasses.replace(peer.contestant(str(path), arrays, environment), name=name)
            for name, path, arrays in ((ORIGINAL, file, given), (EXPORTED, ours, numbered))
        ]
        if options.runtime:
            built = str(folder / f"{library}.so")
            build_alone(mod, library).export_library(built)
            sides.append(Contestant.of_library(RUNTIME, built, given, environment=environment))
        yield text_of_times(compare(sides, ORIGINAL, options.rounds, _RTOL))


def made_up_inputs(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Arrays by input name: normal random numbers, ones for what is not float (ids, masks)."""
    rng, arrays = np.random.default_rng(0), {}
    weights = {item.name for item in model.graph.initializer}
    for item in model.graph.input:
        if item.name not in weights:
            tensor = item.type.tensor_type
            shape = [dim.dim_value for dim in tensor.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            array = rng.standard_normal(shape) if dtype.kind == "f" else np.ones(shape)
            arrays[item.name] = array.astype(dtype)
    return arrays


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
    lines, by_name = [], usable_by_name(found)
    for item in found:
        figures = f"{1e3 * item.cost.seconds:8.2f} ms  {ratio_text(item, by_name[ORIGINAL], '.3f')}"
        lines.append(f"  {item.name:22s}{figures}  off by {item.output_error:.1e}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
