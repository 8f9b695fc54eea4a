# SPDX-License-Identifier: Apache-2.0
"""The weights of a library that lacks them (plans/graph_search/shared_weights.py writes it).

A file of its own, since both a race and a profile open such libraries. Test:
plans/graph_search/test_shared_weights.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import tvm
from tvm.runtime import Module, NDArray


class WeightsApart:
    """The weights that a file tells of; none where it is "": then the library has its own."""

    def __init__(self, file: str) -> None:
        self._parts: dict[str, list[list[str]]] = {}  # by symbol
        self._params: dict[str, list[str]] = {}  # by name
        if file:
            with open(file, encoding="utf-8") as stream:
                found = json.load(stream)
            self._parts, self._params = found["parts"], found["params"]

    def give_to_parts(self, loaded: Module) -> None:
        """Give the parts of a library's module theirs, each time copies of their own."""
        for symbol, entries in self._parts.items():
            give = loaded.get_function(f"__init_{symbol}", query_imports=True)
            give([_load(entry) for entry in entries])

    def give_to_executor(self, executor: Module) -> None:
        """Give the graph executor the model's."""
        for name, entry in self._params.items():
            executor["set_input"](name, _load(entry))


def _load(entry: Sequence[str]) -> NDArray:
    """Return the tensor of a file and a dtype."""
    file, dtype = entry
    bits = np.load(file, mmap_mode="r", allow_pickle=False)
    return tvm.nd.empty(bits.shape, dtype).copyfrom(bits)
