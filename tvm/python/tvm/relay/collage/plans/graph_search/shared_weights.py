# SPDX-License-Identifier: Apache-2.0
"""Libraries of many plans of one module as files without weights, which lie beside them, each once.

A model's weights are most of its library: written, linked and read for each plan again they take
longer than all that the plan does not share with others. measure/weights_apart.py loads such a
file.
Test: plans/graph_search/test_shared_weights.py
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

from ...compile.compiled_parts import constants_of
from ...exec.arrays import view_of
from ...relay_util.walk import nodes_of


class SharedWeights:
    """A folder of arrays, one file for each that has other contents; forks may write there, too.

    mod: the module whose plans the libraries are of. They hold the very arrays of its constants,
    which are therefore read once; what a build folds is another array each time.
    """

    def __init__(self, folder: str, mod: tvm.IRModule) -> None:
        self._folder = folder
        # By identity, which the keys keep; None until a library has such an array.
        self._entries: dict[tvm.nd.NDArray, list[str] | None] = {
            constant.data: None for constant in nodes_of(mod, relay.Constant)
        }

    def export(self, library: tvm.runtime.Module, file: str, **options: Any) -> str:
        """Write `library` to `file`; the file that says where its weights are, or "" for one that
        has them, since it is not made of what we know. `options` are those of export_library."""
        light = _without_weights(library)
        if light is None:
            library.export_library(file, **options)
            return ""
        module, constants = light
        module.export_library(file, **options)
        weights = {
            "parts": {name: [self._add(array) for array in kept] for name, kept in constants},
            "params": {name: self._add(array) for name, array in library.params.items()},
        }
        with open(f"{file}.json", "w", encoding="utf-8") as stream:
            json.dump(weights, stream)
        return f"{file}.json"

    def _add(self, array: tvm.nd.NDArray) -> list[str]:
        """File and dtype of an array; bits stand for numbers that numpy has no type for."""
        entry = self._entries.get(array) or self._write(array)
        if array in self._entries:
            self._entries[array] = entry
        return entry

    def _write(self, array: tvm.nd.NDArray) -> list[str]:
        bits = np.ascontiguousarray(view_of(array))
        digest = hashlib.sha256(f"{array.dtype} {bits.shape} ".encode())
        digest.update(bits.data)
        file = os.path.join(self._folder, f"{digest.hexdigest()}.npy")
        if not os.path.exists(file):
            # Whole as soon as it is there: other processes may write and read the same one.
            unfinished = f"{file}.{os.getpid()}.npy"
            np.save(unfinished, bits)
            os.replace(unfinished, file)
        return [file, array.dtype]


def files_of(weights: str) -> set[str]:
    """Return the files that `export` has named in this one; none for ""."""
    if not weights:
        return set()
    with open(weights, encoding="utf-8") as stream:
        found = json.load(stream)
    entries = [*found["params"].values(), *itertools.chain(*found["parts"].values())]
    return {file for file, _ in entries}


def _without_weights(
    library: tvm.runtime.Module,
) -> tuple[tvm.runtime.Module, list[tuple[str, list[tvm.nd.NDArray]]]] | None:
    """Return the executor's factory without weights, and those of its parts by symbol; None where
    TVM hands some module weights that it does not tell of."""
    if not isinstance(library, GraphExecutorFactoryModule):
        return None
    modules, constants = [], []
    for leaf in _leaves(library.lib):
        is_given = _is_given_constants(leaf)
        if is_given and not leaf.is_dso_exportable:  # who asks for it first has them handed over
            library.lib.get_function(leaf.get_function("get_symbol")(), query_imports=True)
        # One that tells of no constants has its own format, and its weights stay in the file.
        kept = [] if leaf.is_dso_exportable else constants_of(leaf)
        if is_given and not kept:
            return None
        if kept:
            constants.append((str(leaf.get_function("get_symbol")()), kept))
            leaf = leaf if is_given else leaf.get_function("without_constants")()
        modules.append(leaf)
    root = next((module for module in modules if module.type_key == "llvm"), None)
    if root is None:
        return None
    for module in modules:
        if module is not root:
            root.import_module(module)
    make = tvm.get_global_func("tvm.graph_executor_factory.create")
    return make(library.graph_json, root, library.libmod_name), constants


def _leaves(module: tvm.runtime.Module) -> list[tvm.runtime.Module]:
    """Return the modules that import no others: what is between only holds them together."""
    imported = module.imported_modules
    return [leaf for each in imported for leaf in _leaves(each)] if imported else [module]


def _is_given_constants(module: tvm.runtime.Module) -> bool:
    """Return whether TVM hands the module constants that it asks for by name, or has to tell it
    that there are none."""
    if not module.implements_function("get_const_vars"):
        return False
    if module.get_function("get_const_vars")():
        return True
    if module.is_dso_exportable:
        return False
    return module.implements_function(f"__init_{module.get_function('get_symbol')()}")
