# SPDX-License-Identifier: Apache-2.0
"""The partitioner's data types in Python (RFC 0062, reference section), to look at, not to change.

Handles on the C++ objects that the pass itself works with; nothing is computed twice.

    graph = collage.dataflow_graph(mod["main"])
    part = graph.sub_graph([5, 6], composites={"dnnl.conv2d_relu": [5, 6]})
    part.exits, part.is_valid(SubGraphConfig(max_exits=1))
    for candidate in collage.candidates(mod, [collage.host_target(), "dnnl"]): print(candidate)

Test: test_views.py.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import tvm
from tvm import relay
from tvm._ffi import get_global_func, register_object
from tvm.runtime import Object
from tvm.target import make_compilation_config

from .measure.cost import Cost
from .targets import parse_targets


class OpKind(enum.IntEnum):
    """What TVM can fuse; the numbers are those of ``tvm.relay.op.OpPattern``."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


class TensorType(NamedTuple):
    """A tensor's type; a dimension that is not known at compile time is None."""

    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        dims = ", ".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"{self.dtype}[{dims}]"


class IndexSet(frozenset):
    """Node indexes of one graph, as C++ keeps them in a bitset; a frozenset in Python."""

    def Summary(self) -> str:
        """Runs shortened, "{0,3..7,9}"; count and ends alone when that would be long."""
        return str(_call("IndexSetSummary", sorted(self)))

    __repr__ = Summary


class _View(Object):
    """A handle on an object of the C++ library, whose fields are fetched at their first use."""

    __slots__ = ("__dict__",)

    @functools.cached_property
    def _fields(self) -> dict[str, Any]:
        return json.loads(str(_call(f"{type(self).__name__}Fields", self)))

    def __getattr__(self, name: str) -> Any:
        # TVM's would ask the C++ object's reflection, which these have none of.
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def Summary(self) -> str:
        """One line for logs and tables."""
        return self._fields["summary"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.Summary()})"


@dataclasses.dataclass(frozen=True)
class Node:
    """One node of a DataflowGraph.

    index: its place in the post-dfs order of the function.
    type: "call" (of an op), "call_other", "tuple", "projection", "function", "other" (control
        flow, references; `name` says which), or a leaf: "var", "const", "op", "global",
        "constructor".
    name: the op of a call or op node, the hint of a variable.
    kind: what TVM can fuse it with.
    attrs: of a call or a function, as plain values; of what is none, its type and hash as text.
    types: one TensorType, or several for a tuple; () when it is no tensor or the type is unknown.
    projection: the field that a projection reads, else -1.
    inputs: nodes that it reads, callee first, repeated as often as they are read.
    outputs: nodes that read it, ascending.
    dominator: its immediate post-dominator, -1 for none.
    region: the number of the function, branch, clause or let body that it belongs to.
    num_bytes: size of its value; 0 when not known at compile time.
    is_placeable: whether a partition can hold it. is_result: whether the function returns it.
    """

    index: int
    type: str
    name: str
    kind: OpKind
    attrs: dict[str, Any]
    types: tuple[TensorType, ...]
    is_tuple: bool
    projection: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dominator: int
    region: int
    num_bytes: int
    is_placeable: bool
    is_result: bool
    summary: str = dataclasses.field(repr=False)

    @property
    def op(self) -> str:
        """The op's name of a call of an op, else ""."""
        return self.name if self.type == "call" else ""

    def Summary(self) -> str:
        """One line: "%5 = add(%0, %1)"."""
        return self.summary


@register_object("collage.DataflowGraph")
class DataflowGraph(_View):
    """One Relay function as flat arrays over its post-dfs order; what all rules and the search see.

    ``len(graph)`` nodes, ``graph[i]`` the i-th, ``for node in graph`` all.
    """

    __slots__ = ()

    def __len__(self) -> int:
        return self._fields["size"]

    def __iter__(self) -> Iterator[Node]:
        return map(self.node, range(len(self)))

    def __getitem__(self, index: int) -> Node:
        return self.node(index)

    @property
    def function(self) -> relay.Function:
        """The function that was imported."""
        return _call("Function", self)

    @property
    def result(self) -> int:
        """The node that the function returns."""
        return self._fields["result"]

    @property
    def placeable(self) -> IndexSet:
        """The nodes that a cover must place."""
        return IndexSet(self._fields["placeable"])

    @functools.cached_property
    def structural_hash(self) -> str:
        """16 hexadecimal digits: ops, attributes, types and wiring, the same in every process.

        Names of variables and values of weights are left out; `weights_hash` has those.
        """
        return str(_call("Hashes", self)[0])

    @functools.cached_property
    def weights_hash(self) -> str:
        """16 hexadecimal digits: the values of the function's weights, in their order."""
        return str(_call("Hashes", self)[1])

    def node(self, index: int) -> Node:
        """The node; IndexError outside of the graph."""
        fields = json.loads(str(_call("NodeFields", self, self._checked(index))))
        for name in ("inputs", "outputs"):
            fields[name] = tuple(fields[name])
        types = ((tuple(None if d < 0 else d for d in dims), t) for dims, t in fields["types"])
        fields["types"] = tuple(TensorType(*item) for item in types)
        fields["kind"] = OpKind(fields["kind"])
        return Node(**fields)

    def expr(self, index: int) -> relay.Expr:
        """The node's Relay expression; IndexError outside of the graph."""
        return _call("Expr", self, self._checked(index))

    def sub_graph(
        self,
        indices: Iterable[int],
        composites: Mapping[str, Iterable[int]] | Iterable[tuple[str, Iterable[int]]] = (),
    ) -> SubGraph:
        """The SubGraph of those nodes; `composites` are labels and the nodes inside of each, as a
        mapping, or as pairs where a label occurs twice.

        ValueError for a node that is not in the graph or cannot be placed. Whether the sub-graph
        makes sense is `is_valid`'s to say.
        """
        parts = list(composites.items() if isinstance(composites, Mapping) else composites)
        labels = [label for label, _ in parts]
        return _call("SubGraph", self, _ints(indices), labels, [_ints(part) for _, part in parts])

    def _checked(self, index: int) -> int:
        if not 0 <= index < len(self):
            raise IndexError(f"node {index} is not in the {self.Summary()}")
        return index


@dataclasses.dataclass(frozen=True)
class SubGraphConfig:
    """Limits that a backend sets on its partitions; the defaults allow everything.

    max_depth: calls on the longest path inside, max_exits: values used outside; 0 is no limit.
    allow_taps: whether a value may be used inside and outside.
    """

    max_depth: int = 0
    max_exits: int = 0
    allow_taps: bool = True

    def Summary(self) -> str:
        """One line: "depth <= 4, exits <= 1, no taps"; "no limit" for the defaults."""
        limits = [f"depth <= {self.max_depth}"] if self.max_depth else []
        limits += [f"exits <= {self.max_exits}"] if self.max_exits else []
        limits += [] if self.allow_taps else ["no taps"]
        return ", ".join(limits) or "no limit"


class NestedSubGraph(NamedTuple):
    """A part of a sub-graph that becomes one function with that `Composite` attribute, and `attrs`
    beside it."""

    composite: str
    inside: IndexSet
    attrs: dict[str, Any]


@register_object("collage.SubGraph")
class SubGraph(_View):
    """A set of placeable nodes of one graph, with what crosses its border.

    Two are equal that hold the same nodes of one graph with the same composites.
    """

    __slots__ = ()

    @property
    def graph(self) -> DataflowGraph:
        """The graph whose nodes it holds."""
        return _call("GraphOf", self)

    @property
    def inside(self) -> IndexSet:
        """Its nodes; constants, variables and operators are reached from them, never members."""
        return IndexSet(self._fields["inside"])

    @property
    def entries(self) -> IndexSet:
        """Inside nodes that read an input."""
        return IndexSet(self._fields["entries"])

    @property
    def exits(self) -> IndexSet:
        """Inside nodes that are read outside or are the function's result."""
        return IndexSet(self._fields["exits"])

    @property
    def inputs(self) -> IndexSet:
        """Outside nodes that are read, constants and callees left out."""
        return IndexSet(self._fields["inputs"])

    @property
    def outputs(self) -> IndexSet:
        """Outside nodes that read an exit."""
        return IndexSet(self._fields["outputs"])

    @property
    def constants(self) -> IndexSet:
        """Constants that are read; they are bound into the exported function."""
        return IndexSet(self._fields["constants"])

    @property
    def nested(self) -> tuple[NestedSubGraph, ...]:
        """Its composites, by first node."""
        rows = self._fields["nested"]
        return tuple(NestedSubGraph(name, IndexSet(part), attrs) for name, part, attrs in rows)

    @property
    def kind(self) -> OpKind:
        """The strongest kind inside; tuples of tensors and projections count as injective."""
        return OpKind(self._fields["kind"])

    @property
    def depth(self) -> int:
        """Calls on the longest path inside."""
        return self._fields["depth"]

    @property
    def has_taps(self) -> bool:
        """Whether an exit also feeds an inside node."""
        return self._fields["has_taps"]

    def __len__(self) -> int:
        return len(self._fields["inside"])

    def why_invalid(self, config: SubGraphConfig | None = None) -> str:
        """The first reason why it can be no partition within `config`; "" when it can."""
        limits = config or SubGraphConfig()
        return str(_call("WhyInvalid", self, limits.max_depth, limits.max_exits, limits.allow_taps))

    def is_valid(self, config: SubGraphConfig | None = None) -> bool:
        """Whether it is convex, in one region, its composites disjoint, and within `config`."""
        return not self.why_invalid(config)

    def _identity(self) -> tuple[Any, ...]:
        # The function's address names the graph: the graph's handle is made anew at each use.
        nested = tuple((part.composite, part.inside, repr(part.attrs)) for part in self.nested)
        return self.graph.function.handle.value, self.inside, nested

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubGraph) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


@register_object("collage.PartitionSpec")
class PartitionSpec(_View):
    """A backend and the rule that says what it can run."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The target kind's name; the host's own spec, which covers what launches no kernel, is
        "host"."""
        return self._fields["name"]

    @property
    def is_external(self) -> bool:
        """Whether it compiles its parts itself, as functions with a `Compiler` attribute."""
        return self._fields["is_external"]

    @property
    def rule(self) -> str:
        """The rule with its sub-rules on one line."""
        return self._fields["rule"]

    @property
    def target(self) -> tvm.target.Target:
        """The target whose parts it describes."""
        return _call("TargetOf", self)


@register_object("collage.CandidatePartition")
class CandidatePartition(_View):
    """A sub-graph that one backend could run, and the rule that found it."""

    __slots__ = ()

    @property
    def sub_graph(self) -> SubGraph:
        """The nodes."""
        return _call("SubGraphOf", self)

    @property
    def spec(self) -> PartitionSpec:
        """The backend that would run it."""
        return _call("SpecOf", self)

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self._fields["backend"]

    @property
    def rule(self) -> str:
        """Names of the rules that made it, outermost first."""
        return self._fields["rule"]

    @property
    def is_primitive(self) -> bool:
        """Whether it becomes a function for the backend's own compiler."""
        return self._fields["is_primitive"]

    @property
    def is_joinable(self) -> bool:
        """Whether, once chosen, it becomes one function with the chosen ones that it touches."""
        return self._fields["is_joinable"]

    @property
    def is_free(self) -> bool:
        """Whether nothing inside launches a kernel, so that the host runs it for nothing."""
        return self._fields["is_free"]

    @property
    def cost(self) -> Cost:
        """What it was measured or estimated at; status "unknown" when nobody was asked."""
        status, seconds, message = self._fields["cost"]
        numbers = (seconds,) * 3 if status in ("measured", "estimated") else ()
        return Cost(status, *numbers, message=message)

    def module(self) -> tvm.IRModule:
        """The module that is measured for it: @main computes the candidate as it is deployed."""
        return _call("Module", self)


def dataflow_graph(function: relay.Function) -> DataflowGraph:
    """The graph of a Relay function; untyped nodes (no InferType) have no types.

    ModuleError when it is no Relay function.
    """
    if not isinstance(function, relay.Function):
        raise _not_relay(function)
    return _call("DataflowGraph", function)


def partition_specs(targets: Any) -> list[PartitionSpec]:
    """The backends that the pass would use for the targets, in their order, and the host's last.

    Options such as `relay.collage.tvm_max_depth` are those of the current PassContext.
    """
    config = make_compilation_config(
        tvm.transform.PassContext.current(), parse_targets(targets).all
    )
    return list(_call("Specs", config))


def candidates(
    mod: tvm.IRModule | relay.Function, targets: Any, estimator: Any = None
) -> list[CandidatePartition]:
    """All candidates that the pass would consider for a module or function; nothing is searched.

    Function by function, small candidates first. Weights should be bound and the module prepared
    (`collage.build.prepare`) as for the pass. With an `estimator` (CostEstimator measures, others
    mock) each has its cost, so this may take as long as all of them take to measure.
    """
    if not isinstance(mod, (tvm.IRModule, relay.Function)):
        raise _not_relay(mod)
    if isinstance(mod, relay.Function):
        mod = tvm.IRModule.from_expr(mod)
    specs = partition_specs(targets)
    functions = relay.transform.InferType()(mod).functions.values()
    return [
        candidate
        for function in functions
        if _call("CanBePartitioned", function)
        for candidate in _call("Candidates", function, specs, estimator)
    ]


def _not_relay(value: object) -> Exception:
    from .errors import ModuleError

    return ModuleError(f"expected a relay.Function, got {type(value).__name__}")


def _ints(indices: Iterable[int]) -> list[int]:
    return [int(index) for index in indices]


def _call(name: str, *args: Any) -> Any:
    return get_global_func(f"collage.view.{name}")(*args)
