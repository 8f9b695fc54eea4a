# SPDX-License-Identifier: Apache-2.0
"""A worker's build of one candidate into a library file.

The default builder, `build_library`, is what builds whole networks too.
Test: measure/profiler/test_profile.py, measure/profiler/test_compiled_kernels.py.
"""

from __future__ import annotations

import time
from typing import Any

import tvm

from ..candidate.candidate import NO_KEYWORDS, CandidateModule
from ..candidate.inputs import describe_inputs
from ..candidate.pass_context import context_from_json
from ..compile.library import export
from ..exec.machine_fault import blaming_the_compiler, blaming_the_library
from ..exec.resolve import resolve
from ..exec.spent import phase
from ..tuning import TuningRecords


def build_candidate(
    candidate: dict[str, Any],
    library: str,
    builder: str,
    seed: int,
    why_unavailable: str,
    compiler: str = "",
) -> dict[str, Any]:
    """Build a candidate (its JSON form) with the function that `builder` names ("module:function",
    called as builder(mod, target, **build_options) in the PassContext that the build option
    `pass_context` describes, with the candidate's tuning records in force) and export the result to
    the file `library`, linked by the given C++ compiler or else the usual one.

    Returns the build's seconds, the backend, the device type, the inputs' descriptions and the
    bytes of the weights and of the values inside.
    MachineFault where it is the machine that keeps it from being built; `why_unavailable` names the
    function that tells of a backend.
    """
    start = time.perf_counter()
    module = CandidateModule.from_json(candidate)
    with phase("weights"):
        mod = module.instantiate(seed)
        inputs = describe_inputs(mod)  # refuses what cannot be fed before it is built
    with blaming_the_library(module.backend, why_unavailable), blaming_the_compiler(compiler):
        with phase("compile"):
            factory = build_module(mod, module, builder)
        with phase("export"):
            export(factory, library, **({"cc": compiler} if compiler else {}))
    return {
        "seconds": time.perf_counter() - start,
        "backend": module.backend,
        "device": tvm.target.Target(module.target).kind.name,
        "inputs": inputs,
        "weight_bytes": module.weight_bytes,
        "inner_bytes": module.inner_bytes,
    }


def build_module(mod: tvm.IRModule, candidate: CandidateModule, builder: str) -> Any:
    """Build the library of `mod`, which is `candidate` with some weights, as the candidate says."""
    options = {k: v for k, v in candidate.build_options.items() if k not in NO_KEYWORDS}
    records = TuningRecords.from_json(candidate.records)
    with context_from_json(options.pop("pass_context", {})), records.in_force():
        return resolve(builder)(mod, tvm.target.Target(candidate.target), **options)
