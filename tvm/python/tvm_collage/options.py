# SPDX-License-Identifier: Apache-2.0
"""Collage's options: one table of names, defaults, ranges and meanings for Python, C++, tvmc and
the command line, which is read without TVM; and its rows as flags.

docs/options.md shows it. Test: collage/options/test_table.py, collage/cli/test_compile.py.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Container
from typing import Any, NamedTuple

from .words import PROGRESS, Effort

# What values of the type of an option's default are called for users.
TYPES = {bool: "a bool", int: "an int", float: "a float", str: "a str", list: "a list of str"}
# Of options that count something: far more than any model has, and fits an int of C++.
_MOST_COUNT = 10**9
_MOST_SECONDS = 10**6
_STYLES = ("NoFusion", "TVMFusion", "ArbitraryFusion")


class _Range(NamedTuple):
    """The values of its type that an option takes, in words and as a test."""

    takes: str
    holds: Callable[[Any], bool]


def _between(least: int, most: int) -> _Range:
    return _Range(f"an int from {least} to {most}", lambda value: least <= value <= most)


def _at_least(least: int) -> _Range:
    return _Range(f"an int >= {least}", lambda value: value >= least)


def _up_to(most: int) -> _Range:
    return _Range(f"a number >= 0 and <= {most}", lambda value: 0 <= value <= most)


def _one_of(*names: str) -> _Range:
    return _Range(f"one of {', '.join(names)}", lambda value: value in names)


def _each_one_of(*names: str) -> _Range:
    return _Range(f"a list of {', '.join(names)}", lambda values: set(values) <= set(names))


def split_style(text: str) -> tuple[str, str]:
    """Split "<backend>.<style>"; a backend's name may hold dots."""
    backend, _, style = text.rpartition(".")
    return backend, style


def _are_styles(values: list[str]) -> bool:
    halves = [split_style(text) for text in values]
    return all(backend and style in _STYLES for backend, style in halves)


_ANY = None  # every value of the default's type
_COUNT = _between(1, _MOST_COUNT)
_COUNT_OR_0 = _between(0, _MOST_COUNT)
_SECONDS = _Range(f"a number > 0 and <= {_MOST_SECONDS}", lambda value: 0 < value <= _MOST_SECONDS)
_EACH_A_STYLE = _Range(
    f"a list of <backend>.<style> with a style of {', '.join(_STYLES)}", _are_styles
)


def _row(default: Any, values: _Range | None, meaning: str, decides: bool = True) -> Any:
    """Return the field of an option. `decides`: whether another value may have another plan ship;
    not of an option that says where something is shown, kept or read, since what a file holds is
    compared by itself."""
    about = {"values": values, "meaning": meaning, "decides": decides}
    if isinstance(default, list):
        return dataclasses.field(default_factory=default.copy, metadata=about)
    return dataclasses.field(default=default, metadata=about)


@dataclasses.dataclass(kw_only=True)
class OptionTable:
    """The table, one field a row; CollageOptions are its fields, checked."""

    # The first three keep TVM's own names and meanings.
    tvm_max_depth: int = _row(8, _COUNT, "longest chain of calls in one candidate for TVM")
    byoc_max_depth: int = _row(
        8, _COUNT, "longest chain of calls in one candidate for a pattern backend"
    )
    byoc_fusion_style: list[str] = _row(
        [], _EACH_A_STYLE, "how patterns combine, as <backend>.NoFusion"
    )
    enable_collage: bool = _row(
        False, _ANY, "place every part of the model on its fastest backend", decides=False
    )
    max_candidates_per_node: int = _row(
        2048, _COUNT, "most candidates of one rule that start at one node"
    )
    max_exits: int = _row(1, _COUNT_OR_0, "most values that one candidate gives; 0 means no limit")
    region_cuts: int = _row(
        1, _COUNT_OR_0, "most expensive parts without which a region is offered, too"
    )
    tvm_regions: bool = _row(False, _ANY, "offer TVM whole regions of several kernels, too")
    merge_parts: bool = _row(
        False, _ANY, "join neighbouring parts of one external backend after the search"
    )
    time_limit: float = _row(
        0.0,
        _up_to(_MOST_SECONDS),
        "seconds for all of a compile, without waiting for other searches, after which the best "
        "plan so far ships; 0 means no limit",
        decides=False,
    )
    effort: str = _row(
        "normal",
        _one_of(*Effort),
        "how long is looked for a better mix: quick compares the backends alone and the plan of "
        "their profiles, normal asks for half a minute and stops when a mix cannot win, "
        "exhaustive proves that the plan is the best",
    )
    cost_bounds: bool = _row(
        False, _ANY, "measure this machine's peaks, and ask for no cost that cannot matter by them"
    )
    measure_kernels: bool = _row(
        True, _ANY, "time the kernels of steps that have several, and run the fastest"
    )
    guard: bool = _row(
        True, _ANY, "measure the plan whole beside each backend alone, ship the fastest"
    )
    guard_rounds: int = _row(
        15,
        _COUNT,
        "interleaved rounds of the guard, and up to 8 times as many where plans are close",
    )
    guard_seconds: float = _row(
        8.0, _SECONDS, "time for all rounds of the guard but the first six, in seconds"
    )
    guard_memory_mb: int = _row(
        0, _COUNT_OR_0, "most memory that a plan which ships may take, in MB; 0 means no limit"
    )
    guard_library_mb: int = _row(
        0, _COUNT_OR_0, "largest library of a plan that ships, in MB; 0 means no limit"
    )
    graph_search: str = _row(
        "none",
        _one_of("none", "evolutionary", "local", "random"),
        "how whole plans are searched end to end after the op-level search",
    )
    graph_search_population: int = _row(
        8,
        _between(2, 64),  # of each a process is open, which holds the model's weights
        "plans that are measured beside each other, and survive, in that search",
    )
    graph_search_trials: int = _row(
        64, _COUNT, "plans that it tries, equal ones once, until the search ends"
    )
    graph_search_seconds: float = _row(
        600.0, _SECONDS, "time for it, in seconds; the plans at hand are still measured"
    )
    graph_search_seed: int = _row(0, _at_least(0), "seed of what it tries by chance")
    measure_seconds: float = _row(0.3, _SECONDS, "time spent running one candidate, in seconds")
    measure_timeout: float = _row(
        60.0, _SECONDS, "a candidate's build or run longer than this is a timeout"
    )
    workers: int = _row(
        0,
        _between(0, 1024),
        "processes that build candidates; 0 means one a thread, 8 at most",
        decides=False,
    )
    seed: int = _row(0, _at_least(0), "seed of the random inputs that are measured")
    sample_inputs: str = _row(
        "",
        _ANY,
        "file of arrays by input name (.npz) that whole plans run on; empty for made-up ones",
        decides=False,
    )
    original: str = _row(
        "",
        _ANY,
        "the model's file, with whose outputs plans are compared; commands take the model itself, "
        "none for none",
        decides=False,
    )
    verify: str = _row(
        "external",
        _one_of("all", "external", "none"),
        "whose outputs are compared with TVM's; none leaves backends that can be wrong",
    )
    accuracy_budget: float = _row(
        0.0, _up_to(1), "largest output error by backends that trade accuracy; 0 leaves these out"
    )
    calibration: str = _row(
        "",
        _ANY,
        "file of real inputs (.npz), by which layers are put in 8 bits within accuracy_budget",
        decides=False,
    )
    metric: str = _row(
        "max",
        _ANY,
        "how that error is told: max, rms, argmax, or module:function of outputs and right ones",
        decides=False,
    )
    vector_math: bool = _row(
        True, _ANY, "vector forms of exp, tanh, erf, sigmoid, log and pow in TVM's kernels"
    )
    progress: str = _row(
        "auto",
        _one_of(*PROGRESS),
        "what is shown while measuring: auto means rich on a terminal, else lines",
        decides=False,
    )
    log_level: str = _row(
        "notset",
        _one_of("notset", "debug", "info", "warning", "error"),
        "least level of log lines of Collage; notset leaves logging as the program set it",
        decides=False,
    )
    report: str = _row(
        "", _ANY, "file that the report is written to, as JSON; empty for none", decides=False
    )
    placement: str = _row(
        "", _ANY, "file of a saved placement to use: then nothing is measured", decides=False
    )
    placement_allow: list[str] = _row(
        [],
        _each_one_of("weights", "version", "machine", "target", "tuning"),
        "how a saved placement may differ from what is built here",
        decides=False,
    )
    store: str = _row(
        "", _ANY, "file of measured costs; empty means the user's own, none for none", decides=False
    )
    tuning_log: list[str] = _row(
        [],
        _ANY,
        "logs whose tuning records TVM's kernels use, besides those in force",
        decides=False,
    )
    transfer_log: list[str] = _row(
        [],
        _ANY,
        "logs of Ansor with schedules that TVM's kernels of the same class try, adapted; shipped "
        "means those of this package",
    )
    shipped_records: bool = _row(
        False,
        _ANY,
        "use schedules of this package for TVM's kernels that they were found for, if faster",
    )
    tune: int = _row(
        0, _COUNT_OR_0, "trials for each kernel of TVM's without a record; 0 means no tuning"
    )
    tuner: str = _row(
        "autotvm", _one_of("autotvm", "ansor", "metaschedule"), "who searches schedules for tune"
    )
    tune_model: str = _row(
        "xgb",
        _one_of("xgb", "random"),
        "what guides that search: a cost model of xgboost, or chance",
    )
    tune_patience: int = _row(
        0, _COUNT_OR_0, "trials of a kernel without a gain after which its search ends; 0: never"
    )
    tune_log: str = _row(
        "", _ANY, "file that keeps that search's trials; empty means the user's own"
    )
    tune_seconds: float = _row(600.0, _SECONDS, "time for all of that search, in seconds")
    retry_failed: bool = _row(
        False,
        _ANY,
        "measure again what the store knows as a failure or as noisy",
        decides=False,
    )
    reuse_decision: bool = _row(
        True,
        _ANY,
        "ship what an earlier compile of the same model chose on this machine, as the store has it",
        decides=False,
    )
    rpc_tracker: str = _row(
        "", _ANY, "host:port of an RPC tracker: measure on its devices instead of here"
    )
    rpc_key: str = _row("", _ANY, "the tracker's key of the devices to measure on")
    rpc_wait: float = _row(
        10.0, _SECONDS, "how long to wait for a free device, in seconds", decides=False
    )
    rpc_compiler: str = _row(
        "", _ANY, "C++ compiler that links for the devices; empty means this machine's own"
    )


class Option(NamedTuple):
    """A row of the table."""

    name: str
    default: Any
    meaning: str
    takes: str  # what values it takes, as errors say it


def option_table() -> list[Option]:
    """Return the rows of the table, in its order."""
    rows = []
    for field in dataclasses.fields(OptionTable):
        make = field.default_factory
        default = make() if callable(make) else field.default
        values = field.metadata["values"]
        takes = values.takes if values else TYPES[type(default)]
        rows.append(Option(field.name, default, field.metadata["meaning"], takes=takes))
    return rows


def deciding(options: OptionTable) -> dict[str, Any]:
    """Return the values, by name, of the options that decide which plan ships."""
    rows = [field.name for field in dataclasses.fields(OptionTable) if field.metadata["decides"]]
    return {name: getattr(options, name) for name in rows}


# --- as flags: `tvmc compile --collage-<name>`, `collage compile --<name>` ------------------------

DEST = "collage_"  # of names in the parsed arguments, and in files of tvmc's --config
_METAVARS: dict[type, str] = {int: "N", float: "X", str: "TEXT", list: "A,B"}
_SAID_BY_METAVAR = ("a bool", "a str", "a list of str")


def add_flags(group: argparse._ArgumentGroup, prefix: str, left_out: Container[str] = ()) -> None:
    """Add one flag an option, `--<prefix><name>`, but for `enable_collage` and those left out."""
    for row in flag_rows():
        if row.name in left_out:
            continue
        kind = type(row.default)
        more: dict[str, Any] = {}
        if kind is bool:
            more["action"] = argparse.BooleanOptionalAction
        else:
            more["metavar"] = "FILE" if row.meaning.startswith("file ") else _METAVARS[kind]
        if kind is list:
            more["action"] = "append"
        takes = "" if row.takes in _SAID_BY_METAVAR else f": {row.takes}"
        meaning = f"{row.meaning}{takes} (default: {shown(row.default)})"
        group.add_argument(
            flag(prefix, row.name),
            dest=f"{DEST}{row.name}",
            help=meaning.replace("%", "%%"),
            **more,
        )


def flag_rows() -> list[Option]:
    """Return the rows that have flags."""
    return [row for row in option_table() if row.name != "enable_collage"]


def flag(prefix: str, name: str) -> str:
    return f"--{prefix}" + name.replace("_", "-")


def shown(value: object) -> str:
    """Return a default as a command line has it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ",".join(value) or "none"
    return str(value) or "empty"
