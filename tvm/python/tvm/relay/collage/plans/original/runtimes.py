# SPDX-License-Identifier: Apache-2.0
"""Files of models run by the runtimes that they were made for, in a process of its own.

Each runtime computes as plainly as it can: what is wanted are right outputs, not fast ones.
Test: plans/original/test_runtimes.py.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...exec.arrays import PLAIN_DTYPES, load_arrays, save_arrays, sets_of
from ...exec.reply import Unsupported
from ...ops.onnx_session import dtype_of, session_of, sizes_of

Arrays = Mapping[str, np.ndarray]


class _Opened(NamedTuple):
    """A model to run."""

    by: str  # its runtime's name and version
    names: Sequence[str]  # of its outputs, where these are known
    # arrays by name -> outputs, sequences of tensors among them
    run: Callable[[Arrays], Sequence[Any]]


# Endings of models that an importer knows and no runtime here.
_OTHERS = (".h5", ".keras", ".pb", ".pdmodel")
_TFLITE = ("ai_edge_litert.interpreter", "tflite_runtime.interpreter")


def run_original(model: str, inputs: str, outputs: str, sets: int) -> dict[str, Any]:
    """Run a model's file on the inputs in an .npz file, of which `sets` are stacked (0: one set,
    which is not), and write what it gives to another; return `by`, the runtime's name and version,
    and the outputs' `names`, none where not each has one.

    Unsupported where no runtime of the file is installed, or where it answers otherwise each time.
    """
    rows = sets_of(load_arrays(inputs), sets)
    opened = _open(model)
    found = [array for row in rows for array in _flat(opened.run(row))]
    once_more = _flat(opened.run(rows[0]))
    for first, again in zip(found, once_more, strict=False):
        if not np.array_equal(first, again, equal_nan=first.dtype.kind == "f"):
            raise Unsupported("it answers otherwise each time it runs")
    save_arrays(outputs, {f"output_{i}": array for i, array in enumerate(found)})
    names = opened.names if len(opened.names) == len(once_more) else []
    return {"by": opened.by, "names": list(names)}


def runtime_versions() -> dict[str, str]:
    """Return the versions of the runtimes that are installed, by package."""
    found = {}
    for package in ("onnxruntime", "torch", *(name.partition(".")[0] for name in _TFLITE)):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _open(model: str) -> _Opened:
    ending = os.path.splitext(model)[1].lower()
    if ending in _OTHERS:
        raise Unsupported(f"nothing here runs a file *{ending}")
    openers = {".pt": _torch, ".pth": _torch, ".tflite": _tflite}
    return openers.get(ending, _onnx)(model)


def _onnx(model: str) -> _Opened:
    runtime = _imported("onnxruntime")
    session = session_of(model)

    def run(arrays: Arrays) -> Sequence[Any]:
        feeds = {}
        for each in session.get_inputs():
            if dtype_of(each) not in PLAIN_DTYPES:
                raise Unsupported(f"its input {each.name} is a {each.type}")
            # One that is not among the arrays is read by nothing.
            array = arrays.get(each.name, np.zeros(sizes_of(each)))
            feeds[each.name] = array.astype(dtype_of(each), copy=False)
        return session.run(None, feeds)

    names = [each.name for each in session.get_outputs()]
    return _Opened(f"onnxruntime {runtime.__version__}", names, run)


def _torch(model: str) -> _Opened:
    torch = _imported("torch")
    module = torch.jit.load(model, map_location="cpu").eval()
    names = [each.name for each in module.forward.schema.arguments][1:]

    def run(arrays: Arrays) -> Sequence[Any]:
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        if len(tensors) > 1 and not tensors.keys() <= set(names):
            raise Unsupported(f"its inputs are called {', '.join(names)}: give these names")
        with torch.inference_mode():
            found = module(**tensors) if len(tensors) > 1 else module(*tensors.values())
        return [each.numpy() for each in _leaves(found)]

    return _Opened(f"torch {torch.__version__}", [], run)


def _tflite(model: str) -> _Opened:
    module = _imported(*_TFLITE)
    interpreter = module.Interpreter(model_path=model)

    def run(arrays: Arrays) -> Sequence[Any]:
        details = interpreter.get_input_details()
        for each in details:
            interpreter.resize_tensor_input(each["index"], arrays[each["name"]].shape)
        interpreter.allocate_tensors()
        for each in details:
            interpreter.set_tensor(each["index"], arrays[each["name"]])
        interpreter.invoke()
        return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]

    package = module.__name__.partition(".")[0]
    names = [each["name"] for each in interpreter.get_output_details()]
    return _Opened(f"{package} {importlib.metadata.version(package)}", names, run)


def _imported(*names: str) -> Any:
    """Import the first of the modules that is installed."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    package = names[0].partition(".")[0].replace("_", "-")
    raise Unsupported(f"its runtime is not installed: pip install {package}")


def _leaves(value: object) -> list[Any]:
    """Return the tensors of tuples, lists and dicts."""
    fields = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(fields, list | tuple):
        return [value]
    return [leaf for field in fields for leaf in _leaves(field)]


def _flat(outputs: Sequence[Any]) -> list[np.ndarray]:
    """Return outputs as arrays. Unsupported for what is no tensor, and no sequence of them."""
    found = _leaves(list(outputs))
    if not all(isinstance(each, np.ndarray) and each.dtype != object for each in found):
        raise Unsupported("one of its outputs is no tensor of numbers")
    return found
