# SPDX-License-Identifier: Apache-2.0
"""What no backend's candidate was made of, and who said no: for authors of backends and patterns.

Test: inspect/test_refusal.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tvm
from tvm import relay

from ..errors import ModuleError
from ..records import read_json
from ..views.handle import call
from .look import partition_specs


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A match that was turned down.

    rule: the pattern's or rule's name. nodes: indices in dataflow_graph(function) of what matched;
    ops: its operators, inputs first. reason: the predicate's words, what it raised, or the limit.
    """

    backend: str
    rule: str
    nodes: tuple[int, ...]
    ops: tuple[str, ...]
    reason: str

    def Summary(self) -> str:
        return f"{self.rule} does not take {', '.join(self.ops)}: {self.reason}"


def refusals(mod: tvm.IRModule | relay.Function, targets: Any) -> list[Refusal]:
    """Matches in a module or function that became no candidate, function by function.

    `targets` as for `candidates`. What no pattern matches is not among them.
    """
    if not isinstance(mod, (tvm.IRModule, relay.Function)):
        raise ModuleError(f"expected a relay.Function, got {type(mod).__name__}")
    if isinstance(mod, relay.Function):
        mod = tvm.IRModule.from_expr(mod)
    specs = partition_specs(targets)
    return [
        refusal
        for function in relay.transform.InferType()(mod).functions.values()
        if call("CanBePartitioned", function)
        for refusal in read_json(list[Refusal], call("Refusals", function, specs))
    ]
