# SPDX-License-Identifier: Apache-2.0
"""Groups of the options, by who reads them. CollageOptions are read once, where a build comes in;
each function behind takes the group that it needs. Meanings are the table's.

Test: options/test_groups.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, TypeVar

from tvm_collage.options import split_style
from tvm_collage.words import Effort

T = TypeVar("T")


class Group(Generic[T]):
    """An attribute of CollageOptions that is a record of some of them. A field of it is the option,
    or the group, of its own name, unless `_named` says another."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    def __get__(self, options: Any, owner: type | None = None) -> T:
        """Return the record of the options' values. AttributeError on the class, which has none."""
        if options is None:
            raise AttributeError(f"{self._kind.__name__} are of CollageOptions(...)")
        fields = dataclasses.fields(self._kind)  # type: ignore[arg-type]
        names = {field.name: field.metadata.get("option", field.name) for field in fields}
        return self._kind(**{field: getattr(options, name) for field, name in names.items()})


def _named(option: str) -> Any:
    return dataclasses.field(metadata={"option": option})


@dataclasses.dataclass(frozen=True, kw_only=True)
class PassOptions:
    """Options that the pass itself reads, in C++ (border.schema.json)."""

    merge_parts: bool  # neighbours of one backend become one part
    time_limit: float  # seconds for all functions together; 0 for no limit
    placement: str  # a file that is replayed instead of a search; "" to search


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Limits of how long is looked for the plan that ships."""

    effort: Effort
    time_limit: float  # seconds for all of a compile; 0 for no limit


@dataclasses.dataclass(frozen=True, kw_only=True)
class CandidateOptions:
    """Limits of candidates, which rules keep."""

    tvm_max_depth: int
    byoc_max_depth: int
    styles: list[str] = _named("byoc_fusion_style")
    max_per_node: int = _named("max_candidates_per_node")
    max_exits: int
    region_cuts: int
    tvm_regions: bool

    def style_of(self, backend: str, own: str) -> str:
        """Return how the backend's patterns combine: as the options say, else in its own style."""
        return dict(map(split_style, self.styles)).get(backend, own)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeasuringOptions:
    """The way in which candidates are measured, wherever that is."""

    seconds: float = _named("measure_seconds")
    timeout: float = _named("measure_timeout")
    workers: int
    seed: int
    verify: str
    cost_bounds: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """The file of costs, and which of them are measured again."""

    file: str = _named("store")
    retry_failed: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Devices to measure on instead of here; none where there is no tracker."""

    tracker: str = _named("rpc_tracker")
    key: str = _named("rpc_key")
    wait: float = _named("rpc_wait")
    compiler: str = _named("rpc_compiler")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """The means by which one search measures; other ones need another session."""

    measuring: MeasuringOptions
    storing: StoreOptions
    devices: DeviceOptions
    progress: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuningOptions:
    """Schedules of TVM's kernels: logs that have some, and the search for others."""

    logs: list[str] = _named("tuning_log")
    transfer_logs: list[str] = _named("transfer_log")
    shipped: bool = _named("shipped_records")
    trials: int = _named("tune")
    tuner: str
    model: str = _named("tune_model")
    patience: int = _named("tune_patience")
    log: str = _named("tune_log")
    seconds: float = _named("tune_seconds")
    seed: int
    progress: str

    def tries(self) -> bool:
        """Return whether schedules of TVM's kernels are tried before its candidates are
        measured."""
        return bool(self.trials or self.transfer_logs)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GuardOptions:
    """The comparison of whole plans."""

    enabled: bool = _named("guard")
    rounds: int = _named("guard_rounds")
    seconds: float = _named("guard_seconds")
    memory_mb: int = _named("guard_memory_mb")
    library_mb: int = _named("guard_library_mb")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphSearchOptions:
    """The search of whole plans."""

    strategy: str = _named("graph_search")
    population: int = _named("graph_search_population")
    trials: int = _named("graph_search_trials")
    seconds: float = _named("graph_search_seconds")
    seed: int = _named("graph_search_seed")

    @property
    def enabled(self) -> bool:
        return self.strategy != "none"
