# SPDX-License-Identifier: Apache-2.0
"""A worker's build of one candidate into a library file. Test: test_measure_tvm.py."""

from __future__ import annotations

import time
from typing import Any

import tvm

from .candidate import CandidateModule
from .inputs import describe_inputs
from .pass_context import context_from_json
from .resolve import resolve


def build_candidate(
    candidate: dict[str, Any], library: str, builder: str, seed: int
) -> dict[str, Any]:
    """Build a candidate (its JSON form) with the function that `builder` names ("module:function",
    called as builder(mod, target, **build_options) in the PassContext that the build option
    `pass_context` describes) and export the result to the file `library`.

    Returns the build's seconds, the device type and the inputs' descriptions.
    """
    start = time.perf_counter()
    module = CandidateModule.from_json(candidate)
    mod = module.instantiate(seed)
    inputs = describe_inputs(mod)
    target = tvm.target.Target(module.target)
    options = dict(module.build_options)
    with context_from_json(options.pop("pass_context", {})):
        factory = resolve(builder)(mod, target, **options)
    factory.export_library(library)
    return {
        "seconds": time.perf_counter() - start,
        "device": target.kind.name,
        "inputs": inputs,
    }
