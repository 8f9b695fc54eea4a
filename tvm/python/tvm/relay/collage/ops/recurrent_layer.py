# SPDX-License-Identifier: Apache-2.0
"""The computation of a recurrent layer, as ONNX names it. Test: ops/test_recurrence.py"""

from __future__ import annotations

import dataclasses

import tvm

_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
# Functions that there are kernels for, as ONNX names them.
_ACTIVATIONS = frozenset({"Relu", "Sigmoid", "Tanh"})


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of layer: its operator, gates, tensors of state, and ONNX's activation functions."""

    operator: str
    gates: int
    states: int
    activations: tuple[str, ...]


KINDS = {
    "LSTM": Kind("collage.lstm", 4, 2, activations=("Sigmoid", "Tanh", "Tanh")),
    "GRU": Kind("collage.gru", 3, 1, activations=("Sigmoid", "Tanh")),
    "RNN": Kind("collage.rnn", 1, 1, activations=("Tanh",)),
}


@dataclasses.dataclass(frozen=True)
class Recurrence:
    """The computation of a call, in ONNX's terms.

    ValueError for a direction or an activation function that there is no kernel for.
    """

    kind: str
    direction: str
    activations: tuple[str, ...]
    linear_before_reset: bool = False  # of a GRU alone

    def __post_init__(self) -> None:
        if self.direction not in _DIRECTIONS:
            raise ValueError(f"direction={self.direction} is none of {', '.join(_DIRECTIONS)}")
        is_known = len(self.activations) == len(KINDS[self.kind].activations)
        if not is_known or not _ACTIVATIONS.issuperset(self.activations):
            raise ValueError(f"activations={list(self.activations)} are not supported")

    @classmethod
    def of(cls, kind: str, attrs: tvm.ir.Attrs) -> Recurrence:
        """Make it from the attributes of a call of that kind."""
        attrs = attrs.get("__dict__", attrs)  # as TVM's parser reads them from text
        activations = tuple(map(str, attrs["activations"]))
        return cls(kind, str(attrs["direction"]), activations, bool(attrs["linear_before_reset"]))

    @property
    def directions(self) -> int:
        return _DIRECTIONS[self.direction]
