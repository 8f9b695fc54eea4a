# SPDX-License-Identifier: Apache-2.0
"""Collage's options: one table of names, defaults, ranges and meanings. Docs: docs/options.md."""

from tvm_collage.options import Option, option_table, split_style

from .groups import (
    CandidateOptions,
    DeviceOptions,
    GraphSearchOptions,
    GuardOptions,
    MeasuringOptions,
    SearchOptions,
    SessionOptions,
    StoreOptions,
    TuningOptions,
)
from .table import PREFIX, CollageOptions, check_options, pass_options, register, unknown_option

__all__ = [
    "PREFIX",
    "CandidateOptions",
    "CollageOptions",
    "DeviceOptions",
    "GraphSearchOptions",
    "GuardOptions",
    "MeasuringOptions",
    "Option",
    "SearchOptions",
    "SessionOptions",
    "StoreOptions",
    "TuningOptions",
    "check_options",
    "option_table",
    "pass_options",
    "register",
    "split_style",
    "unknown_option",
]
