# SPDX-License-Identifier: Apache-2.0
"""A module as a placement knows it, and a placement put onto a module again: checked, then
rewritten by the pass's own C++; no measuring.

Precondition: the module is typed and prepared as the one that the placement was made for.
Test: plans/placement/test_replay.py.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tvm
from tvm._ffi import get_global_func
from tvm.target import Target

from ...backends.accuracy import keeping, with_kept_calls
from ...costs.kernel import KernelChoice, with_kernels
from ...errors import PlacementError
from ...files.records import read, read_json
from ...options import CollageOptions
from ...options.named import option
from ...relay_util.external import is_external, mark_lone_part, on_one_thread
from ...tuning.from_options import given_records
from .made_with import differences
from .types import (
    Composite,
    DescribedFunction,
    PlacedFunction,
    PlacedPart,
    Placement,
    SeenNode,
    load_placement,
)

_logger = logging.getLogger(__name__)


def describe_functions(mod: tvm.IRModule) -> list[PlacedFunction]:
    """Describe the functions of a typed module that can be partitioned, by name, with keys and
    without parts."""
    can_be_partitioned = get_global_func("collage.view.CanBePartitioned")
    describe = get_global_func("collage.DescribeFunction")
    found = {
        str(var.name_hint): read_json(DescribedFunction, describe(function))
        for var, function in mod.functions_items()
        if can_be_partitioned(function)
    }
    return [PlacedFunction(name, **vars(found[name]), parts=()) for name in sorted(found)]


def placed_parts(rows: Sequence[Any]) -> list[PlacedPart]:
    """Return the parts of a FunctionReport's `placement` or `merged`. Attributes stay as they are:
    one that no file holds is refused when it is saved."""
    return [
        dataclasses.replace(
            read(PlacedPart, {**row, "composites": ()}),
            composites=tuple(
                Composite(item["name"], tuple(item["nodes"]), item["attrs"])
                for item in row["composites"]
            ),
        )
        for row in rows
    ]


def apply_placement(
    mod: tvm.IRModule,
    placement: Placement,
    host: Target,
    external: Iterable[str],
    allow: Sequence[str] = (),
) -> tvm.IRModule:
    """`mod` with its parts where the placement has them, as the pass gave it.

    `host` is the host target, `external` names the other targets' kinds. `allow` names kinds of
    differences (option placement_allow) that are logged rather than refused. PlacementError says
    what else does not fit.
    """
    check_placement(mod, placement, host, external=external, allow=allow)
    with keeping(placement.kept):
        mod = as_deployed(rewrite(mod, parts_of(placement)), placement.kernels)
    return on_one_thread(mod) if placement.one_thread else mod


def as_deployed(mod: tvm.IRModule, kernels: Sequence[KernelChoice]) -> tvm.IRModule:
    """Return a plan's module (typed) whose parts say how they run where it is deployed: which calls
    are kept from trading accuracy, by which kernels, and, unlike candidates that are measured
    alone, whether nothing else computes."""
    return mark_lone_part(with_kernels(with_kept_calls(mod), kernels))


def rewrite(mod: tvm.IRModule, parts: Mapping[str, Sequence[PlacedPart]]) -> tvm.IRModule:
    """`mod` with these parts by function. PlacementError when they cannot be parts of it."""
    return get_global_func("collage.ApplyPlacement")(mod, _as_json(parts))


def part_modules(
    mod: tvm.IRModule, parts: Mapping[str, Sequence[PlacedPart]]
) -> dict[str, list[tvm.IRModule]]:
    """Return for each part, by function, the module that is measured for it. Errors are
    `rewrite`'s."""
    modules = get_global_func("collage.PartModules")(mod, _as_json(parts))
    return {str(name): list(made) for name, made in modules.items()}


def check_placement(
    mod: tvm.IRModule,
    placement: Placement,
    host: Target,
    external: Iterable[str],
    allow: Sequence[str] = (),
) -> None:
    """Raise PlacementError with the first reason why the placement is not for this module here."""
    _check_backends(placement, host.kind.name, sorted(external))
    for kind, text in differences(placement, host, mod):
        _refuse(kind, text, allow)
    here = {function.name: function for function in describe_functions(mod)}
    for function in placement.functions:
        if function.name not in here:
            raise PlacementError(
                f"the module has no function @{function.name}, for which the placement was made "
                f"(it has {_names(here)})",
                "module",
            )
        inputs = [param.name_hint for param in mod[function.name].params]
        _check_function(here.pop(function.name), function, inputs, allow=allow)
    if here:
        raise PlacementError(f"the placement was made without function {_names(here)}", "module")


def read_placement(path: str, mod: tvm.IRModule, config: tvm.target.CompilationConfig) -> str:
    """Return the parts by function for the pass that compiles `mod`; `placement_allow` holds."""
    placement = load_placement(str(path))
    external = [t.kind.name for t in config.primitive_targets if is_external(t)]
    if placement.original:
        raise PlacementError(
            f"plan {placement.plan} runs the model's file, which the pass alone does not have: "
            "give the placement to collage.optimize with original=, or to `collage replay`"
        )
    if placement.kept:
        raise PlacementError(
            f"plan {placement.plan} keeps operators inside parts from trading accuracy, which the "
            "pass alone does not know of: give the placement to collage.optimize, or to "
            "`collage replay`"
        )
    options = CollageOptions.current()
    with given_records(options.tuning, config.host_target).in_force():
        allow = options.placement_allow
        check_placement(mod, placement, config.host_target, external=external, allow=allow)
    return _as_json(parts_of(placement))


def _check_backends(placement: Placement, host: str, external: list[str]) -> None:
    """Check that what a backend gets functions of is for a target of this build; the rest is for
    none."""
    for function in placement.functions:
        for number, part in enumerate(function.parts):
            if not part.is_compiled or (part.backend == host and not part.is_primitive):
                continue
            where = f"part {number} of function @{function.name} ({part.label})"
            if part.backend not in external:
                raise PlacementError(
                    f"{where} is for backend {part.backend!r}, which is not among the targets "
                    f"(external ones are {', '.join(external) or 'none'}): add it to the target "
                    "list",
                    "backend",
                )
            if part.backend not in placement.made_with.backends:
                raise PlacementError(
                    f"{where} is for backend {part.backend!r}, which made_with has no version of"
                )


def _check_function(
    here: PlacedFunction,
    there: PlacedFunction,
    inputs: Sequence[str],
    allow: Sequence[str],
) -> None:
    name = here.name
    # The first nodes are the inputs, in their order.
    for given, now, then in zip(inputs, here.nodes, there.nodes, strict=False):
        if now.text == then.text and now.types != then.types:
            raise PlacementError(
                f"input {given!r} of function @{name} is {now.types}, and the placement is for "
                f"{then.types}: import the model with that shape, or search again for this one",
                "module",
            )
    if here.key != there.key or len(here.nodes) != len(there.nodes):
        raise PlacementError(f"function @{name} {_module_difference(here, there)}", "module")
    if here.weights != there.weights:
        _refuse("weights", f"the weights of function @{name} are others", allow)


def _module_difference(here: PlacedFunction, there: PlacedFunction) -> str:
    """Return the first operator that differs, and how; else the first node."""
    count = ""
    if len(here.nodes) != len(there.nodes):
        count = f"has {len(here.nodes)} nodes, not {len(there.nodes)}; it "
    ours, theirs = _calls(here), _calls(there)
    for number, ((index, now), (_, then)) in enumerate(zip(ours, theirs, strict=False)):
        if (_name(now), now.types) != (_name(then), then.types):
            what = f"{_name(now)} {now.types}, not {_name(then)} {then.types}"
            return f"{count}differs first in operator {number} (node {index}), which is {what}"
    if len(ours) != len(theirs):
        return f"{count}has {len(ours)} operators, not {len(theirs)}"
    # The same operators, with other attributes or wired otherwise; then what they read.
    pairs = [(index, now, then) for (index, now), (_, then) in zip(ours, theirs, strict=True)]
    pairs += [(k, *pair) for k, pair in enumerate(zip(here.nodes, there.nodes, strict=False))]
    for index, now, then in pairs:
        if now.key != then.key and now.text == then.text:
            return (
                f"{count}differs first in attributes, type or device of node {index}, {_shown(now)}"
            )
        if now.key != then.key:
            return f"{count}differs first in node {index}: {_shown(now)}, not {_shown(then)}"
    return f"{count}gives another of its values as result"


def _calls(function: PlacedFunction) -> list[tuple[int, SeenNode]]:
    return [(k, node) for k, node in enumerate(function.nodes) if "(" in node.text]


def _name(node: SeenNode) -> str:
    return node.text.partition("(")[0]


def _shown(node: SeenNode) -> str:
    return f"{node.text} {node.types}".strip()


def _refuse(kind: str, text: str, allow: Sequence[str]) -> None:
    if kind in allow:
        _logger.warning("a placement is used although %s", text)
        return
    raise PlacementError(
        "the placement was made for something else: "
        + text
        + "; make it again, or allow it by "
        + option(
            "placement_allow", f"the option relay.collage.placement_allow=[{kind!r}]", value=kind
        ),
        kind,
    )


def parts_of(placement: Placement) -> dict[str, Sequence[PlacedPart]]:
    """Return the placement's parts by function."""
    return {function.name: function.parts for function in placement.functions}


def _as_json(parts_of: Mapping[str, Sequence[PlacedPart]]) -> str:
    """Write parts as relay/placement.h takes them."""
    return json.dumps(
        {name: [dataclasses.asdict(part) for part in parts] for name, parts in parts_of.items()}
    )


def _names(functions: Iterable[str]) -> str:
    return ", ".join(f"@{name}" for name in sorted(functions)) or "none"
