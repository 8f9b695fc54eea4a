# SPDX-License-Identifier: Apache-2.0
"""A model that was built of a decision, as a fast function. Docs: docs/deploy.md.
Test: tvm_collage/test_runner.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tvm
from tvm.runtime.vm import Executable
from tvm_collage.runner import OpenRunner, Runner, executor_runner, load_runner, vm_runner

from ..errors import ModuleError

__all__ = ["Built", "Runner", "load_runner"]


@dataclasses.dataclass(frozen=True)
class Built:
    """A module of TVM's runtime that holds a model, and the Relay module that it was built of."""

    module: tvm.runtime.Module  # of a library of the graph or AOT executor, or a VM's executable
    mod: tvm.IRModule
    mod_name: str = "default"  # which the model was built under

    @classmethod
    def of_library(cls, library: Any, mod: tvm.IRModule) -> Built:
        """Make one of what relay.build or relay.vm.compile answers, and which it does not keep:
        that may keep this."""
        if isinstance(library, Executable):
            return cls(library.mod, mod)
        return cls(library.module, mod, library.libmod_name)

    def runner(self) -> Runner:
        """Return a new runner, with an executor of its own. ModuleError for a VM's function that
        takes other than tensors of fixed shapes."""
        if self.module.type_key == "VMExecutable":
            return vm_runner_of(self.module, tensors_of(self.mod))
        # An AOT library's names are those of C.
        is_aot = self.module.type_key == "AotExecutorFactory"
        names = [param.name_hint for param in self.mod["main"].params] if is_aot else None
        return executor_runner(self.module, self.mod_name, names)


def vm_runner_of(executable: tvm.runtime.Module, tensors: Mapping[str, Any]) -> Runner:
    """Return a runner of main of a VM's executable, whose `tensors` are those of tensors_of.
    ModuleError for what is no tensor, and for an input without a fixed shape."""
    from tvm.runtime.vm import VirtualMachine

    for kind, rows in tensors.items():
        for name, shape, dtype in rows:
            if shape is None or (None in shape and kind == "inputs"):
                text = f"is a {dtype} and no tensor" if shape is None else "has no fixed shape"
                raise ModuleError(
                    "a runner takes and gives tensors, those that it takes of fixed shapes, but "
                    f"{kind.removesuffix('s')} {name!r} {text}: run the executable by "
                    "tvm.runtime.vm.VirtualMachine"
                )
    machine, inputs, outputs = VirtualMachine(executable, tvm.cpu()), *tensors.values()
    if any(None in shape for _, shape, _ in outputs):
        return OpenRunner(machine, inputs, outputs)
    return vm_runner(machine.module, inputs, outputs)


def tensors_of(mod: tvm.IRModule) -> dict[str, list[list[Any]]]:
    """Return name, shape and type of main's inputs and outputs, as JSON values. An extent that only
    a run tells is None, as is the shape of what is no tensor."""
    main = tvm.relay.transform.InferType()(mod)["main"]
    given = main.checked_type.ret_type
    fields = given.fields if isinstance(given, tvm.ir.TupleType) else [given]
    return {
        "inputs": [[param.name_hint, *_tensor(param.checked_type)] for param in main.params],
        "outputs": [[f"output_{i}", *_tensor(kind)] for i, kind in enumerate(fields)],
    }


def _tensor(kind: tvm.ir.Type) -> tuple[list[int | None] | None, str]:
    """Return shape and dtype of a tensor's type; None for what is none."""
    if not isinstance(kind, tvm.ir.TensorType):
        return None, type(kind).__name__
    shape = [int(n) if isinstance(n, tvm.tir.IntImm) else None for n in kind.shape]
    return shape, kind.dtype
