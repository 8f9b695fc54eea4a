# SPDX-License-Identifier: Apache-2.0
"""Whole plans as files of libraries, ready to be measured, and inputs for them.

Test: graph_search/test_guard.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm

from ..costs.cost import Cost, CostStatus
from ..costs.inputs import describe_inputs, random_tensor
from ..errors import MachineError
from ..exec.machine_fault import blaming_the_compiler, machine_errors
from ..exec.reply import Unsupported
from ..exec.spent import phase
from ..external import is_external_function
from ..interrupts import interrupts_kept
from ..messages import describe, last_line
from ..timing.comparison import Comparison


class GuardUnavailable(Exception):
    """The model cannot be measured end to end, whatever its plan; the message says why."""


def check_functions(mod: tvm.IRModule) -> None:
    """GuardUnavailable for functions beside main: TVM builds such a library, but none that runs."""
    names = [
        var.name_hint
        for var, function in mod.functions_items()
        if var.name_hint != "main"
        and isinstance(function, tvm.relay.Function)
        and not is_external_function(function)
    ]
    if names:
        listed = ", ".join(f"@{name}" for name in sorted(names)[:3])
        raise GuardUnavailable(
            f"main calls {listed}, and the graph executor takes one function alone; not measured"
        )


def build_all(
    plans: Mapping[str, tvm.IRModule],
    build: Callable[[tvm.IRModule], Any],
    on_plan: Callable[[str, int], None],
) -> tuple[dict[str, Any], list[Comparison]]:
    """Libraries by plan, and a failed comparison for each plan that does not build."""
    libraries, failures = {}, []
    for done, (name, module) in enumerate(plans.items()):
        on_plan(name, done)
        try:
            with (
                machine_errors(f"plan {name} cannot be built"),
                phase("build"),
                interrupts_kept(),
            ):
                libraries[name] = build(module)
        except (MemoryError, MachineError):
            raise
        except Exception as error:  # noqa: BLE001 - a plan that does not build loses, no more
            failures.append(
                Comparison(name, Cost.failed(CostStatus.COMPILE_FAILED, last_line(error)))
            )
    return libraries, failures


def link_all(
    libraries: Mapping[str, Any], folder: str, compiler: str
) -> tuple[dict[str, str], list[Comparison]]:
    """Files of libraries by plan, and a failed comparison for each that cannot be linked."""
    files, failures = {}, []
    for index, (name, library) in enumerate(libraries.items()):
        file = os.path.join(folder, f"plan_{index}.so")
        try:
            with (
                machine_errors(f"plan {name} cannot be linked"),
                blaming_the_compiler(compiler),
                phase("build"),
            ):
                library.export_library(file, **({"cc": compiler} if compiler else {}))
            files[name] = file
        except MachineError:
            raise
        except Exception as error:  # noqa: BLE001 - as one that does not build
            failures.append(
                Comparison(name, Cost.failed(CostStatus.COMPILE_FAILED, describe(error)))
            )
    return files, failures


def make_inputs(
    mod: tvm.IRModule, seed: int, samples: Mapping[str, np.ndarray] | None
) -> dict[str, np.ndarray]:
    """Inputs of the module's main by name: the samples, and normal random ones for the others.
    GuardUnavailable where there can be none."""
    generator = np.random.default_rng(seed)
    try:
        made = {row["name"]: random_tensor(row, generator) for row in describe_inputs(mod)}
    except Unsupported as error:
        raise GuardUnavailable(str(error)) from error
    return {**made, **(samples or {})}
