# SPDX-License-Identifier: Apache-2.0
"""The parts of a request, but for its module and targets, that decide how its whole plans are built
and run, as texts for the keys of what is kept of them.

Test: plans/graph_search/test_optimize.py, test_replays.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm.relay.backend import Executor, Runtime

from ..candidate.candidate import calls_of
from ..compile.executors import GRAPH, VM
from ..estimators.row import build_options
from .request import Request


def how_built(request: Request) -> dict[str, Any]:
    """Return what of the PassContext, of the build's own arguments and of the inputs decides."""
    return {
        **build_options(),
        "executor": _built_by(request),
        "samples": _digest(request.samples),
        **calls_of(request.prepared),
    }


def _built_by(request: Request) -> list[str]:
    """Return what options of the build come to: one that is not given is as good as its default."""
    if request.executor == VM:
        return [VM]  # it takes none
    defaults = {"executor": Executor(GRAPH), "runtime": Runtime("cpp"), "mod_name": "default"}
    return sorted(f"{name}={_text(v)}" for name, v in {**defaults, **request.build_options}.items())


def _text(value: object) -> str:
    """Return what stands for an original: a runtime itself prints its name alone."""
    return f"{value.name} {value.attrs}" if isinstance(value, Executor | Runtime) else str(value)


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
