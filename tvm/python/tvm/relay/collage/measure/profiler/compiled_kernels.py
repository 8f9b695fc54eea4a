# SPDX-License-Identifier: Apache-2.0
"""The kernels of a compiled library by the hash of their code, whatever they are called.

Precondition: a graph executor's library as `build_library` returns it, not yet exported.
Test: measure/profiler/test_compiled_kernels.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import tvm

from ...relay_util.external import TVM_BACKEND
from ...relay_util.walk import operator_calls
from .borders import is_kernel

# Attributes of a kernel's TIR that name it or hash the Relay function that it was made of.
_NAMES = ("global_symbol", "hash")


@dataclasses.dataclass(frozen=True)
class CompiledKernel:
    """One call of a kernel in the graph executor's order."""

    node: int  # its index in the executor's graph
    name: str  # its symbol there
    backend: str  # "tvm", or the type of the runtime module that has it
    ops: tuple[str, ...]  # its operators, sorted; none for what an external backend compiled
    # 16 hexadecimal digits: the lowered TIR or the external module's source, without names
    code: str
    types: tuple[str, ...]  # of what it reads and returns
    weights: tuple[str, ...]  # types of its constant arguments
    values: str = dataclasses.field(repr=False)  # the hash of their contents

    def Summary(self) -> str:
        """Return one line: backend, operators and types."""
        what = " ".join(self.ops) or "external"
        return f"{self.backend} {self.code[:8]} {what} {', '.join(self.types)}"


def kernels_of(library: tvm.runtime.Module) -> list[CompiledKernel]:
    """Return the kernels that a run calls, in their order; what moves no data (`__nop`) is left
    out."""
    graph = json.loads(library.get_graph_json())
    shapes, types = graph["attrs"]["shape"][1], graph["attrs"]["dltype"][1]
    first = graph["node_row_ptr"]
    external = _ExternalModules(library)

    def type_of(node: int, output: int) -> str:
        entry = first[node] + output
        return f"{types[entry]}{shapes[entry]}".replace(" ", "")

    found = []
    for index, node in enumerate(graph["nodes"]):
        if not is_kernel(node):
            continue
        name = node["attrs"]["func_name"]
        read = [(graph["nodes"][source]["name"], source, out) for source, out, _ in node["inputs"]]
        outputs = range(first[index], first[index + 1])
        arrays = [library.params[source] for source, _, _ in read if source in library.params]
        info = library.function_metadata[name]
        lowered = next((f for _, f in info.tir_primfuncs.items()), None)
        if lowered is None:
            backend, code, constants = external.describe(name)
            arrays, ops = [*arrays, *constants], tuple[str, ...]()
        else:
            backend, code = TVM_BACKEND, _code_of(lowered)
            ops = _operators(next(f for _, f in info.relay_primfuncs.items()))
        found.append(
            CompiledKernel(
                index,
                name,
                backend,
                ops=ops,
                code=code,
                types=(
                    *(type_of(s, out) for label, s, out in read if label not in library.params),
                    "->",
                    *(type_of(index, entry - first[index]) for entry in outputs),
                ),
                weights=tuple(f"{a.dtype}{list(a.shape)}".replace(" ", "") for a in arrays),
                values=_hash(b"".join(a.numpy().tobytes() for a in arrays)),
            )
        )
    return found


class _ExternalModules:
    """The account that the runtime modules of external backends in a library give of themselves."""

    def __init__(self, library: tvm.runtime.Module) -> None:
        modules = list(_imported(library.get_lib()))
        self._modules = {
            str(module["get_symbol"]()): module
            for module in modules
            if module.implements_function("get_symbol") and module.type_key != "llvm"
        }
        loader = next((module for module in modules if module.type_key == "const_loader"), None)
        self._constants = dict(loader["get_const_var_ndarray"]().items()) if loader else {}

    def describe(self, symbol: str) -> tuple[str, str, list[Any]]:
        """Return backend, hash of the code, and constants of a function."""
        module = self._modules.get(symbol)
        if module is None:
            raise ValueError(f"no runtime module of the library says that it has {symbol!r}")
        source = module.get_source().replace(symbol, "")
        if module.implements_function("get_constants"):
            constants = list(module["get_constants"]())
        else:
            constants = [self._constants[str(name)] for name in module["get_const_vars"]()]
        return module.type_key, _hash(f"{module.type_key}|{source}".encode()), constants


def _imported(module: tvm.runtime.Module) -> Iterator[Any]:
    yield module
    for other in module.imported_modules:
        yield from _imported(other)


def _code_of(lowered: tvm.tir.PrimFunc) -> str:
    for name in _NAMES:
        lowered = lowered.without_attr(name)
    return f"{tvm.ir.structural_hash(lowered) & (2**64 - 1):016x}"


def _operators(function: Any) -> tuple[str, ...]:
    return tuple(sorted(call.op.name for call in operator_calls(function)))


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
