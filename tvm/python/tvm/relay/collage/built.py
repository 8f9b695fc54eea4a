# SPDX-License-Identifier: Apache-2.0
"""What was built of a decision, as a fast function. Docs: docs/runner.md.
Test: tvm_collage/test_runner.py."""

from __future__ import annotations

import dataclasses
from typing import Any

import tvm
from tvm.runtime.vm import Executable
from tvm_collage.runner import Runner, executor_runner, load_runner, vm_runner

from .errors import ModuleError

__all__ = ["Built", "Runner", "load_runner"]


@dataclasses.dataclass(frozen=True)
class Built:
    """A module of TVM's runtime that holds a model, and the Relay module that it was built of.

    module: of a library of the graph or AOT executor, or a VM's executable. mod_name: the name that
    the model was built under.
    """

    module: tvm.runtime.Module
    mod: tvm.IRModule
    mod_name: str = "default"

    @classmethod
    def of_library(cls, library: Any, mod: tvm.IRModule) -> Built:
        """Of what relay.build or relay.vm.compile answers. It does not keep that, which may keep
        this."""
        if isinstance(library, Executable):
            return cls(library.mod, mod)
        return cls(library.module, mod, library.libmod_name)

    def runner(self) -> Runner:
        """A new runner, with an executor of its own. ModuleError for a VM's function whose tensors
        have no fixed shapes."""
        if self.module.type_key == "VMExecutable":
            return self._vm_runner()
        # An AOT library's names are those of C.
        is_aot = self.module.type_key == "AotExecutorFactory"
        names = [param.name_hint for param in self.mod["main"].params] if is_aot else None
        return executor_runner(self.module, self.mod_name, names)

    def _vm_runner(self) -> Runner:
        from tvm.runtime.vm import VirtualMachine

        main = tvm.relay.transform.InferType()(self.mod)["main"]
        given = main.checked_type.ret_type
        fields = given.fields if isinstance(given, tvm.ir.TupleType) else [given]
        inputs = [_tensor(f"input {p.name_hint!r}", p.checked_type) for p in main.params]
        outputs = [_tensor(f"output {i}", kind) for i, kind in enumerate(fields)]
        names = [param.name_hint for param in main.params]
        return vm_runner(
            VirtualMachine(self.module, tvm.cpu()).module,
            [[name, *rest] for name, rest in zip(names, inputs, strict=True)],
            [[f"output_{i}", *rest] for i, rest in enumerate(outputs)],
        )


def _tensor(what: str, kind: tvm.ir.Type) -> tuple[list[int], str]:
    """Shape and dtype of a tensor's type."""
    if not isinstance(kind, tvm.ir.TensorType):
        text = f"is a {type(kind).__name__} and no tensor"
    elif not all(isinstance(extent, tvm.tir.IntImm) for extent in kind.shape):
        text = "has no fixed shape"
    else:
        return [int(extent) for extent in kind.shape], kind.dtype
    raise ModuleError(
        f"a runner takes and gives tensors of fixed shapes, but {what} {text}: run "
        "the executable by tvm.runtime.vm.VirtualMachine"
    )
