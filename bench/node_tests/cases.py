# SPDX-License-Identifier: Apache-2.0
"""ONNX's own tests of single nodes, which its package brings: a model, inputs, right outputs.

Test: bench/test_conformance.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An array, and ONNX's number of its type: numpy lacks types of eight bits and fewer, whose
    bits an array then holds, each element in a byte."""

    array: np.ndarray
    kind: int

    @property
    def is_bits(self) -> bool:
        return self.kind >= onnx.TensorProto.BFLOAT16

    def numbers(self, bits: np.ndarray) -> np.ndarray:
        """What bits of this type mean where their own order is not enough to compare them."""
        if self.kind == onnx.TensorProto.BFLOAT16:
            return (bits.astype("uint32") << 16).view("float32")
        return bits


@dataclasses.dataclass(frozen=True)
class Case:
    """A test: the folder of its files, and the tolerance that it has."""

    name: str
    folder: str
    rtol: float
    atol: float

    def model(self) -> onnx.ModelProto:
        return onnx.load(Path(self.folder) / "model.onnx")

    def inputs(self) -> dict[str, Tensor]:
        """By name; none of a case that is not plain."""
        model = self.model()
        if why_not_plain(model):
            return {}
        names = [each.name for each in model.graph.input]
        return dict(zip(names, self._tensors("input", model.graph.input), strict=True))

    def outputs(self) -> list[Tensor]:
        """The right ones of a plain case, in the model's order."""
        return self._tensors("output", self.model().graph.output)

    def _tensors(self, what: str, values: Iterable[onnx.ValueInfoProto]) -> list[Tensor]:
        """Types are the model's: files have bfloat16 as its bits."""
        folder, found = Path(self.folder) / "test_data_set_0", []
        for number, value in enumerate(values):
            array = numpy_helper.to_array(onnx.load_tensor(folder / f"{what}_{number}.pb"))
            found.append(Tensor(_bits(array), value.type.tensor_type.elem_type))
        return found


def all_cases() -> list[Case]:
    found = load_model_tests(kind="node")
    return sorted(
        (Case(each.name, each.model_dir, each.rtol, each.atol) for each in found),
        key=lambda case: case.name,
    )


def why_not_plain(model: onnx.ModelProto) -> str:
    """Which input or output is no array of numbers; "" where all are."""
    for value in [*model.graph.input, *model.graph.output]:
        kind = value.type.WhichOneof("value").removesuffix("_type")
        if kind != "tensor":
            return f"{value.name} is of kind {kind}"
        if value.type.tensor_type.elem_type == onnx.TensorProto.STRING:
            return f"{value.name} has strings"
    return ""


def difference(found: Sequence[np.ndarray], case: Case) -> str:
    """How outputs differ from the right ones by more than the case's tolerance; "" if they do
    not."""
    right = case.outputs()
    if len(found) != len(right):
        return f"{len(found)} outputs for {len(right)}"
    for number, (ours, wanted) in enumerate(zip(found, right, strict=True)):
        why = _array_difference(_bits(ours), wanted, case)
        if why:
            return f"output {number}: {why}"
    return ""


def _array_difference(ours: np.ndarray, wanted: Tensor, case: Case) -> str:
    right = wanted.array
    if ours.dtype != right.dtype and not (wanted.is_bits and ours.itemsize == right.itemsize == 1):
        return f"{ours.dtype} for {onnx.TensorProto.DataType.Name(wanted.kind).lower()}"
    if ours.shape != right.shape:
        return f"shape {ours.shape} for {right.shape}"
    ours, right = wanted.numbers(ours), wanted.numbers(right)
    if np.allclose(ours, right, case.rtol, case.atol, equal_nan=True):
        return ""
    with np.errstate(all="ignore"):
        is_close = np.isclose(ours, right, case.rtol, case.atol, equal_nan=True)
        far = np.abs(ours.astype("float64") - right.astype("float64"))
        far = np.where(is_close, -1.0, np.where(np.isnan(far), np.inf, far))
        worst = np.unravel_index(np.argmax(far), far.shape)
    return f"{ours[worst]:.7g} for {right[worst]:.7g}"


def _bits(array: np.ndarray) -> np.ndarray:
    """An array without the names of fields by which onnx tells types that numpy lacks."""
    return array.view(array.dtype[0]) if array.dtype.names else np.asarray(array)
