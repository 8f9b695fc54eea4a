# SPDX-License-Identifier: Apache-2.0
"""The plans of a module that compete end to end, each with what makes its placement.

Test: test_optimizer.py, plans/placement/test_plans.py.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import tvm
from tvm.target import Target

from ..backends.accuracy import trades_accuracy, with_kept_calls
from ..backends.interface import KEPT
from ..backends.registry import find_backend
from ..backends.targets import TargetList
from ..costs.cost import Cost, CostStatus, PartCost
from ..costs.kernel import KernelChoice, choices_of
from ..errors import UnknownBackendError
from ..measure.profiler.kernel_trials import has_kernel_steps
from ..messages.foreign import last_line
from ..ops.onnx_node import LIBRARY
from ..relay_util.external import is_external_function, is_on_one_thread, on_one_thread
from ..tuning import TuningRecords
from ..views.function_report import FunctionReport
from .greedy import take_all
from .names import MERGED, ONE_THREAD, ORIGINAL, TVM_ALONE, UNTUNED
from .placement import MachineTraits, PlacedFunction, PlacedPart, Placement
from .placement.made_with import current_opt_level, made_with_now, tuning_of
from .placement.replay import as_deployed, describe_functions, placed_parts, rewrite

Made = TypeVar("Made")


def plans_alone(targets: TargetList) -> list[str]:
    """Return the plans of TVM alone and of each external backend alone."""
    return [TVM_ALONE, *(target.kind.name for target in targets.external)]


class Plans:
    """Plans of one prepared module by name, the simplest first: TVM alone, then what is added.

    modules: name -> module for the host target. failed: plans that cannot be made, with the reason.
    machine: where they are measured, None for this one. kernels: by which the steps run of parts of
    plans that are added from then on.
    """

    def __init__(
        self, prepared: tvm.IRModule, targets: TargetList, is_simplified: bool = True
    ) -> None:
        self.modules: dict[str, tvm.IRModule] = {TVM_ALONE: prepared}
        self.failed: dict[str, Cost] = {}
        self.machine: MachineTraits | None = None
        self.kernels: tuple[KernelChoice, ...] = ()
        self._alone: dict[str, tuple[tvm.IRModule, list[FunctionReport]] | Cost] = {}
        self._prepared, self._targets = prepared, targets
        self._opt_level, self.is_simplified = current_opt_level(), is_simplified
        # Of these plans, and of those that a search of whole plans tried.
        self._parts: dict[str, Callable[[], dict[str, Any]]] = {TVM_ALONE: dict}
        self._originals: dict[str, str] = {}

    def add_found(
        self,
        name: str,
        mod: tvm.IRModule,
        reports: list[FunctionReport],
        cost: PartCost | None = None,
    ) -> None:
        """Add a plan of the pass, with its reports by function. `cost` stands in its placement for
        what the pass was told about each part."""
        self.modules[name] = as_deployed(mod, self.kernels)
        searched = [report for report in reports if not report.skipped]

        def parts() -> dict[str, list[PlacedPart]]:
            return {
                report.function: [
                    part if cost is None else dataclasses.replace(part, cost=cost)
                    for part in placed_parts(report.placement)
                ]
                for report in searched
            }

        self._parts[name] = parts

    def add_merged(self, reports: list[FunctionReport]) -> None:
        """Add the pass's plan with all neighbouring parts of one backend joined, if there are
        any."""
        found = [report for report in reports if not report.skipped]
        if all(report.merged is None for report in found):
            return
        parts = {r.function: placed_parts(r.merged or r.placement) for r in found}
        self._add_made(MERGED, self.module_of(parts), parts)

    def add_new(self, name: str, parts: dict[str, list[PlacedPart]]) -> bool:
        """Add a plan by its parts, or how it fails; return False where an equal one is there
        already."""
        made = self.module_of(parts)
        others = () if isinstance(made, Cost) else self.modules.values()
        if any(tvm.ir.structural_equal(made, other) for other in others):
            return False
        self._add_made(name, made, parts)
        return True

    def add_tried(self, parts: Mapping[str, dict[str, list[PlacedPart]]]) -> None:
        """Add plans by name that a search of whole plans tried, which are no contestants."""
        self._parts.update({name: functools.partial(dict, found) for name, found in parts.items()})

    def module_of(self, parts: dict[str, list[PlacedPart]]) -> tvm.IRModule | Cost:
        """Return the module with these parts by function, or how it fails to be made."""
        return _made(lambda: as_deployed(rewrite(self._prepared, parts), self.kernels))

    def _add_made(
        self, name: str, made: tvm.IRModule | Cost, parts: dict[str, list[PlacedPart]]
    ) -> None:
        if isinstance(made, Cost):
            self.failed[name] = made
        else:
            self.modules[name] = made
            self._parts[name] = lambda: parts

    def parts_with_kernels(self) -> list[Any]:
        """Return the functions of all that each backend takes whose steps have several kernels."""
        found: list[Any] = []
        for target in self._targets.external:
            made = self._take_all(target) if has_kernel_steps(target.kind.name) else None
            if isinstance(made, tuple):  # add_single_backends says what fails
                mod = with_kept_calls(made[0])
                found += filter(is_external_function, mod.functions.values())
        return found

    def kernels_of(self, name: str) -> tuple[KernelChoice, ...]:
        """Return those of `kernels` that steps of a plan may have."""
        parts = filter(is_external_function, self.modules[name].functions.values())
        used = {choice.step for part in parts for choice in choices_of(part, self.kernels)}
        return tuple(choice for choice in self.kernels if choice.step in used)

    def _take_all(self, target: Target) -> tuple[tvm.IRModule, list[FunctionReport]] | Cost:
        """Make the plan of a backend alone, or how that fails."""
        name, targets = target.kind.name, TargetList(self._targets.host, (target,))
        if name not in self._alone:
            self._alone[name] = _made(take_all, self._prepared, targets)
        return self._alone[name]

    def add_single_backends(self) -> None:
        """Add each external backend alone: it takes all that it can, TVM the rest.

        A plan that cannot be made is a failed cost: a backend's own rule that fails on this module.
        """
        for target in self._targets.external:
            name, made = target.kind.name, self._take_all(target)
            if isinstance(made, Cost):
                self.failed[name] = made
            else:
                cost = PartCost(CostStatus.UNKNOWN, None, f"{name} takes all that it can")
                self.add_found(name, *made, cost)

    def use_usual_kernels(self) -> None:
        """Have each external backend alone run by its usual kernels again, as before any were
        chosen."""
        self.kernels = ()
        self.add_single_backends()

    def add_originals(self, whole: tvm.IRModule, digest: str) -> None:
        """Add each external backend that reads the model's file, of which `whole` is a module of
        one node, running that as it is. One that trades accuracy runs no part of a file in which
        some nodes are not for it."""
        for target in self._targets.external:
            if KEPT.get() and trades_accuracy(target):
                continue
            name = target.kind.name + ORIGINAL
            made = self.original_on(whole, target.kind.name)
            if isinstance(made, Cost):
                self.failed[name] = made
            elif made is not None:
                self.modules[name] = made
                self._parts[name] = functools.partial(self._all_on, target.kind.name)
                self._originals[name] = digest

    def known_right(self) -> str:
        """Return the plan whose outputs are right by definition: the file by the library that says
        what they are, where there is one, or else TVM alone."""
        name = LIBRARY + ORIGINAL
        return name if name in self.modules else TVM_ALONE

    def original_on(self, whole: tvm.IRModule, backend: str) -> tvm.IRModule | Cost | None:
        """Return the model's file on a backend, None where this does not read it, or how that
        fails. Where a run alone tells sizes, the library that runs nodes for TVM takes it."""
        (target,) = (each for each in self._targets.external if each.kind.name == backend)
        made = _made(take_all, whole, TargetList(self._targets.host, (target,)))
        if isinstance(made, Cost):
            return made
        is_taken = any(map(is_external_function, made[0].functions.values()))
        return as_deployed(made[0], ()) if is_taken or backend == LIBRARY else None

    def _all_on(self, backend: str) -> dict[str, list[PlacedPart]]:
        """Return one part for each function of the import, which the file stands for."""
        cost = PartCost(CostStatus.UNKNOWN, None, f"{backend} runs the model's file")
        return {
            function.name: [
                PlacedPart(
                    backend,
                    "original",
                    f"{backend} on the model's file",
                    nodes=tuple(i for i, node in enumerate(function.nodes) if "(" in node.text),
                    composites=(),
                    is_primitive=True,
                    cost=cost,
                )
            ]
            for function in self.described
        }

    def add_untuned(self) -> None:
        """Add the plans of UNTUNED again, to be built without tuning records."""
        for name, untuned in UNTUNED.items():
            if name in self.modules:
                self.modules[untuned] = self.modules[name].clone()
                self._parts[untuned] = self._parts[name]

    def add_on_one_thread(self, left_out: Collection[str]) -> None:
        """Add each plan but these again, to run on the calling thread alone."""
        for name, module in list(self.modules.items()):
            if name in left_out:
                continue
            self.modules[name + ONE_THREAD] = on_one_thread(module)
            self._parts[name + ONE_THREAD] = self._parts[name]
            if name in self._originals:
                self._originals[name + ONE_THREAD] = self._originals[name]

    def same_as(self) -> dict[str, str]:
        """Return the plans that are another's module over again, backends and all, each with the
        first such.

        Untuned plans are built otherwise, so they are equal only to each other.
        """
        found: dict[str, str] = {}
        first: list[str] = []
        for name, module in self.modules.items():
            rivals = [o for o in first if (o in UNTUNED.values()) == (name in UNTUNED.values())]
            equal = (o for o in rivals if tvm.ir.structural_equal(self.modules[o], module))
            other = next(equal, None)
            if other is None:
                first.append(name)
            else:
                found[name] = other
        return found

    def is_untuned(self, module: tvm.IRModule) -> bool:
        """Return whether it is the module of a plan that is built without tuning records."""
        untuned = (self.modules.get(name) for name in UNTUNED.values())
        return any(module.same_as(own) for own in untuned if own is not None)

    @functools.cached_property
    def described(self) -> list[PlacedFunction]:
        """Return the prepared module's functions, without parts."""
        return describe_functions(self._prepared)

    def nodes_on_backends(self, name: str) -> set[int]:
        """Return the nodes of main that a plan has on external backends."""
        parts = self._parts[name]().get("main", ())
        return {node for part in parts if part.is_compiled for node in part.nodes}

    @property
    def parts(self) -> list[dict[str, list[PlacedPart]]]:
        """Return the parts by function of each plan of the import that has a module."""
        return [self._parts[name]() for name in self.modules if name not in self._originals]

    @property
    def placed(self) -> list[str]:
        """Return the names of all plans with a placement, those that were tried last."""
        return sorted(self._parts, key=lambda name: name not in self.modules)

    def maker(self, name: str, records: TuningRecords) -> Callable[[], Placement]:
        """Return what makes the placement of a plan that is built in force of these tuning records;
        it raises PlacementError when the plan has none."""
        parts, kept = self._parts[name], tuple(sorted(KEPT.get()))
        return lambda: self._placement(name, parts(), records, kept)

    def _placement(
        self,
        name: str,
        parts: Mapping[str, Sequence[PlacedPart]],
        records: TuningRecords,
        kept: tuple[int, ...],
    ) -> Placement:
        host = self._targets.host
        functions = tuple(
            dataclasses.replace(function, parts=tuple(parts.get(function.name, ())))
            for function in self.described
        )
        compiled = {part.backend for each in functions for part in each.parts if part.is_compiled}
        made_with = made_with_now(
            host,
            compiled - {host.kind.name},
            self._opt_level,
            machine=self.machine,
            tuning=tuning_of(records, self._prepared),
        )
        module = self.modules.get(name)
        # Of a plan without a module all: a step that is not there is passed over.
        kernels = self.kernels if module is None else self.kernels_of(name)
        return Placement(
            plan=name,
            made_with=dataclasses.replace(made_with, is_simplified=self.is_simplified),
            functions=functions,
            kernels=tuple(kernels),
            one_thread=module is not None and is_on_one_thread(module["main"]),
            original=self._originals.get(name, ""),
            kept=kept if self._keeps_calls(compiled) else (),
        )

    def _keeps_calls(self, backends: Collection[str]) -> bool:
        """Return whether parts of some of these backends may hold calls that are kept."""
        found = filter(None, map(find_backend, backends))
        return any(each.trades_accuracy and each.keeps_calls for each in found)


def _made(make: Callable[..., Made], *given: Any) -> Made | Cost:
    """Return what is made, or how that fails: a backend's own code may, which costs its plan
    alone."""
    try:
        return make(*given)
    except MemoryError:
        raise
    except UnknownBackendError as error:
        return Cost.failed(CostStatus.UNSUPPORTED, str(error))
    except Exception as error:  # noqa: BLE001 - of a backend's own code
        return Cost.failed(CostStatus.COMPILE_FAILED, last_line(error))
