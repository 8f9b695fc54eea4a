# SPDX-License-Identifier: Apache-2.0
"""Each side of a case: Collage with TVM alone, or with external backends, and
onnxruntime. Each function is called in a process of its own, which may die of it.

Test: bench/test_conformance.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.compile.executors import why_vm
from tvm.relay.collage.errors import CollageError
from tvm.relay.collage.messages.foreign import describe
from tvm.runtime.vm import Executable, VirtualMachine
from tvm_collage.runner import executor_runner

from . import CRASHED, LIKE_PEER, REFUSED, RIGHT, WRONG
from .cases import Case, Tensor, difference
from .runtime import session_of

# Ends with a bare name in quotes, as a KeyError's text is; checks of TVM's own; words of Python's.
_UNCLEAN = re.compile(
    r"""(^|: )(['"])[^'"]*\2$"""
    r"""|Check failed|InternalError|Traceback|\w\.(cc|h|py):\d+|\[\d\d:\d\d:"""
    r"""|has no len\(\)|has no attribute|multiple values for|unexpected keyword|not subscriptable"""
    r"""|index out of range|unsupported operand|positional argument"""
)
Outputs = Sequence[np.ndarray]
Run = Callable[[dict[str, Tensor]], Outputs]
# Quick ones: a plan need not be the best, but found, guarded and built as all are.
_OPTIONS = {
    "enable_collage": True,
    "measure_seconds": 0.01,
    "guard_rounds": 3,
    "guard_seconds": 0.3,
    "time_limit": 40.0,
    "store": "none",
    "progress": "quiet",
}


def of_onnxruntime(case: Case) -> dict[str, Any]:
    return _outcome(case, lambda: session_of(case.model()), lambda *_: False)


def of_ours(case: Case, backends: Sequence[str] = ()) -> dict[str, Any]:
    """Through Collage; with TVM alone, nothing is measured."""
    return _outcome(case, lambda: built(case, backends), _is_like_onnxruntime)


def _outcome(
    case: Case, prepare: Callable[[], Run], is_like_peer: Callable[[Outputs, Case], bool]
) -> dict[str, Any]:
    """A record's fields: the outcome, its reason, and whether that is a line made for users."""
    try:
        run = prepare()
    except Exception as error:  # noqa: BLE001 - whatever it raises is the outcome
        return {"outcome": REFUSED, "reason": describe(error), "is_clean": _is_clean(error)}
    try:
        outputs = run(case.inputs())
    except Exception as error:  # noqa: BLE001
        return {"outcome": CRASHED, "reason": describe(error), "is_clean": False}
    why = difference(outputs, case.outputs(), case)
    outcome = RIGHT if not why else LIKE_PEER if is_like_peer(outputs, case) else WRONG
    return {"outcome": outcome, "reason": why, "is_clean": True}


def _is_like_onnxruntime(outputs: Outputs, case: Case) -> bool:
    try:
        theirs = session_of(case.model())(case.inputs())
    except Exception:  # noqa: BLE001 - then ONNX's outputs alone count
        return False
    kinds = [wanted.kind for wanted in case.outputs()]
    return not difference(outputs, list(map(Tensor, theirs, kinds)), case)


def _is_clean(error: Exception) -> bool:
    """Tell whether it is one line that was written for users."""
    is_ours = isinstance(error, (CollageError, tvm.error.OpNotImplemented))
    text = str(error).strip()
    return is_ours and "\n" not in text and _UNCLEAN.search(text) is None


def built(case: Case, backends: Sequence[str]) -> Run:
    shapes = {name: tensor.array.shape for name, tensor in case.inputs().items()}
    mod, params = collage.from_onnx(case.model(), shapes)
    mod = relay.transform.InferType()(mod)
    build = relay.vm.compile if why_vm(mod) else relay.build
    config = {f"relay.collage.{name}": value for name, value in _OPTIONS.items()}
    targets = [collage.host_target(), *map(tvm.target.Target, backends)]
    with tvm.transform.PassContext(opt_level=3, config=config):
        library = build(mod, target=targets, params=params)
    if isinstance(library, Executable):
        return _run_of_vm(library, [param.name_hint for param in mod["main"].params])
    runner = executor_runner(library.module, library.libmod_name)
    taken = [each.name for each in runner.inputs]
    return lambda inputs: runner({name: inputs[name].array for name in taken})


def _run_of_vm(executable: Executable, names: Sequence[str]) -> Run:
    machine = VirtualMachine(executable, tvm.cpu())

    def run(inputs: dict[str, Tensor]) -> list[np.ndarray]:
        found = machine.invoke("main", *(inputs[name].array for name in names))
        return [each.numpy() for each in _leaves(found)]

    return run


def _leaves(found: Any) -> list[Any]:
    if isinstance(found, tvm.nd.NDArray):
        return [found]
    return [leaf for each in found for leaf in _leaves(each)]
