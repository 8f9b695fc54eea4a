# SPDX-License-Identifier: Apache-2.0
"""Builds of a Relay module as a library, fast, by TVM's own pipeline (docs/compile.md)."""

from .executors import build_whole, check_calls_parts, check_runs, executor_of
from .fast_passes import fast_passes
from .fold import fold_constants
from .library import build_library, build_vm
from .prepare import prepare
from .target import host_target

__all__ = [
    "build_library",
    "build_vm",
    "build_whole",
    "check_calls_parts",
    "check_runs",
    "executor_of",
    "fast_passes",
    "fold_constants",
    "host_target",
    "prepare",
]
