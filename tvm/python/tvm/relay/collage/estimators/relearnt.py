# SPDX-License-Identifier: Apache-2.0
"""Multiples of profiles learnt anew, from what this machine has measured beside profiles.

Each search leaves its pairs of profile and cost in the store. Once a backend has enough of a size,
they decide in place of those that are shipped. A store that fails costs this, and no more.
Precondition: candidates are measured on this machine. Test: estimators/test_relearnt.py.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tvm.target import Target

from ..backends import find_backend
from ..costs.cost import CostStatus
from ..measure.options import MeasureOptions
from ..relay_util.external import TVM_BACKEND
from ..store import Environment, ForeseenCosts, ForeseenKey, StoreError, opened
from ..store.foreseen import Pair
from ..store.key import alone_text, stored_version
from ..views.function_report import FunctionReport
from .calibration import CAUTIOUS, SHIPPED, Multiples
from .profiles import Profiles

_logger = logging.getLogger(__name__)


class Relearnt:
    """The multiples of these backends on this machine.

    file: the option `store`. host: what TVM builds for. how: the way of measuring.
    """

    def __init__(
        self, file: str, host: Target, backends: Iterable[str], how: MeasureOptions
    ) -> None:
        self._file = file
        here = Environment.here(how)._replace(measuring=alone_text(how))
        versions = {name: stored_version(name) for name in (TVM_BACKEND, *backends)}
        # What has no version may be another one next time.
        self._keys = {
            name: ForeseenKey(name, version, str(host), here)
            for name, version in versions.items()
            if version is not None
        }

    def multiples(self) -> Mapping[str, Multiples]:
        """Return those of each backend: as shipped, but for sizes of which enough is known here."""
        known = {}
        try:
            with opened(self._file) as store:
                costs = ForeseenCosts(store) if store else None
                known = {n: costs.pairs(key) for n, key in self._keys.items()} if costs else {}
        except StoreError as error:
            _logger.info("multiples of profiles are as shipped: %s", error)
        for name, pairs in known.items():
            _logger.info("%s has %d costs beside profiles here", name, len(pairs))
        shipped = {**SHIPPED, **_variants(self._keys)}
        learnt = {n: shipped.get(n, CAUTIOUS).learnt(pairs) for n, pairs in known.items() if pairs}
        return {**shipped, **learnt}

    def keep(self, pairs: Mapping[str, Sequence[Pair]]) -> None:
        """Keep further pairs by backend, for later searches."""
        try:
            with opened(self._file) as store:
                if store is None or store.is_read_only:
                    return
                for name in pairs.keys() & self._keys.keys():
                    ForeseenCosts(store).add(self._keys[name], pairs[name])
        except StoreError as error:
            _logger.info("costs beside profiles are not kept: %s", error)


def _variants(names: Iterable[str]) -> dict[str, Multiples]:
    """Return for the backends that are variants of others what is shipped of those."""
    usual = {each.name: each.variant_of for each in filter(None, map(find_backend, names))}
    return {name: SHIPPED[other] for name, other in usual.items() if other in SHIPPED}


def pairs_of(reports: Iterable[FunctionReport], profiles: Profiles) -> dict[str, list[Pair]]:
    """Return the pairs by backend of what a search measured by these profiles. Candidates that are
    equal have one cost, and so one pair, of the mean of what their operators took."""
    profiled: defaultdict[tuple[str, str, float], list[float]] = defaultdict(list)
    for report in reports:
        for each in () if report.skipped else report.graph.costed:
            of_backend = profiles.seconds.get(each.backend)
            if of_backend is not None and each.cost.status == CostStatus.MEASURED:
                total = sum(of_backend.get(node, 0.0) for node in each.nodes)
                profiled[each.backend, each.rule, each.cost.seconds or 0.0].append(total)
    found: defaultdict[str, list[Pair]] = defaultdict(list)
    for (backend, _, seconds), totals in profiled.items():
        mean = sum(totals) / len(totals)
        if mean > 0:
            found[backend].append((mean, seconds))
    return dict(found)
