# SPDX-License-Identifier: Apache-2.0
"""Options of measuring. Test: measure/test_measured.py."""

from __future__ import annotations

import dataclasses

from ..candidate.weights import CACHE_BYTES

# Part of the key of stored costs (store/). Raise it when what is built or timed for a candidate, or
# what its cost means, changes: rows of other versions are then measured again.
MEASURING_VERSION = 31


@dataclasses.dataclass(frozen=True)
class MeasureOptions:
    """Options for building and measuring candidates; the defaults suit a CPU.

    workers: processes that build at the same time; one of them measures, while none builds.
    build_timeout, run_timeout: seconds for one candidate. startup_timeout: for a worker's start.
    budget_seconds: timed seconds for one candidate at most. interval_width: measuring ends before
    that when the median's 95 % interval is this fraction of it, or three times this fraction for a
    backend with threads of its own. sample_seconds: a timing spans at least this long (short
    candidates run several times in it). seed: of weights and inputs. compiler: C++ compiler that
    links what was built, for another CPU than this one; empty for the usual one.
    network_bytes: what the network touches between two runs of a part (footprint.bytes_in_turn),
    as much as caches hold where no network is known.
    memory_limit_bytes: what a worker may hold in memory, 0 for four fifths of the machine's. batch:
    candidates built before they are measured; fewer of large weights, of very large ones one.
    noisy_retries: how often a candidate whose median is known badly is measured again, after the
    others of its batch; the narrowest interval counts. imports: modules that workers import; name
    the one that registers a backend of your own. builder: "module:function", called as
    ``builder(mod, target, **build_options)``.
    build_step, reference_step, measure_step: what a worker does for one candidate, the last empty
    for timing.measure_library; tests put fakes there.
    """

    workers: int = 2
    build_timeout: float = 120.0
    run_timeout: float = 60.0
    startup_timeout: float = 120.0
    budget_seconds: float = 0.3
    interval_width: float = 0.03
    sample_seconds: float = 2e-3
    seed: int = 0
    compiler: str = ""
    network_bytes: int = CACHE_BYTES
    memory_limit_bytes: int = 0
    batch: int = 64
    noisy_retries: int = 1
    imports: tuple[str, ...] = ()
    builder: str = "tvm.relay.collage.compile.library:build_library"
    build_step: str = f"{__package__}.builder:build_candidate"
    reference_step: str = f"{__package__}.outputs.reference:make_reference"
    measure_step: str = ""

    def __post_init__(self) -> None:
        for name in ("workers", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"measure option {name} must be at least 1")
        if not 0 <= self.network_bytes <= CACHE_BYTES:
            raise ValueError(f"measure option network_bytes must be from 0 to {CACHE_BYTES}")
        for name in ("build_timeout", "run_timeout", "startup_timeout", "budget_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"measure option {name} must be more than 0 seconds")
