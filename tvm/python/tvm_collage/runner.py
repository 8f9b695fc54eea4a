# SPDX-License-Identifier: Apache-2.0
"""A compiled model as a fast function of arrays by name. Docs: docs/deploy.md.

Needs TVM's runtime and our runtime library alone, so it serves where there is no compiler.
Test: tvm_collage/test_runner.py.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import os
import struct
import tarfile
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tvm
import tvm_collage
from tvm._ffi import get_global_func
from tvm._ffi.base import raise_last_ffi_error

# What TVM's graph executor and its kernels ask of memory that they read in place, in bytes.
ALIGNMENT = 64
# CollagePythonFunctions of runner_module.cc, in its order.
_PYTHON = ("PyList_GetItem", "PyCapsule_GetPointer", "PyEval_SaveThread", "PyEval_RestoreThread")
# What `tvmc compile` packs: the library, the graph executor's graph, the weights.
_PACKAGE = ("mod.so", "mod.json", "mod.params")


class TensorInfo(NamedTuple):
    """A tensor that a model takes or gives; outputs are called output_0, output_1, ..."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype

    def Summary(self) -> str:
        return f"{self.name!r}: {_text(self.dtype, self.shape)}"


class Runner:
    """A model with fixed shapes, on this CPU: `runner(x=array)`, or `runner({"x": array})` where
    names are no identifiers. Answers a list of new numpy arrays, the model's outputs in order.

    Takes numpy arrays, and whatever numpy.from_dlpack reads, of exactly the types and shapes in
    `inputs`. What is compact and aligned to 64 bytes, as `empty_input` gives it, is read where it
    lies, all else is copied first. Any thread may call; calls of one runner wait for each other, so
    threads that shall run at the same time take a runner each. ValueError for a missing or unknown
    name, another type or shape; TypeError for what is no array; errors of the run are TVM's.
    """

    def __init__(self, module: Any, names: list[str] | None = None) -> None:
        """Take a module that collage.runner.executor or collage.runner.vm made; `names` are its
        inputs' names where the module has changed them (an AOT library's hold letters, digits and
        underscores alone)."""
        self._module = module  # keeps what the handle points to
        self.run_library, self._python = _library()
        self._handle = module["handle"]().value
        self.inputs = [_info(row) for row in module["inputs"]()]
        self.outputs = [_info(row) for row in module["outputs"]()]
        if names is not None:
            self.inputs = [
                item._replace(name=name) for item, name in zip(self.inputs, names, strict=True)
            ]
        self._takes = [(item.name, item.dtype, item.shape) for item in self.inputs]
        self._gives = [(item.shape, item.dtype) for item in self.outputs]

    def __call__(
        self, inputs: Mapping[str, Any] | None = None, /, **named: np.ndarray
    ) -> list[np.ndarray]:
        if inputs is not None:
            if not isinstance(inputs, Mapping):
                kind = type(inputs).__name__
                raise TypeError(f"a runner takes arrays by name, as in {self._usage()}, got {kind}")
            named = {**inputs, **named}
        # __array_struct__ takes a tenth of the time of __array_interface__, and keeps the array.
        arrays = []
        for name, dtype, shape in self._takes:
            array = named.get(name)
            if type(array) is not np.ndarray:
                array = self._as_array(name, named)
            if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
                array = self._as_taken(name, array)
            arrays.append(array.__array_struct__)
        if len(named) != len(self._takes):
            raise self._unknown(named)
        outputs = [np.empty(shape, dtype) for shape, dtype in self._gives]
        for array in outputs:
            arrays.append(array.__array_struct__)
        if self.run_library(self._handle, self._python, arrays):
            raise_last_ffi_error()
        return outputs

    def empty_input(self, name: str) -> np.ndarray:
        """Return a new array, of no certain content, for an input: it is read where it lies.

        ValueError for an unknown name.
        """
        info = next((item for item in self.inputs if item.name == name), None)
        if info is None:
            raise self._unknown({name: None})
        return _aligned_empty(info.shape, info.dtype)

    def Summary(self) -> str:
        """Return one line: what it takes and gives."""
        takes, gives = (
            ", ".join(item.Summary() for item in tensors) for tensors in (self.inputs, self.outputs)
        )
        return f"{takes} -> {gives}"

    def __repr__(self) -> str:
        return f"Runner({self.Summary()})"

    def _usage(self) -> str:
        name = self.inputs[0].name if self.inputs else "x"
        return f"runner({name}=array)" if name.isidentifier() else f"runner({{{name!r}: array}})"

    def _as_array(self, name: str, named: Mapping[str, Any]) -> np.ndarray:
        """Return what was given for an input as an array."""
        if name not in named:
            raise self._unknown(named)
        value = named[name]
        if isinstance(value, (np.ndarray, np.generic)):
            return np.asarray(value)
        try:
            return np.from_dlpack(value)
        except Exception as error:  # noqa: BLE001 - of whoever made the tensor
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise TypeError(
                f"input {name!r} takes a numpy array or DLPack tensor of {self._wanted(name)}, got "
                f"{kind.removeprefix('builtins.')} ({_last_line(error)})"
            ) from None

    def _as_taken(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return an array of an input's type and shape, compact."""
        info = next(item for item in self.inputs if item.name == name)
        if array.dtype != info.dtype or array.shape != info.shape:
            got = _text(array.dtype, array.shape)
            raise ValueError(f"input {name!r} takes {self._wanted(name)}, got {got}")
        compact = _aligned_empty(info.shape, info.dtype)
        compact[...] = array
        return compact

    def _wanted(self, name: str) -> str:
        return next(_text(item.dtype, item.shape) for item in self.inputs if item.name == name)

    def _unknown(self, named: Mapping[str, Any]) -> ValueError:
        """Return the error for names that are not those of the inputs."""
        known = [item.name for item in self.inputs]
        missing = ", ".join(repr(name) for name in known if name not in named)
        more = ", ".join(repr(name) for name in named if name not in known)
        texts = [f"missing: {missing}"] * bool(missing) + [f"no input: {more}"] * bool(more)
        takes = ", ".join(item.Summary() for item in self.inputs) or "none"
        return ValueError(f"{'; '.join(texts)}; the model's inputs are {takes}")


class OpenRunner(Runner):
    """A Runner of main of a VM some of whose outputs have sizes that only a run tells, -1 in
    `outputs`. Its calls go by TVM's own Python, which takes longer."""

    def __init__(self, machine: Any, inputs: list[list], outputs: list[list]) -> None:
        """Take a tvm.runtime.vm.VirtualMachine; [name, shape, dtype] of each tensor."""
        self._machine, self._lock = machine, threading.Lock()
        self.inputs = [_info(row) for row in inputs]
        self.outputs = [
            _info((name, [-1 if n is None else n for n in shape], dtype))
            for name, shape, dtype in outputs
        ]

    def __call__(
        self, inputs: Mapping[str, Any] | None = None, /, **named: np.ndarray
    ) -> list[np.ndarray]:
        named = {**(inputs or {}), **named}
        arrays = [
            self._as_taken(item.name, self._as_array(item.name, named)) for item in self.inputs
        ]
        if len(named) != len(arrays):
            raise self._unknown(named)
        with self._lock:
            result = self._machine.invoke("main", *map(tvm.nd.array, arrays))
            fields = [result] if isinstance(result, tvm.nd.NDArray) else list(result)
            return [field.numpy() for field in fields]


def load_runner(path: str | os.PathLike, mod_name: str = "default") -> Runner:
    """Load the runner of a file that `library.export_library(path)` of relay.build wrote, or `tvmc
    compile`.

    `mod_name`: the name that the model was built under; tvmc's packages do not keep it. OSError
    where there is no such file, ValueError for a file that holds no model of that name for the
    graph or AOT executor.
    """
    file = os.fspath(path)
    if not os.path.isfile(file):
        raise FileNotFoundError(f"no file {file}: a runner is loaded from an exported library")
    if not file.endswith(".so") and not tarfile.is_tarfile(file):
        raise ValueError(
            f"{file} is no library: give the net.so that library.export_library('net.so') wrote, "
            "or the package that `tvmc compile` wrote"
        )
    if not file.endswith(".so"):
        return executor_runner(_load_package(file), "default")
    module = load_module(file)
    if module.type_key == "VMExecutable":
        raise ValueError(
            f"{file} is for TVM's VM: collage.load(path).runner() runs it if `collage compile` or "
            "Result.save_library wrote it, tvm.runtime.vm.VirtualMachine in any case"
        )
    return executor_runner(module, mod_name)


def load_module(file: str, given: str = "") -> Any:
    """Load the module of a library's file, which errors call `given`, as the user did. ValueError
    for one that cannot be loaded."""
    _library()  # its loader must know the modules of backends before the file names them
    name = given or file
    check_whole(file, name)
    try:
        return tvm.runtime.load_module(file)
    except Exception as error:  # noqa: BLE001 - TVM's loaders, the linker
        reason = _last_line(error).rpartition(" is false: ")[2]  # of TVM's checks
        raise ValueError(f"{name} is no library that can be loaded here: {reason}") from None


def check_whole(file: str, called: str) -> None:
    """ValueError for a library that was cut off."""
    if lacking := _lacking_bytes(file):
        raise ValueError(
            f"{called} is cut off: its last {lacking} bytes are missing; copy it again"
        )


def _lacking_bytes(file: str) -> int:
    """Return how many bytes a library that was cut off lacks: the system's loader does not look,
    and the process dies of SIGBUS. A linker writes the table of sections last, and the ELF header
    says where; a file that ends before that is refused by the loader."""
    with open(file, "rb") as opened:
        header = opened.read(64)
    if len(header) < 64 or not header.startswith(b"\x7fELF"):
        return 0
    (begin,) = struct.unpack_from("<Q", header, 40)
    size, count = struct.unpack_from("<2H", header, 58)
    return max(0, begin + size * count - os.path.getsize(file))


def _load_package(file: str) -> Any:
    """Load the module that relay.build had, of what `tvmc compile` takes apart: library, graph,
    params.

    It is called "default".
    """
    with tarfile.open(file) as package, tempfile.TemporaryDirectory() as folder:
        try:
            names = package.getnames()
        except (tarfile.ReadError, EOFError) as error:
            raise ValueError(f"{file} is cut off ({error}): copy it again") from None
        if not set(_PACKAGE) <= set(names):
            raise ValueError(
                f"{file} is no package of `tvmc compile` for the graph executor with "
                f"--output-format so, which holds {', '.join(_PACKAGE)}"
            )
        for name in _PACKAGE:
            package.extract(name, folder)
        library, graph, params = (Path(folder, name) for name in _PACKAGE)
        module = load_module(str(library), file)  # which needs its own file no more
        weights = tvm.runtime.load_param_dict(params.read_bytes())
        make = get_global_func("tvm.graph_executor_factory.create")
        return make(graph.read_text(), module, "default", *itertools.chain(*weights.items()))


def executor_runner(factory: Any, mod_name: str, names: list[str] | None = None) -> Runner:
    """Return the runner of the module that a library of relay.build holds as `.module`."""
    return Runner(_make("collage.runner.executor", factory, mod_name), names)


def vm_runner(machine: Any, inputs: list[list], outputs: list[list]) -> Runner:
    """Return the runner of main of an initialised VM's module; [name, shape, dtype] of each
    tensor."""
    rows = (
        [[name, tvm.runtime.ShapeTuple(shape), dtype] for name, shape, dtype in tensors]
        for tensors in (inputs, outputs)
    )
    return Runner(_make("collage.runner.vm", machine, "main", *rows))


def _make(name: str, *arguments: Any) -> Any:
    """Return what a global function of our library makes; its ValueErrors without frames of C++."""
    _library()
    try:
        return get_global_func(name)(*arguments)
    except ValueError as error:
        raise ValueError(_last_line(error).removeprefix("ValueError: ")) from None


@functools.cache
def _library() -> tuple[Any, Any]:
    """CollageRunnerCall, and the functions of Python that it takes."""
    path = tvm_collage.library_path("tvm_collage_runtime")
    if path is None:
        raise ImportError("libtvm_collage_runtime.so was not built: see docs/install.md")
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    call = ctypes.PyDLL(path).CollageRunnerCall  # called with Python's lock
    call.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object)
    call.restype = ctypes.c_int
    functions = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p) for name in _PYTHON]
    return call, (ctypes.c_void_p * len(functions))(*[each.value for each in functions])


def _last_line(error: BaseException) -> str:
    return (str(error).strip() or repr(error)).splitlines()[-1]


def _info(row: Any) -> TensorInfo:
    name, shape, dtype = row
    return TensorInfo(str(name), tuple(int(extent) for extent in shape), _dtype(str(dtype)))


def _dtype(name: str) -> np.dtype:
    if name == "bfloat16":  # numpy has none: the bits
        return np.dtype("uint16")
    try:
        return np.dtype(name)
    except TypeError:
        raise ValueError(f"a runner takes and gives numpy arrays, which cannot be {name}") from None


def _text(dtype: np.dtype, shape: tuple[int, ...]) -> str:
    """Return a type and shape for people; a byte order that is not the machine's is seen."""
    return f"{dtype.name if dtype.isnative else dtype.str}{list(shape)}"


def _aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, "uint8")
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
