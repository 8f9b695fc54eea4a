# SPDX-License-Identifier: Apache-2.0
"""Collage's options: one table of names, defaults, ranges and meanings for Python, C++ and tvmc.

It is read in every process that imports TVM, since a PassContext takes no option that it does not
know. docs/options.md shows it. Test: options/test_table.py.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import tvm
from tvm._ffi import get_global_func

from ..errors import did_you_mean, nearest
from ..process_wide.interrupts import carried
from .groups import (
    CandidateOptions,
    DeviceOptions,
    GraphSearchOptions,
    Group,
    GuardOptions,
    MeasuringOptions,
    PassOptions,
    SessionOptions,
    StoreOptions,
    TuningOptions,
    split_style,
)
from .named import option

PREFIX = "relay.collage."

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


def _option(default: Any, values: _Range | None, meaning: str) -> Any:
    about = {"values": values, "meaning": meaning}
    if isinstance(default, list):
        return dataclasses.field(default_factory=default.copy, metadata=about)
    return dataclasses.field(default=default, metadata=about)


@dataclasses.dataclass(kw_only=True)
class CollageOptions:
    # The first three keep TVM's own names and meanings.
    tvm_max_depth: int = _option(8, _COUNT, "longest chain of calls in one candidate for TVM")
    byoc_max_depth: int = _option(
        8, _COUNT, "longest chain of calls in one candidate for a pattern backend"
    )
    byoc_fusion_style: list[str] = _option(
        [], _EACH_A_STYLE, "how patterns combine, as <backend>.NoFusion"
    )
    enable_collage: bool = _option(
        False, _ANY, "place every part of the model on its fastest backend"
    )
    max_candidates_per_node: int = _option(
        2048, _COUNT, "most candidates of one rule that start at one node"
    )
    max_exits: int = _option(
        1, _COUNT_OR_0, "most values that one candidate gives; 0 means no limit"
    )
    region_cuts: int = _option(
        1, _COUNT_OR_0, "most expensive parts without which a region is offered, too"
    )
    tvm_regions: bool = _option(False, _ANY, "offer TVM whole regions of several kernels, too")
    merge_parts: bool = _option(
        False, _ANY, "join neighbouring parts of one external backend after the search"
    )
    search_seconds: float = _option(
        0.0,
        _up_to(_MOST_SECONDS),
        "seconds for all of a build, without waiting for other searches, after which the best plan "
        "known ships; 0 means no limit",
    )
    cost_bounds: bool = _option(
        False, _ANY, "measure this machine's peaks, and ask for no cost that cannot matter by them"
    )
    measure_kernels: bool = _option(
        True, _ANY, "time the kernels of steps that have several, and run the fastest"
    )
    guard: bool = _option(
        True, _ANY, "measure the plan whole beside each backend alone, ship the fastest"
    )
    guard_rounds: int = _option(30, _COUNT, "interleaved rounds of the guard")
    guard_seconds: float = _option(
        30.0, _SECONDS, "time for further rounds while plans cannot be told apart, in seconds"
    )
    guard_memory_mb: int = _option(
        0,
        _COUNT_OR_0,
        "most memory that a plan which ships may take, in MB; 0 means no limit",
    )
    guard_library_mb: int = _option(
        0, _COUNT_OR_0, "largest library of a plan that ships, in MB; 0 means no limit"
    )
    graph_search: str = _option(
        "none",
        _one_of("none", "evolutionary", "local", "random"),
        "how whole plans are searched end to end after the op-level search",
    )
    graph_search_population: int = _option(
        8,
        _between(2, 64),  # of each a process is open, which holds the model's weights
        "plans that are measured beside each other, and survive, in that search",
    )
    graph_search_trials: int = _option(
        64, _COUNT, "plans that it tries, equal ones once, until the search ends"
    )
    graph_search_seconds: float = _option(
        600.0, _SECONDS, "time for it, in seconds; the plans at hand are still measured"
    )
    graph_search_seed: int = _option(0, _at_least(0), "seed of what it tries by chance")
    measure_seconds: float = _option(0.3, _SECONDS, "time spent running one candidate, in seconds")
    measure_timeout: float = _option(
        60.0, _SECONDS, "a candidate's build or run longer than this is a timeout"
    )
    workers: int = _option(
        0, _between(0, 1024), "processes that build candidates; 0 means one a thread, 8 at most"
    )
    seed: int = _option(0, _at_least(0), "seed of the random inputs that are measured")
    sample_inputs: str = _option(
        "",
        _ANY,
        "file of arrays by input name (.npz) that whole plans run on; empty for made-up ones",
    )
    original: str = _option(
        "",
        _ANY,
        "the model's file, with whose outputs plans are compared; commands take the model itself, "
        "none for none",
    )
    verify: str = _option(
        "external",
        _one_of("all", "external", "none"),
        "whose outputs are compared with TVM's; none leaves backends that can be wrong",
    )
    accuracy_budget: float = _option(
        0.0, _up_to(1), "largest output error by backends that trade accuracy; 0 leaves these out"
    )
    vector_math: bool = _option(
        True, _ANY, "vector forms of exp, tanh, erf, sigmoid, log and pow in TVM's kernels"
    )
    progress: str = _option(
        "auto",
        _one_of("auto", "rich", "lines", "quiet", "json"),
        "what is shown while measuring: auto means rich on a terminal, else lines",
    )
    log_level: str = _option(
        "notset",
        _one_of("notset", "debug", "info", "warning", "error"),
        "least level of log lines of Collage; notset leaves logging as the program set it",
    )
    report: str = _option("", _ANY, "file that the report is written to, as JSON; empty for none")
    placement: str = _option("", _ANY, "file of a saved placement to use: then nothing is measured")
    placement_allow: list[str] = _option(
        [],
        _each_one_of("weights", "version", "machine", "target", "tuning"),
        "how a saved placement may differ from what is built here",
    )
    store: str = _option(
        "", _ANY, "file of measured costs; empty means the user's own, none for none"
    )
    tuning_log: list[str] = _option(
        [], _ANY, "logs whose tuning records TVM's kernels use, besides those in force"
    )
    transfer_log: list[str] = _option(
        [],
        _ANY,
        "logs of Ansor with schedules that TVM's kernels of the same class try, adapted; shipped "
        "means those of this package",
    )
    shipped_records: bool = _option(
        False,
        _ANY,
        "use schedules of this package for TVM's kernels that they were found for, if faster",
    )
    tune: int = _option(
        0, _COUNT_OR_0, "trials for each kernel of TVM's without a record; 0 means no tuning"
    )
    tuner: str = _option(
        "autotvm", _one_of("autotvm", "ansor", "metaschedule"), "who searches schedules for tune"
    )
    tune_model: str = _option(
        "xgb",
        _one_of("xgb", "random"),
        "what guides that search: a cost model of xgboost, or chance",
    )
    tune_patience: int = _option(
        0, _COUNT_OR_0, "trials of a kernel without a gain after which its search ends; 0: never"
    )
    tune_log: str = _option(
        "", _ANY, "file that keeps that search's trials; empty means the user's own"
    )
    tune_seconds: float = _option(600.0, _SECONDS, "time for all of that search, in seconds")
    retry_failed: bool = _option(
        False, _ANY, "measure again what the store knows as a failure or as noisy"
    )
    rpc_tracker: str = _option(
        "", _ANY, "host:port of an RPC tracker: measure on its devices instead of here"
    )
    rpc_key: str = _option("", _ANY, "the tracker's key of the devices to measure on")
    rpc_wait: float = _option(10.0, _SECONDS, "how long to wait for a free device, in seconds")
    rpc_compiler: str = _option(
        "", _ANY, "C++ compiler that links for the devices; empty means this machine's own"
    )

    of_pass = Group(PassOptions)
    candidates = Group(CandidateOptions)
    session = Group(SessionOptions)
    measuring = Group(MeasuringOptions)
    storing = Group(StoreOptions)
    devices = Group(DeviceOptions)
    tuning = Group(TuningOptions)
    guarding = Group(GuardOptions)
    graph_searching = Group(GraphSearchOptions)

    def __post_init__(self) -> None:
        """TypeError or ValueError of check_options; values become plain ones."""
        vars(self).update(check_options(self.to_config()))

    def to_config(self) -> dict[str, Any]:
        """Return the options as a PassContext's config: {"relay.collage.<name>": value}."""
        return {PREFIX + name: value for name, value in vars(self).items()}

    def __new__(cls, **options: Any) -> CollageOptions:
        """TypeError for what is no option."""
        for name in options:
            if name not in cls.__dataclass_fields__:
                near = did_you_mean(name, cls.__dataclass_fields__)
                hint = near or ": docs/options.md lists them"
                raise TypeError(f"there is no option {name!r}{hint}")
        return super().__new__(cls)

    @classmethod
    def current(cls) -> CollageOptions:
        """Return the options of the innermost PassContext, defaults where it sets none.

        For what TVM, C++ or a user's rule calls, and for the ways in of a build, alone: the rest is
        handed the group that it needs (options/test_groups.py lists who calls it). ValueError names
        an option whose value is out of its range.
        """
        config = tvm.transform.PassContext.current().config
        return cls(**{field.name: config[key] for key, field in _FIELDS.items() if key in config})


class Option(NamedTuple):
    """A row of the table."""

    name: str
    default: Any
    meaning: str
    takes: str  # what values it takes, as errors say it


# By the type of an option's default: what its values are called for users, and TVM's box of them.
_TYPES = {
    bool: ("a bool", "runtime.BoxBool"),
    int: ("an int", "runtime.BoxInt"),
    float: ("a float", "runtime.BoxFloat"),
    str: ("a str", "runtime.String"),
    list: ("a list of str", "Array"),
}
_FIELDS = {PREFIX + field.name: field for field in dataclasses.fields(CollageOptions)}
_DEFAULTS = {
    key: field.default_factory() if callable(field.default_factory) else field.default
    for key, field in _FIELDS.items()
}


def _row(key: str, field: dataclasses.Field[Any]) -> Option:
    default, values = _DEFAULTS[key], field.metadata["values"]
    takes = values.takes if values else _TYPES[type(default)][0]
    return Option(field.name, default, field.metadata["meaning"], takes)


def option_table() -> list[Option]:
    """Return the rows of the table, in its order."""
    return [_row(key, field) for key, field in _FIELDS.items()]


CollageOptions.__doc__ = "Options of Collage, one field a row of the table:\n\n" + "\n".join(
    f"{row.name} = {row.default!r}: {row.meaning}" for row in option_table()
)


def check_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return Collage's options of a PassContext's config, or of what is to be one, as plain values.

    TypeError or ValueError that names the first option with a wrong value, what it takes and what
    it got.
    """
    return {
        field.name: _checked(key, field, config[key])
        for key, field in _FIELDS.items()
        if key in config
    }


def _checked(key: str, field: dataclasses.Field[Any], value: object) -> Any:
    plain, values = _typed(key, value), field.metadata["values"]
    if values and not values.holds(plain):
        raise ValueError(option(field.name) + f" takes {values.takes}, got {plain!r}")
    return plain


def _typed(key: str, value: object) -> Any:
    """Return the value as one of the option's type; TypeError."""
    kind, plain = type(_DEFAULTS[key]), _plain(value)
    if kind is float and type(plain) is int:
        plain = float(plain)
    is_of_kind = type(plain) is kind
    if is_of_kind and kind is list:
        is_of_kind = all(type(item) is str for item in plain)
    if not is_of_kind:
        is_plain = plain is None or type(plain) in _TYPES
        shown = repr(plain) if is_plain else f"a {type(plain).__name__}"
        takes = f" takes {_TYPES[kind][0]}, got {shown}"
        raise TypeError(option(_FIELDS[key].name) + takes)
    return plain


def _plain(value: object) -> Any:
    if isinstance(value, (list, tuple, tvm.ir.container.Array)):
        return [_plain(item) for item in value]
    if isinstance(value, tvm.tir.IntImm):  # as older scripts pass it
        return bool(value.value) if value.dtype == "bool" else int(value.value)
    if isinstance(value, Integral):
        return value if isinstance(value, bool) else int(value)
    if isinstance(value, Real):
        return float(value)
    return str(value) if isinstance(value, str) else value


def unknown_option(config: Mapping[str, Any] | None) -> str:
    """Return what to say of the first key of a PassContext's config that is called as an option of
    Collage, and is none; "" where there is no such key."""
    for key in config or ():
        if str(key).startswith(PREFIX) and key not in _FIELDS:
            near = nearest(key, _FIELDS)
            hint = f"did you mean {near}?" if near else "docs/options.md lists those there are"
            return f"there is no option {key}: {hint}"
    return ""


@carried
def _check_type(key: str, value: object) -> None:
    _typed(str(key), value)


def register() -> None:
    """Make PassContexts take the options: a value of a wrong type is then a TypeError.

    Those that TVM, or a second copy of Collage, registered before are left as they are.
    """
    boxes = {key: _TYPES[type(default)][1] for key, default in _DEFAULTS.items()}
    get_global_func("collage.RegisterOptions")(boxes, _check_type)


def pass_options() -> str:
    """Return the current options that the pass itself reads, as JSON of PassOptions for C++."""
    return json.dumps(dataclasses.asdict(CollageOptions.current().of_pass))
