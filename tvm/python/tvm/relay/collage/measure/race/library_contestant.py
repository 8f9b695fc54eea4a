# SPDX-License-Identifier: Apache-2.0
"""Libraries and executables of the VM as contestants (exec/contestant.py): a factory for workers.
Test: measure/race/test_library_contestant.py.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm.runtime import Module, NDArray
from tvm.runtime.container import ADT
from tvm.runtime.vm import Executable, VirtualMachine

from ...exec.arrays import load_arrays, numbers_of, sets_of
from ...exec.contestant import Runnable
from ..weights_apart import WeightsApart


def library_contestant(
    library: str,
    inputs: str,
    device: str = "llvm",
    mod_name: str = "default",
    weights: str = "",
    sets: int = 0,
    timed: int = 0,
) -> Runnable:
    """Open a library file of the graph or the AOT executor, or of the VM, on inputs by name from an
    .npz file.

    mod_name: the name that the model was built under. weights: the file that says where the weights
    of a library without them are (plans/graph_search/shared_weights.py). sets: so many sets of
    inputs, stacked, of which a run has each once; 0 for one that is not stacked. timed: a run has
    only the first so many of them, 0 for all; outputs are those of all.
    """
    loaded = tvm.runtime.load_module(library)
    rows = sets_of(load_arrays(inputs), sets)
    place = tvm.device(device, 0)
    if loaded.type_key == "VMExecutable":
        model: _OnSets = _Machine(loaded, place, rows)
    else:
        model = _Executor(loaded, mod_name, place, sets=rows, weights=WeightsApart(weights))
    model.run_first(timed or len(rows))
    return model


class _OnSets:
    """A model on sets of inputs: a run has each of them once, `seconds` are those of one set.
    invoke: runs it on the set that it has."""

    def __init__(self, invoke: Callable[[], Any], sets: Sequence[Any]) -> None:
        self._invoke, self._sets, self._run = invoke, sets, sets
        self._set(sets[0])

    def run_first(self, count: int) -> None:
        """Have a run take the first so many sets alone."""
        self._run = self._sets[:count]

    def _set(self, values: Any) -> None:
        """Make a set of inputs the model's."""
        raise NotImplementedError

    def _outputs_of(self, values: Any) -> list[np.ndarray]:
        """Return what the model gives for a set of inputs."""
        raise NotImplementedError

    def run(self) -> None:
        # Setting inputs takes as long as a small net does, and who deploys one does so in C++.
        if len(self._run) == 1:
            self._invoke()
            return
        for values in self._run:
            self._set(values)
            self._invoke()

    def seconds(self, number: int) -> float:
        run = self._invoke if len(self._run) == 1 else self.run
        start = time.perf_counter()
        for _ in range(number):
            run()
        return (time.perf_counter() - start) / len(self._run)

    def outputs(self) -> list[np.ndarray]:
        """Return those of all sets, one set after the other."""
        found = [array for values in self._sets for array in self._outputs_of(values)]
        self._set(self._run[0])
        return found


class _Machine(_OnSets):
    """An executable of the VM."""

    def __init__(
        self, executable: Module, device: tvm.runtime.Device, sets: list[dict[str, np.ndarray]]
    ) -> None:
        names = Executable(executable).get_function_params("main")
        self._machine = VirtualMachine(executable, device)
        invoke = functools.partial(self._machine.module["invoke_stateful"], "main")
        rows = [[tvm.nd.array(values[name], device) for name in names] for values in sets]
        super().__init__(invoke, rows)

    def _set(self, values: list[NDArray]) -> None:
        self._machine.set_input("main", *values)

    def _outputs_of(self, values: list[NDArray]) -> list[np.ndarray]:
        return _tensors_in(self._machine.invoke("main", *values))


class _Executor(_OnSets):
    """A library of the graph or the AOT executor, with the weights that it lacks."""

    def __init__(
        self,
        loaded: Module,
        mod_name: str,
        device: tvm.runtime.Device,
        sets: list[dict[str, np.ndarray]],
        weights: WeightsApart,
    ) -> None:
        weights.give_to_parts(loaded)
        self._executor = loaded[mod_name](device)
        weights.give_to_executor(self._executor)
        slots = {name: self._executor["get_input"](name) for name in sets[0]}
        # A graph's inputs that nothing reads are not there.
        read = [(name, slot) for name, slot in slots.items() if slot is not None]
        rows = [[(slot, _copy(row[name], slot)) for name, slot in read] for row in sets]
        super().__init__(self._executor["run"], rows)

    def _set(self, values: list[tuple[NDArray, NDArray]]) -> None:
        for slot, value in values:
            value.copyto(slot)

    def _outputs_of(self, values: list[tuple[NDArray, NDArray]]) -> list[np.ndarray]:
        self._set(values)
        self._invoke()
        get_output = self._executor["get_output"]
        return [numbers_of(get_output(i)) for i in range(self._executor["get_num_outputs"]())]


def _copy(value: np.ndarray, slot: NDArray) -> NDArray:
    """Return a tensor of the value, as it is to be in the slot."""
    return tvm.nd.empty(slot.shape, slot.dtype, slot.device).copyfrom(value)


def _tensors_in(result: object) -> list[np.ndarray]:
    """Return what a tensor holds, or those of a tuple or another value made of fields."""
    if isinstance(result, NDArray):
        return [numbers_of(result)]
    if not isinstance(result, ADT):
        raise TypeError(f"the model gives a {type(result).__name__}, which holds no tensors")
    return [tensor for field in result for tensor in _tensors_in(field)]
