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

# Operators whose outputs are drawn.
_DRAWING = ("Bernoulli", "RandomNormalLike", "RandomUniformLike")


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
        """Return what bits of this type mean where their order is not enough to compare them."""
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
        """Return the arrays by name; none where one of them is no array of numbers."""
        values = self.model().graph.input
        if any(map(_why_not_plain, values)):
            return {}
        names = [each.name for each in values]
        return dict(zip(names, self._tensors("input", values), strict=True))

    def outputs(self) -> list[Tensor]:
        """The right ones in the model's order; of a sequence each element."""
        return self._tensors("output", self.model().graph.output)

    def _tensors(self, what: str, values: Iterable[onnx.ValueInfoProto]) -> list[Tensor]:
        """Types are the model's: files have bfloat16 as its bits."""
        folder, found = Path(self.folder) / "test_data_set_0", []
        for number, value in enumerate(values):
            file, kind = folder / f"{what}_{number}.pb", value.type
            if kind.HasField("sequence_type"):
                kind = kind.sequence_type.elem_type
                arrays = numpy_helper.to_list(onnx.SequenceProto.FromString(file.read_bytes()))
            else:
                arrays = [numpy_helper.to_array(onnx.load_tensor(file))]
            found += [Tensor(_bits(array), kind.tensor_type.elem_type) for array in arrays]
        return found


def all_cases() -> list[Case]:
    found = load_model_tests(kind="node")
    return sorted(
        (Case(each.name, each.model_dir, each.rtol, atol=each.atol) for each in found),
        key=lambda case: case.name,
    )


def why_not_plain(model: onnx.ModelProto) -> str:
    """Name the input or output that is no array of numbers; "" where all are."""
    return next(filter(None, map(_why_not_plain, [*model.graph.input, *model.graph.output])), "")


def _why_not_plain(value: onnx.ValueInfoProto) -> str:
    kind = value.type.WhichOneof("value").removesuffix("_type")
    if kind != "tensor":
        return f"{value.name} is of kind {kind}"
    is_text = value.type.tensor_type.elem_type == onnx.TensorProto.STRING
    return f"{value.name} has strings" if is_text else ""


def difference(found: Sequence[np.ndarray], right: Sequence[Tensor], case: Case) -> str:
    """Say how outputs differ from right ones by more than the case's tolerance, or in their types
    and shapes alone where the values are of chance; "" if they do not."""
    if len(found) != len(right):
        return f"{len(found)} outputs for {len(right)}"
    is_random = any(map(_is_random, case.model().graph.node))
    for number, (ours, wanted) in enumerate(zip(found, right, strict=True)):
        why = _form_difference(_bits(ours), wanted)
        if not why and not is_random:
            why = _value_difference(_bits(ours), wanted, case)
        if why:
            return f"output {number}: {why}"
    return ""


def _is_random(node: onnx.NodeProto) -> bool:
    """Tell whether each library gives others: also where a Dropout may be in training."""
    return node.op_type in _DRAWING or (node.op_type == "Dropout" and len(node.input) > 2)


def _form_difference(ours: np.ndarray, wanted: Tensor) -> str:
    right = wanted.array
    if ours.dtype != right.dtype and not (wanted.is_bits and ours.itemsize == right.itemsize == 1):
        return f"{ours.dtype} for {onnx.TensorProto.DataType.Name(wanted.kind).lower()}"
    return "" if ours.shape == right.shape else f"shape {ours.shape} for {right.shape}"


def _value_difference(ours: np.ndarray, wanted: Tensor, case: Case) -> str:
    """Say where arrays of the same type and shape differ most."""
    ours, right = wanted.numbers(ours), wanted.numbers(wanted.array)
    is_close = np.isclose(ours, right, case.rtol, case.atol, equal_nan=True)
    if is_close.all():
        return ""
    with np.errstate(all="ignore"):
        far = np.abs(ours.astype("float64") - right.astype("float64"))
    far = np.where(is_close, -1.0, np.where(np.isnan(far), np.inf, far))
    worst = np.unravel_index(np.argmax(far), far.shape)
    return f"{ours[worst]:.7g} for {right[worst]:.7g}"


def _bits(array: np.ndarray) -> np.ndarray:
    """An array without the names of fields by which onnx tells types that numpy lacks."""
    return array.view(array.dtype[0]) if array.dtype.names else np.asarray(array)
