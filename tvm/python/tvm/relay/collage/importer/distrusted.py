# SPDX-License-Identifier: Apache-2.0
"""ONNX nodes whose converters in TVM give wrong results, told by the node before it is converted.

They become calls that onnxruntime computes (importer/opaque.py). The rows were found by comparing
TVM with onnxruntime on ONNX's own tests of nodes and on random nodes (importer/test_distrusted.py).
What shows in the type of a result needs no row: types are compared behind each node.
Docs: docs/import.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper
from tvm import relay

from ..relay_util.walk import static_shape

# How TVM takes a pixel's place from the ratio of sizes, which ONNX takes from the scale.
_PLACES = ("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners")


class TypedNode:
    """A node with what its inputs are: arrays where they are constants, and their types."""

    def __init__(
        self,
        proto: NodeProto,
        value_of: Callable[[str], Any],
        type_of: Callable[[relay.Expr], relay.Type],
    ) -> None:
        self._proto, self._value_of, self._type_of = proto, value_of, type_of
        self.attrs: Mapping[str, Any] = {
            item.name: helper.get_attribute_value(item) for item in proto.attribute
        }

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is a text."""
        value = self.attrs.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def has(self, index: int) -> bool:
        """Tell whether an input is given."""
        return len(self._proto.input) > index and bool(self._proto.input[index])

    def array(self, index: int) -> np.ndarray | None:
        """Return an input's elements; None for one that is no constant or not given."""
        value = self._value_of(self._proto.input[index]) if self.has(index) else None
        return value.data.numpy() if isinstance(value, relay.Constant) else None

    def shape(self, index: int) -> tuple[int, ...] | None:
        """Return an input's shape, None where it is not known."""
        return static_shape(self._type_of(self._value_of(self._proto.input[index])))

    def dtype(self, index: int) -> str:
        """Return the type of an input's elements."""
        return str(self._type_of(self._value_of(self._proto.input[index])).dtype)


def why_distrusted(
    proto: NodeProto, value_of: Callable[[str], Any], type_of: Callable[[relay.Expr], relay.Type]
) -> str:
    """Return what TVM's converter would get wrong of a node, "" where it is right.

    value_of: the expression of a value that the node reads.
    """
    if proto.op_type not in _RULES or proto.domain not in ("", "ai.onnx"):
        return ""
    return _RULES[proto.op_type](TypedNode(proto, value_of, type_of))


def _resize(node: TypedNode) -> str:
    if node.attrs.get("antialias") or node.attrs.get("axes"):
        return "TVM resizes without antialiasing, and all axes behind the first two"
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        return "TVM does not keep an aspect ratio"
    place = node.text("coordinate_transformation_mode", "half_pixel")
    if place not in _PLACES:
        return f"TVM knows no {place}"
    old = node.shape(0)
    exact = None if old is None else _resized(node, old)
    if old is None or exact is None:
        return "TVM takes constant sizes alone"
    new = [int(size) for size in exact]
    if exact != new and place != "align_corners":
        return "TVM scales by the ratio of sizes, and the scale is another"
    rounds = node.text("nearest_mode", "round_prefer_floor")
    return _placed(place, node.text("mode", "nearest"), rounds, old=old, new=new)


def _resized(node: TypedNode, old: Sequence[int]) -> list[float] | None:
    """Return the sizes that a resize gives, which a scale need not make whole; None for sizes that
    are not known."""
    sizes = node.array(3)
    if sizes is not None:
        return [float(size) for size in sizes]
    scales = node.array(2 if node.has(2) else 1)  # at first it had no input of regions
    if scales is None or not scales.size:
        return None
    return [size * float(scale) for size, scale in zip(old, scales)]


def _placed(place: str, mode: str, rounds: str, old: Sequence[int], new: Sequence[int]) -> str:
    if list(old[:2]) != list(new[:2]):
        return "TVM resizes the axes behind the first two"
    if 1 in new[2:] and place in ("align_corners", "pytorch_half_pixel"):
        return f"TVM places one pixel alone otherwise by {place}"
    is_up = place == "asymmetric" and mode == "nearest"
    if is_up and rounds not in ("floor", "round_prefer_floor"):
        return f"TVM rounds otherwise than {rounds}"
    return ""


def _upsample(node: TypedNode) -> str:
    ratio = node.array(1) if node.has(1) else node.attrs.get("scales")
    if ratio is None or any(float(factor) != int(factor) for factor in ratio):
        return "TVM takes whole scales alone"
    return "" if list(map(float, ratio[:2])) == [1.0, 1.0] else "TVM scales two axes alone"


def _transposed(node: TypedNode) -> str:
    if node.attrs.get("output_shape"):
        return "TVM pads otherwise for an output_shape"
    if any(step != 1 for step in node.attrs.get("dilations", ())):
        return "TVM has no kernel for dilations"
    return _grouped(node)


def _grouped(node: TypedNode) -> str:
    shape = node.shape(0)
    is_one = node.attrs.get("group", 1) == 1
    return "" if is_one or shape is None or len(shape) != 5 else "TVM has no kernel that LLVM takes"


def _regions(node: TypedNode) -> str:
    place = node.text("coordinate_transformation_mode", "half_pixel")
    is_right = place == "output_half_pixel" and node.text("mode", "avg") == "avg"
    return "" if is_right else "TVM takes half pixels, and the maximum, otherwise"


def _dropout(node: TypedNode) -> str:
    training = node.array(2)
    is_inference = not node.has(2) or (training is not None and not training.any())
    return "" if is_inference else "TVM drops nothing"


def _sorted(node: TypedNode) -> str:
    if node.dtype(0) == "uint64":
        return "TVM sorts no uint64"
    return "" if node.attrs.get("largest", 1) else "TVM cannot cut the smallest off"


def _indices(node: TypedNode) -> str:
    """Say that TVM reads and writes outside of the data for an index that is negative."""
    array = node.array(1)
    return "" if array is not None and (array >= 0).all() else "TVM takes no negative indices"


def _attr(name: str, *right: Any) -> Callable[[TypedNode], str]:
    """Return a rule that trusts these values of an attribute, the first being its default."""

    def rule(node: TypedNode) -> str:
        value = node.attrs.get(name, right[0])
        return "" if value in right else f"TVM is wrong for {name}={value}"

    return rule


def _input(index: int, name: str) -> Callable[[TypedNode], str]:
    """Return a rule that distrusts a node with that input."""
    return lambda node: f"TVM overlooks {name}" if node.has(index) else ""


def _always(why: str) -> Callable[[TypedNode], str]:
    return lambda _: why


_RULES: dict[str, Callable[[TypedNode], str]] = {
    "AveragePool": _attr("ceil_mode", 0),  # TVM divides by what lies outside, too
    "BatchNormalization": _attr("training_mode", 0),
    "Conv": _grouped,
    "ConvTranspose": _transposed,
    "DFT": _always("LLVM rejects TVM's kernel"),
    "Dropout": _dropout,
    "GatherND": _indices,
    "GridSample": _attr("mode", b"bilinear", b"bicubic", b"nearest"),
    "LpPool": _attr("p", 2),
    "MaxRoiPool": _always("TVM rounds regions otherwise"),
    "MaxUnpool": _input(2, "an output_shape"),
    "Mod": lambda node: "" if node.attrs.get("fmod") else "LLVM rejects TVM's kernel for integers",
    "Pad": _input(3, "axes"),
    "Resize": _resize,
    "RoiAlign": _regions,
    "STFT": _always("LLVM rejects TVM's kernel"),
    "ScatterND": _indices,
    "TopK": _sorted,
    "Upsample": _upsample,
}
