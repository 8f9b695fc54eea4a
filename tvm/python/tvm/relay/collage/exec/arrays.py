# SPDX-License-Identifier: Apache-2.0
"""Tensors as numpy arrays to compare, arrays by name to run on: names may be any string, so none is
ever passed as a keyword. Test: test_low_precision.py, exec/test_arrays.py.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

# Types of elements that numpy and TVM, onnxruntime and OpenVINO know, and hold alike in memory.
PLAIN_DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
)


class Tensor(Protocol):
    """A tensor of TVM's, which nothing here imports."""

    dtype: Any

    def numpy(self) -> np.ndarray: ...


class Executor(Protocol):
    """A graph or AOT executor's module, by the names of its functions."""

    def __getitem__(self, name: str) -> Any: ...


def as_numbers(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return the array; values of bfloat16, which TVM gives as their bits, in float32."""
    if dtype != "bfloat16":
        return array
    return (array.view("uint16").astype("uint32") << 16).view("float32")


def numbers_of(tensor: Tensor) -> np.ndarray:
    """Return the numbers that a tensor holds."""
    return as_numbers(tensor.numpy(), tensor.dtype)


def view_of(tensor: Tensor) -> np.ndarray:
    """Return what a tensor holds, which nobody may write: its own memory where TVM hands numpy its
    type, as it does not bool, a copy of its bits where not."""
    is_handed = tensor.dtype in PLAIN_DTYPES - {"bool"}
    return np.from_dlpack(tensor) if is_handed else tensor.numpy()  # type: ignore


def save_arrays(file: str | os.PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to the .npz file that numpy.load reads, under their names. ValueError for an
    array of objects.

    numpy.savez itself fails for an array that is called as one of its own arguments.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def load_arrays(file: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file by name, in their order."""
    with np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def sets_of(arrays: Mapping[str, np.ndarray], count: int) -> list[dict[str, np.ndarray]]:
    """Return the sets of arrays that are stacked, so many; or for 0 the one that is not."""
    # What a stack of scalars holds is otherwise no array, which onnxruntime does not take.
    rows = [{name: np.asarray(array[k]) for name, array in arrays.items()} for k in range(count)]
    return rows or [dict(arrays)]


def set_inputs(executor: Executor, values: Mapping[str, np.ndarray]) -> None:
    """Copy values into the inputs of these names of a graph or AOT executor's module.

    A graph's inputs that nothing reads are not there: their values are left out.
    """
    get_input = executor["get_input"]
    for name, value in values.items():
        slot = get_input(name)
        if slot is not None:
            slot.copyfrom(value)
