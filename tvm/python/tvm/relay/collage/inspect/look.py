# SPDX-License-Identifier: Apache-2.0
"""Views of a module; what no candidate was made of, and who said no, for authors of backends and
patterns. Test: views/test_views.py, inspect/test_refusal.py.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay
from tvm.target import make_compilation_config

from ..backends.targets import GivenTargets, parse_targets
from ..errors import ModuleError
from ..files.records import read_json
from ..views.function_report import Refusal
from ..views.graph import DataflowGraph
from ..views.handle import call
from ..views.partition import CandidatePartition, PartitionSpec


def dataflow_graph(function: relay.Function, as_written: bool = False) -> DataflowGraph:
    """Return the graph of a Relay function; untyped nodes (no InferType) have no types.

    `as_written`: what only names a value, a let or a field of a tuple that is written out, stays a
    node. The pass has the readers of a name read the value itself.

    ModuleError when it is no Relay function.
    """
    if not isinstance(function, relay.Function):
        raise _not_relay(function)
    return call("DataflowGraph", function, as_written)


def partition_specs(targets: GivenTargets) -> list[PartitionSpec]:
    """Return the backends that the pass would use for the targets, in their order, and the host's
    last.

    Options such as `relay.collage.tvm_max_depth` are those of the current PassContext.
    """
    config = make_compilation_config(
        tvm.transform.PassContext.current(), parse_targets(targets).all
    )
    return list(call("Specs", config))


def candidates(
    mod: tvm.IRModule | relay.Function, targets: GivenTargets, estimator: Any = None
) -> list[CandidatePartition]:
    """Return all candidates that the pass would consider for a module or function; nothing is
    searched.

    Function by function, small candidates first. Weights should be bound and the module prepared
    (`collage.compile.prepare`) as for the pass. With an `estimator` (CostEstimator measures, others
    mock) each has its cost, so this may take as long as all of them take to measure.
    """
    functions = _functions_of(mod)
    specs = partition_specs(targets)
    return [
        candidate
        for function in functions
        for candidate in call("Candidates", function, specs, estimator)
    ]


def _functions_of(mod: tvm.IRModule | relay.Function) -> list[relay.Function]:
    """Return the functions that the pass looks at, typed."""
    if not isinstance(mod, (tvm.IRModule, relay.Function)):
        raise _not_relay(mod)
    if isinstance(mod, relay.Function):
        mod = tvm.IRModule.from_expr(mod)
    functions = relay.transform.InferType()(mod).functions.values()
    return [function for function in functions if call("CanBePartitioned", function)]


def _not_relay(value: object) -> Exception:
    return ModuleError(f"expected a relay.Function, got {type(value).__name__}")


def refusals(mod: tvm.IRModule | relay.Function, targets: GivenTargets) -> list[Refusal]:
    """Return matches in a module or function that became no candidate, function by function.

    `targets` as for `candidates`. What no pattern matches is not among them.
    """
    functions = _functions_of(mod)
    specs = partition_specs(targets)
    return [
        refusal
        for function in functions
        for refusal in read_json(list[Refusal], call("Refusals", function, specs))
    ]
