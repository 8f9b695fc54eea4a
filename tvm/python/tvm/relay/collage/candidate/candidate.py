# SPDX-License-Identifier: Apache-2.0
"""The candidate that is measured: a module whose main computes it.
Test: candidate/test_candidate.py.

The same form reaches the build for measuring and for deploying: parts of external backends are
global functions marked Primitive, Compiler, global_symbol and Inline; TVM's parts stay in main.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Protocol

import tvm
from tvm.relay import expr as _expr
from tvm.relay.analysis import free_vars
from tvm.relay.function import Function

from ..ops import ONNX_NODES, library_version
from ..relay_util.external import is_external_function
from ..relay_util.walk import nodes_of, operator_calls
from .footprint import inner_bytes
from .weights import WeightNames, bind_weights, extract_weights, replace_nodes, weight_bytes

_FORMAT = 2
# Build options that are parts of a candidate's key, and no keywords: the hash of its tuning records
# and whose they are, and the version of the library that TVM's code calls for nodes of ONNX models.
TUNING, CALLS = NO_KEYWORDS = ("tuning", "calls")


class Records(Protocol):
    """Tuning records that a candidate may carry: tuning.TuningRecords, which knows candidates."""

    def __bool__(self) -> bool: ...

    def of_module(self, mod: tvm.IRModule) -> Records:
        """Return those that kernels of the typed module may use."""
        ...

    def named(self) -> str:
        """Return a digest, and whose they are."""
        ...

    def to_json(self) -> dict[str, list[str]]:
        """Return their lines by tuner."""
        ...


@dataclasses.dataclass(frozen=True)
class CandidateModule:
    """A candidate in its weight-free form, with what a worker needs to build it; plain text."""

    backend: str
    target: str
    # structural, of the weight-free module, with the values of constants up to 16 elements and of
    # weights.kept_constants
    hash: str
    module: str = dataclasses.field(repr=False)  # TVM's JSON of the weight-free module
    # the parameters that stand for weights, by global function
    weights: WeightNames = dataclasses.field(default_factory=dict, compare=False, repr=False)
    # keywords for the builder, besides those of NO_KEYWORDS
    build_options: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False)
    label: str = dataclasses.field(default="", compare=False)  # for people
    # lines of the tuning records that it may use, by kind
    records: dict[str, list[str]] = dataclasses.field(
        default_factory=dict, compare=False, repr=False
    )
    # whether its outputs are compared with the reference's
    verify: bool = dataclasses.field(default=False, compare=False)
    # the type of costs.rounding.RELATIVE that its backend computes in where the module's is finer
    computes_in: str = dataclasses.field(default="", compare=False)
    weight_bytes: int = dataclasses.field(default=0, compare=False)  # of its weights
    # of the values inside it (footprint.py)
    inner_bytes: int = dataclasses.field(default=0, compare=False)

    def key(self) -> str:
        """Return a text that is equal for candidates that must cost the same: same functions up to
        the values of weights and the names of variables and globals, same backend, target and build
        options, verified alike."""
        return "|".join((self.backend, self.hash, self.target, self.options_text()))

    @property
    def needs_caches(self) -> bool:
        return self.weight_bytes + self.inner_bytes > 0

    def options_text(self) -> str:
        """Return the build options as JSON, and whether it is verified: a cost that was not does
        not serve where it must be."""
        return json.dumps(
            {**self.build_options, **({"verify": True} if self.verify else {})}, sort_keys=True
        )

    def instantiate(self, seed: int = 0) -> tvm.IRModule:
        """Return the module to build: weights bound as constants with random data, types
        inferred."""
        mod = bind_weights(tvm.ir.load_json(self.module), self.weights, seed)
        return tvm.relay.transform.InferType()(mod)

    def Summary(self) -> str:
        """Return one line for logs."""
        weights = sum(len(names) for names in self.weights.values())
        return f"{self.backend} {self.hash[:8]}, {weights} weights, {len(self.module)} bytes"

    def to_json(self) -> dict[str, Any]:
        return {"format": _FORMAT, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> CandidateModule:
        """Invert to_json; ValueError for another format."""
        fields = dict(fields)
        if fields.pop("format", None) != _FORMAT:
            raise ValueError("not a candidate module of this version")
        return cls(**fields)


def candidate_module(
    function: Function | tvm.IRModule,
    backend: str,
    target: tvm.target.Target | str,
    build_options: dict[str, Any] | None = None,
    label: str = "",
    tuning: Records | None = None,
) -> CandidateModule:
    """Return the candidate that `function` (or a module's main) computes.

    Weights must be constants in it already: a parameter is an input, which changes with each run.
    `target` is the host target that the build gets; `backend` only names who runs the candidate.
    Of the records in `tuning` it takes along those that its kernels may use. Its outputs are
    verified when a part of it is external; `dataclasses.replace` sets that otherwise.
    ValueError for a module without main or a function with free variables.
    """
    mod = deployable_module(function)
    return deployed_candidate(
        mod, backend, target, build_options=build_options, label=label, tuning=tuning
    )


def deployed_candidate(
    mod: tvm.IRModule,
    backend: str,
    target: tvm.target.Target | str,
    build_options: dict[str, Any] | None = None,
    label: str = "",
    tuning: Records | None = None,
) -> CandidateModule:
    """Return the candidate of a module that `deployable_module` made, as candidate_module does."""
    weight_free, names = extract_weights(mod)
    options = dict(build_options or {})
    records = tuning.of_module(mod) if tuning else None
    if records:
        options[TUNING] = records.named()
    options |= calls_of(mod)
    digest = tvm.ir.structural_hash(weight_free, map_free_vars=True) & (2**64 - 1)
    return CandidateModule(
        backend=backend,
        target=str(target),
        hash=f"{digest:016x}",
        module=tvm.ir.save_json(weight_free),
        weights=names,
        build_options=options,
        label=label,
        records=records.to_json() if records else {},
        verify=any(map(is_external_function, mod.functions.values())),
        weight_bytes=weight_bytes(mod),
        inner_bytes=inner_bytes(mod),
    )


def calls_of(mod: tvm.IRModule) -> dict[str, str]:
    """Return the version of the library that TVM's code calls for a module's ONNX nodes, under
    CALLS; {} where it has none."""
    calls = operator_calls(mod["main"].body)
    is_called = any(call.op.name in ONNX_NODES for call in calls)
    return {CALLS: library_version()} if is_called else {}


def deployable_module(function: Function | tvm.IRModule) -> tvm.IRModule:
    """Return a typed module in which external functions are globals in the form that executors
    take, named by their order, so that equal candidates from different places are equal."""
    if isinstance(function, Function):
        free = free_vars(function)
        if free:
            raise ValueError(f"a candidate has free variables: {[v.name_hint for v in free]}")
        function = tvm.IRModule.from_expr(function)
    if "main" not in [var.name_hint for var in function.get_global_vars()]:
        raise ValueError("a candidate's module has no function 'main'")
    mod = tvm.relay.transform.InferType()(function)
    external: dict[Any, _expr.GlobalVar] = {}  # literal or old global -> new global
    functions: dict[tvm.ir.GlobalVar, Any] = {}
    main = mod["main"]
    for node in nodes_of(main.body, tvm.ir.GlobalVar, Function):
        called = mod[node] if isinstance(node, tvm.ir.GlobalVar) else node
        if not is_external_function(called):
            continue
        compiler = str(called.attrs["Compiler"])
        var = tvm.ir.GlobalVar(f"collage_{compiler.replace('-', '_')}_{len(external)}")
        external[node] = var
        one = tvm.tir.IntImm("int32", 1)
        marks = {"global_symbol": var.name_hint, "Primitive": one, "Inline": one}
        functions[var] = called.with_attr(marks)
    if not external:
        return mod
    body = replace_nodes(main.body, external)
    functions[tvm.ir.GlobalVar("main")] = Function(
        main.params, body, main.ret_type, main.type_params, main.attrs
    )
    for var, other in mod.functions.items():
        if var.name_hint != "main" and var not in external:
            functions[var] = other
    return tvm.relay.transform.InferType()(tvm.IRModule(functions, mod.type_definitions))
