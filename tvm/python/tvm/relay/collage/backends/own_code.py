# SPDX-License-Identifier: Apache-2.0
"""Runtime modules for a backend's ``compile``: of C source text, or of a registered function.

Both run in memory, are exported with the model and get the function's constants. Preconditions:
tensors of static shape on the CPU; Linux. Test: backends/test_own_code.py.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import subprocess
import tempfile
from collections.abc import Sequence

import tvm
from tvm import relay
from tvm.contrib import cc

from ..messages.foreign import error_lines, last_line, undefined_symbols
from ..relay_util.walk import nodes_of
from .partition.description import to_json
from .partition.graph import Graph, Operation

# C's names of element types.
_C_TYPES = {"float64": "double", "float32": "float"}
_C_TYPES |= {f"{sign}int{n}": f"{sign}int{n}_t" for sign in ("", "u") for n in (64, 32, 16, 8)}
_C_TYPES |= {"bool": "uint8_t"}
COMPILE_SECONDS = 60
# For this CPU, as TVM's own kernels are.
FLAGS = ("-O3", "-march=native")


class CompilerError(RuntimeError):
    """The C compiler refused a backend's source, or there is none."""


@dataclasses.dataclass(frozen=True)
class NeededLibrary:
    """A library that a backend's C calls, looked for where the model runs (docs/deploy.md)."""

    title: str  # what errors call it, as "OpenBLAS (libscipy_openblas.so)"
    soname: str  # the name that the loader knows it by, as "libscipy_openblas.so"
    variable: str  # the environment variable that names its file; then nothing else is tried
    package: str  # what pip installs
    patterns: tuple[str, ...]  # globs below site-packages, where pip puts it
    one_cpu: bool = False  # show it one CPU while it is opened: it starts a thread for each

    def file(self) -> str:
        """Open the library, for good, and return its file; RuntimeError says what was tried."""
        return _opened(self)


@functools.cache  # one that is not found is looked for again
def _opened(library: NeededLibrary) -> str:
    open_library = tvm.get_global_func("collage.own_code.open_library")
    place = {**dataclasses.asdict(library), "patterns": ":".join(library.patterns)}
    try:
        return str(open_library(*place.values()))
    except RuntimeError as error:
        raise RuntimeError(last_line(error)) from None


def c_source_module(
    function: relay.Function,
    source: str,
    entry: str = "run",
    flags: Sequence[str] = FLAGS,
    library: NeededLibrary | None = None,
) -> tvm.runtime.Module:
    """Return the module that runs ``source``, C text that defines ``void <entry>(...)``.

    It gets a pointer to each tensor's data: the function's parameters, then its constants in the
    order in which they are first read (both ``const``), then its outputs. float32 is ``float``,
    float64 ``double``, bool ``uint8_t``, an integer type its name with ``_t``. Tensors are compact,
    row by row. Several threads may call it at once; parts of equal C and flags are compiled and
    loaded once in a process, and share its static variables. ``flags`` may name libraries (``-L``,
    ``-l``) and object files; what neither these nor TVM's runtime define is refused. ``library`` is
    opened before the C is loaded, wherever it lies on the machine that runs the model; what it
    lacks is seen then. TypeError or ValueError for what is no such function, CompilerError with the
    compiler's and linker's first messages.
    """
    graph = _graph_of(function)
    for name, value in (("source", source), ("entry", entry)):
        if not isinstance(value, str):
            raise TypeError(f"c_source_module: {name} is a str, got {type(value).__name__}")
    if isinstance(flags, str):
        raise TypeError(f"c_source_module: flags is a list of texts, got {flags!r}")
    text = source + _entry_text(graph, entry)
    code = _compile(text, tuple(flags), cc.get_cc(), needs=library.soname if library else "")
    attrs = {"source": source, "library": code.hex()}
    return _module("c_source", function, graph, strings=attrs, library=library)


def registered_function_module(function: relay.Function, name: str) -> tvm.runtime.Module:
    """Return the module that calls the global function ``name`` (``tvm.register_func``).

    It gets the tensors in the order of `c_source_module` and writes the outputs. The exported model
    holds the name alone: whoever loads it, worker processes too, must have registered the function,
    by importing the module that does. ValueError when it is not registered here.
    """
    if tvm.get_global_func(name, allow_missing=True) is None:
        raise ValueError(
            f"registered_function_module: no function is registered as {name!r}: "
            "use tvm.register_func in the module that defines the backend"
        )
    return _module("global_function", function, _graph_of(function), strings={"function": name})


def _module(
    kind: str,
    function: relay.Function,
    graph: Graph,
    strings: dict[str, str],
    library: NeededLibrary | None = None,
) -> tvm.runtime.Module:
    graph.nodes[0].attrs = {"strings": strings}
    if library is not None:
        graph.nodes[0].attrs["ints"] = {"needs_one_cpu": [int(library.one_cpu)]}
        told = ("title", "soname", "variable", "package")
        strings.update({f"needs_{name}": getattr(library, name) for name in told})
        strings["needs_patterns"] = ":".join(library.patterns)
    symbol = str(function.attrs["global_symbol"])
    names = [f"{symbol}_const_{i}" for i in range(len(graph.constants))]  # as TVM names them
    return tvm.get_global_func(f"collage.{kind}.create")(symbol, to_json(graph), names)


def _graph_of(function: relay.Function) -> Graph:
    """Return the function's tensors, and a node for each output."""
    if not isinstance(function, relay.Function) or "global_symbol" not in (function.attrs or {}):
        raise TypeError(
            "a module is made of the function that Backend.compile gets, "
            f"not of {type(function).__name__}"
        )
    graph = Graph(str(function.attrs["Compiler"]) if "Compiler" in function.attrs else "?")
    for param in function.params:
        graph.inputs.append(_tensor(graph, param.checked_type, f"input {param.name_hint}"))
    for constant in nodes_of(function, relay.Constant):  # in the order of TVM's ConstantUpdater
        graph.new_constant(constant.data)
    result = function.ret_type
    for number, each in enumerate(getattr(result, "fields", [result])):
        graph.outputs.append(_tensor(graph, each, f"output {number}"))
        graph.nodes.append(Operation("own_code", [], graph.outputs[-1], attrs={}))
    return graph


def _tensor(graph: Graph, kind: relay.Type, what: str) -> int:
    is_static = isinstance(kind, relay.TensorType) and all(
        isinstance(extent, tvm.tir.IntImm) for extent in kind.shape
    )
    if not is_static:
        raise ValueError(f"backend {graph.backend}: {what} is no tensor of static shape: {kind}")
    return graph.new_tensor([int(extent) for extent in kind.shape], kind.dtype)


def _entry_text(graph: Graph, entry: str) -> str:
    """Return the C function that the runtime calls, beside the user's."""
    arguments = []
    tensors = [*graph.inputs, *graph.constants, *graph.outputs]
    for place, tensor in enumerate(tensors):
        dtype = graph.dtypes[tensor]
        if dtype not in _C_TYPES:
            raise ValueError(
                f"backend {graph.backend}: C has no type for {dtype}; known: {', '.join(_C_TYPES)}"
            )
        const = "" if tensor in graph.outputs else "const "
        arguments.append(f"({const}{_C_TYPES[dtype]}*)tensors[{place}]")
    call = f"{entry}({', '.join(arguments)});"
    return f"\nvoid collage_c_source_entry(void* const* tensors) {{ {call} }}\n"


@functools.lru_cache(maxsize=128)
def _compile(source: str, flags: Sequence[str], compiler: str | None, needs: str = "") -> bytes:
    """Return the shared library of a C text, which a net has many equal parts of.

    ``needs`` is the name of a library that it needs. An empty one of that name is linked in its
    place, since a large one takes the linker a second.
    """
    if compiler is None:
        raise CompilerError("no C compiler was found: install gcc or clang, or set CC")
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "library.so")
        # The flags may name libraries and object files: behind what needs them, and none is C.
        command = [compiler, "-x", "c", "-include", "stdint.h", "-Wl,-z,defs", "-", "-x", "none"]
        command += [*flags, "-fPIC", "-shared", "-o", file, "-lm"]
        # Wrong numbers or types of arguments are errors, whatever the compiler's version.
        command += ["-Werror=implicit-function-declaration", "-Werror=incompatible-pointer-types"]
        if needs:
            empty = os.path.join(folder, "needed.so")
            with open(empty, "wb") as library:
                library.write(_compile("", (f"-Wl,-soname,{needs}",), compiler))
            command += ["-Wl,--no-as-needed", empty, "-Wl,-z,undefs"]
        errors = _errors(command, source)
        missing = undefined_symbols(errors or "")
        if missing and all(name.startswith("TVM") for name in missing):
            errors = _errors([*command, "-Wl,-z,undefs"], source)  # the process has TVM's runtime
        if errors is not None:
            text = "; ".join(error_lines(errors)[:3])
            raise CompilerError(f"{os.path.basename(compiler)} refused the C source: {text}")
        with open(file, "rb") as library:
            return library.read()


def _errors(command: Sequence[str], source: str) -> str | None:
    """Return what the compiler says when it fails, else None."""
    try:
        done = subprocess.run(
            command,
            input=source,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_SECONDS,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompilerError(f"the C compiler {command[0]} did not do it: {error}") from error
    return None if done.returncode == 0 else done.stderr
