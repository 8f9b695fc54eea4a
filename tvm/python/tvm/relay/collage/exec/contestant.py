# SPDX-License-Identifier: Apache-2.0
"""Contestants, which a worker keeps open between requests: something to run again, with outputs.
Test: measure/race/test_race.py, exec/test_contestant.py.

A factory (named "module:function") answers an object with run() and outputs() -> list of arrays.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..machine.memory import forget_peak, peak_bytes, resident_bytes
from .arrays import load_arrays, numbers_of, save_arrays, sets_of
from .resolve import resolve


class Runnable(Protocol):
    """A model with its inputs set. An optional `seconds(number)` replaces the wall clock."""

    def run(self) -> None: ...

    def outputs(self) -> list[np.ndarray]: ...


class Stage:
    """The one open contestant of a worker."""

    def __init__(self) -> None:
        self._model: Runnable | None = None

    def open(self, factory: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Make the contestant and run it twice; returns the second run's seconds, its own and those
        of the wall clock, and the most memory that the process took for all of it over what it
        had."""
        before = resident_bytes(os.getpid())
        forget_peak()
        self._model = resolve(factory)(**arguments)
        self._model.run()
        began = time.perf_counter()
        seconds = self._seconds(1)
        return {
            "seconds": seconds,
            "wall_seconds": time.perf_counter() - began,
            "memory_bytes": max(0, peak_bytes() - before),
        }

    def time(self, runs: int, number: int, warm_seconds: float) -> list[float]:
        """Return the seconds of one run, `runs` times, each over `number` runs.

        Before them it runs for warm_seconds by the wall clock, or once where that takes longer.
        """
        warm_until = time.perf_counter() + warm_seconds
        self._seconds(number)
        while time.perf_counter() < warm_until:
            self._seconds(number)
        return [self._seconds(number) / number for _ in range(runs)]

    def save_outputs(self, file: str) -> None:
        """Write the outputs of a run to an .npz file: arrays output_0, output_1, ..."""
        self._opened().run()
        outputs = self._opened().outputs()
        save_arrays(file, {f"output_{i}": np.asarray(a) for i, a in enumerate(outputs)})

    def close(self) -> None:
        """Let go of the contestant, with its memory."""
        self._model = None
        gc.collect()

    def _opened(self) -> Runnable:
        if self._model is None:
            raise RuntimeError("no contestant is open in this worker")
        return self._model

    def _seconds(self, number: int) -> float:
        model = self._opened()
        own_clock: Callable | None = getattr(model, "seconds", None)
        if own_clock is not None:
            return own_clock(number)
        start = time.perf_counter()
        for _ in range(number):
            model.run()
        return time.perf_counter() - start


def library_contestant(
    library: str,
    inputs: str,
    device: str = "llvm",
    mod_name: str = "default",
    weights: str = "",
    sets: int = 0,
) -> Runnable:
    """Open a library file of the graph or the AOT executor, or of the VM, on inputs by name from an
    .npz file.

    mod_name: the name that the model was built under. weights: the file that says where the weights
    of a library without them are (plans/graph_search/shared_weights.py). sets: so many sets of
    inputs, stacked, of which a run has each once; 0 for one that is not stacked.
    """
    import tvm

    loaded = tvm.runtime.load_module(library)
    rows = sets_of(load_arrays(inputs), sets)
    place = tvm.device(device, 0)
    if loaded.type_key == "VMExecutable":
        return _Machine(loaded, place, rows)
    if weights:
        with open(weights, encoding="utf-8") as stream:
            return _Executor(loaded, mod_name, place, rows, **json.load(stream))
    return _Executor(loaded, mod_name, place, rows)


class _OnSets:
    """A model on sets of inputs: a run has each of them once, `seconds` are those of one set.
    invoke: runs it on the set that it has."""

    def __init__(self, invoke: Callable[[], Any], sets: Sequence[Any]) -> None:
        self._invoke, self._sets = invoke, sets
        self._set(sets[0])

    def _set(self, values: Any) -> None:
        """Make a set of inputs the model's."""
        raise NotImplementedError

    def _outputs_of(self, values: Any) -> list[np.ndarray]:
        """Return what the model gives for a set of inputs."""
        raise NotImplementedError

    def run(self) -> None:
        # Setting inputs takes as long as a small net does, and who deploys one does so in C++.
        if len(self._sets) == 1:
            self._invoke()
            return
        for values in self._sets:
            self._set(values)
            self._invoke()

    def seconds(self, number: int) -> float:
        run = self._invoke if len(self._sets) == 1 else self.run
        start = time.perf_counter()
        for _ in range(number):
            run()
        return (time.perf_counter() - start) / len(self._sets)

    def outputs(self) -> list[np.ndarray]:
        """Return those of all sets, one set after the other."""
        return [array for values in self._sets for array in self._outputs_of(values)]


class _Machine(_OnSets):
    """An executable of the VM."""

    def __init__(self, executable: Any, device: Any, sets: list[dict[str, np.ndarray]]) -> None:
        from tvm.runtime.ndarray import array
        from tvm.runtime.vm import Executable, VirtualMachine

        names = Executable(executable).get_function_params("main")
        self._machine = VirtualMachine(executable, device)
        invoke = functools.partial(self._machine.module["invoke_stateful"], "main")
        rows = [[array(values[name], device) for name in names] for values in sets]
        super().__init__(invoke, rows)

    def _set(self, values: list[Any]) -> None:
        self._machine.set_input("main", *values)

    def _outputs_of(self, values: list[Any]) -> list[np.ndarray]:
        return _tensors_in(self._machine.invoke("main", *values))


class _Executor(_OnSets):
    """A library of the graph or the AOT executor; `parts` and `params`: the files of weights that
    it lacks, by symbol of a part and by name of a parameter."""

    def __init__(
        self,
        loaded: Any,
        mod_name: str,
        device: Any,
        sets: list[dict[str, np.ndarray]],
        parts: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        for symbol, entries in (parts or {}).items():
            give = loaded.get_function(f"__init_{symbol}", query_imports=True)
            give([_load(entry) for entry in entries])
        self._executor = loaded[mod_name](device)
        for name, entry in (params or {}).items():
            self._executor["set_input"](name, _load(entry))
        slots = {name: self._executor["get_input"](name) for name in sets[0]}
        # A graph's inputs that nothing reads are not there.
        read = [(name, slot) for name, slot in slots.items() if slot is not None]
        rows = [[(slot, _copy(row[name], slot)) for name, slot in read] for row in sets]
        super().__init__(self._executor["run"], rows)

    def _set(self, values: list[tuple[Any, Any]]) -> None:
        for slot, value in values:
            value.copyto(slot)

    def _outputs_of(self, values: list[tuple[Any, Any]]) -> list[np.ndarray]:
        self._set(values)
        self._invoke()
        get_output = self._executor["get_output"]
        return [numbers_of(get_output(i)) for i in range(self._executor["get_num_outputs"]())]


def _load(entry: list[str]) -> Any:
    """Return the tensor of a file and a dtype."""
    import tvm

    file, dtype = entry
    bits = np.load(file, mmap_mode="r", allow_pickle=False)
    return tvm.nd.empty(bits.shape, dtype).copyfrom(bits)


def _copy(value: np.ndarray, slot: Any) -> Any:
    """Return a tensor of the value, as it is to be in the slot."""
    import tvm

    return tvm.nd.empty(slot.shape, slot.dtype, slot.device).copyfrom(value)


def _tensors_in(result: Any) -> list[np.ndarray]:
    """Return what a tensor holds, or those of a tuple or another value made of fields."""
    from tvm.runtime import NDArray
    from tvm.runtime.container import ADT

    if isinstance(result, NDArray):
        return [numbers_of(result)]
    if not isinstance(result, ADT):
        raise TypeError(f"the model gives a {type(result).__name__}, which holds no tensors")
    return [tensor for field in result for tensor in _tensors_in(field)]
