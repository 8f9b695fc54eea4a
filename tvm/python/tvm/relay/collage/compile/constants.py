# SPDX-License-Identifier: Apache-2.0
"""Constants of a library, each of them once, under a name that no input has.

Where a library has parts of external backends, TVM puts all constants into the module that gives
those their own, and those of the host's kernels into the executor as well: a file has them twice.
The graph executor's constants are called p0, p1, ...; an input of such a name was never set.

The row "constants of a library" of tvm_fixes/table.py. Test: compile/test_constants.py.
"""

from __future__ import annotations

import json
from typing import Any

import tvm
from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

_LOADER = "const_loader"


def mend_constants(built: Any) -> Any:
    """Change what relay.build or relay.vm.compile has made where constants are there twice or have
    the name of an input, and return it.

    A constant that the host and a part of a backend both read stays with each of them.
    """
    if isinstance(built, GraphExecutorFactoryModule):
        has_loader, has_clash = built.lib.type_key == _LOADER, _rename_clashing(built)
        if has_loader:
            built.lib = _slim(built.lib)
        if has_loader or has_clash:
            built.module = _factory(built)
    elif isinstance(built, tvm.runtime.vm.Executable):
        for lib in built.mod.imported_modules:  # none or one
            if lib.type_key == _LOADER:
                tvm.get_global_func("runtime.ModuleClearImports")(built.mod)
                built.mod.import_module(_slim(lib))
    return built


def _slim(loader: tvm.runtime.Module) -> tvm.runtime.Module:
    return tvm.get_global_func("collage.SlimConstLoader")(loader)


def _rename_clashing(library: GraphExecutorFactoryModule) -> bool:
    """Rename constants of the graph that are called as an input; tell whether there are any."""
    graph = json.loads(library.graph_json)
    seen: set[str] = set()
    clashing = []
    for node in graph["nodes"]:  # inputs come first
        if node["name"] in seen and node["name"] in library.params:
            clashing.append(node)
        seen.add(node["name"])
    for node in clashing:
        old, number = node["name"], 0
        while f"{old}_{number}" in seen:
            number += 1
        node["name"] = f"{old}_{number}"
        seen.add(node["name"])
        library.params[node["name"]] = library.params.pop(old)
    if clashing:
        library.graph_json = json.dumps(graph)
    return bool(clashing)


def _factory(library: GraphExecutorFactoryModule) -> tvm.runtime.Module:
    """Make the executor's factory as TVM does, but for its copies of the parameters."""
    make = tvm.get_global_func("tvm.graph_executor_factory.create")
    pairs = [item for pair in library.params.items() for item in pair]
    return make(library.graph_json, library.lib, library.libmod_name, *pairs)
