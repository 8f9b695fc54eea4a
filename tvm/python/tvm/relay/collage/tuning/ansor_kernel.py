# SPDX-License-Identifier: Apache-2.0
"""A kernel that Ansor schedules, its class, and the roles of its stages (paper, section 3).

Two kernels are of one class if their computations are the same text once shapes, strides and all
other integers are erased and zeros around an image are not counted as a stage: a 3x3 convolution
of stride 2 is then like a 1x1 one, as in the paper. Test:
tuning/test_ansor_kernel.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tvm import te
from tvm.auto_scheduler import SearchTask
from tvm.auto_scheduler.utils import decode_workload_key
from tvm.te.tensor import Operation

from ..tvm_fixes.ansor import with_usual_names

# Words, numbers with what makes them floats, any other character.
_TOKEN = re.compile(r"[A-Za-z_][\w.]*|\d+(?:\.\d+)?(?:e[+-]?\d+)?|\s+|.")
# What an index with a stride or a shift looks like once integers are erased.
_SCALED = re.compile(r"(?:# \* (\w+)|(\w+) \* #|(\w+) [+-] #)")
_PADS = re.compile(r"^T\.if_then_else\(.*, %\d+\[[^\]]*\], (?:T\.\w+\(0\.0\)|#)\)$")
# Tools that do not know of kernels take a line that begins so for a comment, TVM's reader as well.
_MARK = "# kernel "


@dataclasses.dataclass(frozen=True)
class AnsorKernel:
    """A kernel of a model, as far as schedules for it, or of it, need know it."""

    workload: str  # Ansor's key of it, as a log's lines have it
    name: str  # for people
    kind: str  # its class: 16 hex digits, equal for kernels of one class
    # Of its stages, in Ansor's order: one of another kernel of the class has the same role if it
    # computes the same.
    roles: tuple[str, ...]
    shape: tuple[int, ...]  # of its output
    operations: float  # arithmetic ones of one run
    calls: int = 1  # how often the model that it is from runs it

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> AnsorKernel:
        """Undo to_json. TypeError or KeyError for other fields."""
        given = {**fields, "roles": tuple(fields["roles"]), "shape": tuple(fields["shape"])}
        return cls(**given)

    def distance(self, other: AnsorKernel) -> float:
        """Return how unlike another kernel's size is: 0 for equal numbers of operations."""
        return abs(math.log(max(self.operations, 1.0) / max(other.operations, 1.0)))


def flat_key(key: str) -> str:
    """Return a workload's key with its arguments in one list, as TVM's contexts keep it."""
    name, arguments = decode_workload_key(key)
    return key if arguments is None else json.dumps([name, *arguments])


def kernel_of(task: SearchTask, name: str, calls: int = 1) -> AnsorKernel:
    """Return the kernel of a task of Ansor's."""
    operations = list(task.compute_dag.ops)
    texts, roles = _read(operations)
    return AnsorKernel(
        workload=flat_key(task.workload_key),
        name=name,
        kind=hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16],
        roles=tuple(roles),
        shape=tuple(int(dim) for dim in operations[-1].output(0).shape),
        # TVM has a negative number where it cannot count them.
        operations=max(0.0, float(task.compute_dag.flop_ct)),
        calls=calls,
    )


def to_comment(kernel: AnsorKernel) -> str:
    """Return the line of a log that says what a kernel is: a comment to other readers."""
    return _MARK + json.dumps(kernel.to_json())


def kernels_in(lines: Iterable[str]) -> dict[str, AnsorKernel]:
    """Return kernels by workload, of a log's comments; what is no such comment is left out."""
    found = {}
    for fields in comments_in(lines, _MARK):
        with contextlib.suppress(TypeError, KeyError):
            kernel = AnsorKernel.from_json(fields)
            found[kernel.workload] = kernel
    return found


def comments_in(lines: Iterable[str], mark: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a log's comments that begin with a mark, without those that a
    killed writer cut off."""
    for line in lines:
        if line.startswith(mark):
            with contextlib.suppress(ValueError):
                if isinstance(fields := json.loads(line.removeprefix(mark)), dict):
                    yield fields


def _read(operations: Sequence[Operation]) -> tuple[list[str], list[str]]:
    """Return the class's lines, and each stage's role.

    A role is the stage's number among those that are no padding, or says whose padding it is.
    """
    texts: list[str] = []
    roles: list[str] = []
    # What readers of a tensor read, by its operation: padding is read through.
    names: dict[Operation, str] = {}
    for place, operation in enumerate(operations):
        inputs = [tensor.op for tensor in operation.input_tensors]
        text = _erased(operation, [names[each] for each in inputs])
        if _is_padding(operation, text) and place < len(operations) - 1:
            names[operation] = names[inputs[0]]
            roles.append(f"padding of {names[inputs[0]]}")
            continue
        names[operation] = f"%{len(texts)}"
        roles.append(names[operation])
        texts.append(text)
    return texts, [_numbered(roles, place) for place in range(len(roles))]


def _numbered(roles: Sequence[str], place: int) -> str:
    """Return the role at a place, with its number if others before have the same (two paddings)."""
    earlier = roles[:place].count(roles[place])
    return f"{roles[place]} {earlier}" if earlier else roles[place]


def _is_padding(operation: Operation, text: str) -> bool:
    return len(set(operation.input_tensors)) == 1 and bool(_PADS.match(text.partition(": ")[2]))


def _erased(operation: Operation, inputs: Sequence[str]) -> str:
    """Return what an operation computes, without integers, its inputs by their names."""
    if isinstance(operation, te.PlaceholderOp):
        return f"input of {len(operation.output(0).shape)} dimensions, {operation.output(0).dtype}"
    called = {
        tensor.op.name: name for tensor, name in zip(operation.input_tensors, inputs, strict=True)
    }
    texts = [with_usual_names(str(body)) for body in getattr(operation, "body", [])]
    bodies = [_without_integers(text, called) for text in texts]
    axes = len(getattr(operation, "axis", []))
    return f"{axes} axes: {'; '.join(bodies) or type(operation).__name__}"


def _without_integers(text: str, called: dict[str, str]) -> str:
    tokens = (_token(token.group(), called) for token in _TOKEN.finditer(text))
    text, before = "".join(tokens), ""
    while text != before:
        before = text
        text = _SCALED.sub(lambda found: next(filter(None, found.groups())), text)
        text = re.sub(r"(?<![\w.])\((\w+)\)", r"\1", text)
    return text


def _token(token: str, called: dict[str, str]) -> str:
    return "#" if token.isdigit() else called.get(token, token)
