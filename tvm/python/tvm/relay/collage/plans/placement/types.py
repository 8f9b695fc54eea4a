# SPDX-License-Identifier: Apache-2.0
"""The records of a placement (RFC 0062's chosen partitions, with their costs), as plain data.

The fields here are the format of a placement's file: JSON, written at once or not at all, a node, a
part, a kernel a line. Test: plans/placement/test_file.py.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from typing import Any, ClassVar

from ...costs.cost import PartCost
from ...costs.kernel import KernelChoice
from ...errors import PlacementError
from ...files.json_schema import describe_class
from ...files.kinds import PLACEMENT_FORMAT
from ...files.records import Attribute, RecordError, described, read
from ...files.text import parse_json, write_whole
from ...machine.environment import MachineTraits

# In each file; it changes with the meaning of any field.
VERSION = 1
KEY = {"pattern": "^[0-9a-f]{16}$"}
NOT_NEGATIVE = {"minimum": 0}


@dataclasses.dataclass(frozen=True)
class Composite:
    """Nodes of a part that are one function with a Composite attribute."""

    name: str = described("the pattern's name, as dnnl.conv2d_relu")
    nodes: tuple[int, ...] = described("node indexes, all of them in the part", **NOT_NEGATIVE)
    attrs: dict[str, Attribute] = described("further attributes of the function")


@dataclasses.dataclass(frozen=True)
class PlacedPart:
    """Nodes that run together on one backend."""

    backend: str = described(
        "the target's kind; of the host, as llvm, or host where no kernel runs"
    )
    rule: str = described("the partition rules that made the candidate, outermost first")
    label: str = described("backend and operators, for people")
    nodes: tuple[int, ...] = described("post-dfs indexes of the function's nodes", **NOT_NEGATIVE)
    composites: tuple[Composite, ...] = described("disjoint")
    is_primitive: bool = described("a function that the backend compiles, not left in the body")
    cost: PartCost = described("for people; replaying does not look at it")

    @property
    def is_compiled(self) -> bool:
        """Return whether the backend gets a function of it: the part itself or a composite
        inside."""
        return self.is_primitive or bool(self.composites)


@dataclasses.dataclass(frozen=True)
class SeenNode:
    """The node at an index of the function, to say what differs when the module does."""

    text: str = described("operator or kind of node, and the indexes that it reads")
    types: str = described("element type and shape, several for a tuple")
    key: str = described("hash of the node with its attributes, type and inputs", **KEY)


@dataclasses.dataclass(frozen=True)
class DescribedFunction:
    """A function by its nodes, as C++ tells it (border.schema.json)."""

    key: str = described("hash of its structure, without the values of weights", **KEY)
    weights: str = described("hash of the values of its weights", **KEY)
    nodes: tuple[SeenNode, ...] = described("by index")


@dataclasses.dataclass(frozen=True)
class PlacedFunction:
    """A global function: which nodes it had, and where they run."""

    name: str = described("the global function")
    key: str = described("hash of its structure, without the values of weights", **KEY)
    weights: str = described("hash of the values of its weights", **KEY)
    nodes: tuple[SeenNode, ...] = described("by index")
    parts: tuple[PlacedPart, ...] = described("disjoint; what none holds runs on the host target")


@dataclasses.dataclass(frozen=True)
class Tuning:
    """The tuning records that TVM's kernels of the module may use."""

    records: int = described("how many were in force", **NOT_NEGATIVE)
    kinds: tuple[str, ...] = described("autotvm, ansor, metaschedule: whose they are, sorted")
    digest: str = described("hash of the records; empty without any")
    origins: dict[str, int] = dataclasses.field(
        default_factory=dict,
        metadata={
            "meaning": "how many came from where: the kind's own search, transferred, shipped; "
            "empty in older files",
            **NOT_NEGATIVE,
        },
    )
    # Files of versions that counted the transferred ones alone are read still.
    FORMER_FIELDS: ClassVar = frozenset({"transferred"})

    def Summary(self) -> str:
        """e.g. "12 tuning records (ansor 3f2a9c0d11aa22bb), 5 of them transferred"."""
        if not self.records:
            return "no tuning records"
        text = f"{self.records} tuning records ({', '.join(self.kinds)} {self.digest})"
        others = [(name, count) for name, count in self.origins.items() if name not in self.kinds]
        return text + "".join(f", {count} of them {name}" for name, count in others)


@dataclasses.dataclass(frozen=True)
class MadeWith:
    """The circumstances of a placement; a difference is refused unless it is allowed."""

    collage: str = described("version of tvm-collage")
    tvm: str = described("version of TVM and of its LLVM")
    backends: dict[str, str] = described("version of each external backend that has a part")
    target: str = described("the host target")
    opt_level: int = described("of the PassContext that prepared the module", **NOT_NEGATIVE)
    machine: MachineTraits = described("where costs were measured")
    tuning: Tuning | None = described("tuning records; null where nobody looked", default=None)
    is_simplified: bool = described(
        "false where that would have taken too long to prepare, or crashed", default=True
    )


@dataclasses.dataclass(frozen=True)
class Placement:
    """The chosen parts of a module's functions, and what they were chosen with."""

    plan: str = described(
        "collage, collage-merged, collage-exact, collage-coarse, graph-1 and so on of a search of "
        "whole plans, tvm, the backend that took all it could, or that and -original where it runs "
        "the model's file"
    )
    made_with: MadeWith = described("checked when the placement is replayed")
    functions: tuple[PlacedFunction, ...] = described("by name")
    kernels: tuple[KernelChoice, ...] = described(
        "by which kernel steps of its parts run; other steps as their backend runs them", default=()
    )
    one_thread: bool = described(
        "whether all of it runs on the calling thread, other threads asleep", default=False
    )
    original: str = described(
        "hash of the model's file, where the backend of its parts runs that as a whole instead; "
        "empty elsewhere",
        default="",
    )

    kept: tuple[int, ...] = described(
        "nodes of main that stay in the model's own type inside parts in fewer bits",
        default=(),
        **NOT_NEGATIVE,
    )

    def Summary(self) -> str:
        """Return one line: the plan, its parts by backend, what it was made with."""
        parts = [part for function in self.functions for part in function.parts]
        counts = Counter(part.backend for part in parts if part.is_compiled)
        shown = ", ".join(f"{count} on {name}" for name, count in sorted(counts.items()))
        nodes = sum(len(function.nodes) for function in self.functions)
        made = self.made_with
        return (
            f"placement of plan {self.plan}: {shown or 'no part'} besides {made.target}, "
            f"{nodes} nodes in {len(self.functions)} functions, made with tvm-collage "
            f"{made.collage} on {made.machine.cpu}, {made.machine.threads} threads"
            + (f", {made.tuning.Summary()}" if made.tuning and made.tuning.records else "")
        )

    def function(self, name: str) -> PlacedFunction:
        """Return the function of that name. KeyError when the placement has none."""
        return {function.name: function for function in self.functions}[name]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, in the form of docs/placement.schema.json (tuples are lists
        there)."""
        return {"format": PLACEMENT_FORMAT, "version": VERSION, **dataclasses.asdict(self)}

    def save(self, path: str | os.PathLike) -> None:
        """Write the file; another process sees the old one or the whole new one.

        PlacementError when it cannot be written, and, before anything is written, when the file
        could not be read again: an attribute of a composite may be what no file holds.
        """
        path, value = os.fspath(path), self.to_json()
        try:
            from_json(value)
        except PlacementError as error:
            text = f"the placement of plan {self.plan!r} cannot be saved: {error}"
            raise PlacementError(text, "plan") from None
        try:
            write_whole(path, _text(value))
        except OSError as error:
            raise PlacementError(
                f"placement file {path!r} cannot be written: {error.strerror}", "file"
            ) from None


def load_placement(path: str | os.PathLike) -> Placement:
    """Read a file that `Placement.save` wrote; it is never changed.

    PlacementError says what is wrong with it; whether it fits a module and this machine is checked
    when it is replayed.
    """
    path = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as file:
            return from_json(parse_json(file.read(), parse_constant=_no_number))
    except OSError as error:
        why = f" cannot be read: {error.strerror}"
    except PlacementError as error:
        why = f": {error}"
    except ValueError as error:
        why = f" is cut off or no JSON ({error}): make the placement again"
    raise PlacementError(f"placement file {path!r}{why}", "file")


def from_json(value: object) -> Placement:
    """Read the placement of JSON values; PlacementError says where they are none."""
    if not isinstance(value, dict) or value.get("format") != PLACEMENT_FORMAT:
        raise PlacementError(f"it is no placement: its format is not {PLACEMENT_FORMAT!r}", "file")
    if value.get("version") != VERSION:
        raise PlacementError(
            f"its schema version is {value.get('version')!r}, this tvm-collage reads version "
            f"{VERSION}: make the placement again",
            "file",
        )
    rest = {name: item for name, item in value.items() if name not in ("format", "version")}
    try:
        return read(Placement, rest)
    except RecordError as error:
        raise PlacementError(str(error), "file") from None


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a placement's file."""
    defs: dict[str, Any] = {}
    top = describe_class(Placement, defs)
    head = {"format": {"const": PLACEMENT_FORMAT}, "version": {"const": VERSION}}
    top["properties"] = {**head, **top["properties"]}
    top["required"] = [*head, *top["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A saved placement of Collage",
        **top,
        "$defs": defs,
    }


def _text(value: dict[str, Any]) -> str:
    rest = dict(value)
    kernels = ",\n".join(f"  {_line(choice)}" for choice in rest.pop("kernels"))
    functions = ",\n".join(_function_text(function) for function in rest.pop("functions"))
    lines = [f" {json.dumps(key)}: {_line(item)}" for key, item in rest.items()]
    lines += [f' "kernels": [\n{kernels}\n ]', f' "functions": [\n{functions}\n ]']
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _function_text(function: dict[str, Any]) -> str:
    fields = []
    for name, item in function.items():
        text = _line(item)
        if isinstance(item, (list, tuple)) and item:
            text = "[\n" + ",\n".join(f"    {_line(row)}" for row in item) + "\n   ]"
        fields.append(f'   "{name}": {text}')
    return "  {\n" + ",\n".join(fields) + "\n  }"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")
