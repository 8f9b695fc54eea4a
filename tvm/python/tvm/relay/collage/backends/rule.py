# SPDX-License-Identifier: Apache-2.0
"""A backend -> its partition rule, for each external target kind.

Test: rules/test_pattern_entry.py, rules/test_target.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm._ffi import get_global_func
from tvm.relay.op import contrib
from tvm.target import Target

from ..errors import UnknownBackendError
from ..options import CollageOptions
from ..rules.pattern_entry import make_labelled_dfpattern_partition_rule_wrapper
from ..rules.rule import Composite, PartitionRule
from .accuracy import check_budget
from .interface import GRAPH_LEVEL, Backend
from .registry import find_backend
from .target_options import attrs_with_options, entries_with_options, options_of


def make_byoc_partition_rule(compiler: str, target: Target | None = None) -> PartitionRule:
    """Return the partition rule of the external target kind ``compiler``.

    A backend registered with Collage says it itself; any other with a pattern table in TVM gets the
    prototype's way, in which patterns join freely, and one with op attributes ``target.<compiler>``
    alone may join what these take. ``target`` may set options of a registered backend.
    UnknownBackendError when there is nothing, OptionError for a backend that trades accuracy where
    the option accuracy_budget is 0.
    """

    compiler = str(compiler)
    backend = find_backend(compiler)
    if backend:
        kind = target if target is not None else Target(compiler)
        check_budget([kind], CollageOptions.current(), is_guarded=False)
        bound = backend.with_options(options_of(backend, target))
        rule = bound.partition_rule(CollageOptions.current())
        if not isinstance(rule, PartitionRule):
            raise TypeError(
                f"backend {compiler}: partition_rule(options) returns a rule of collage.rules, "
                f"got {type(rule).__name__}"
            )
        return rule
    table = contrib.get_pattern_table(compiler)  # through its module: TVM's tests replace it
    if table is None and not get_global_func("collage.HasOpAttribute")(f"target.{compiler}"):
        raise UnknownBackendError(
            f"backend {compiler!r} has no patterns: register it with "
            "collage.register_backend(...), or a table with register_pattern_table"
        )
    entries = _entries(compiler, table or [])
    return get_global_func("collage.MakePatternBackendRule")(compiler, entries)


def backend_rule(backend: Backend) -> PartitionRule:
    """Return the rule of a registered backend's patterns and op predicates, as its kind has it.

    Its limits are those of the current options.
    """
    # A graph-level backend merges by regions; joining a few composites at a time is not its way.
    regions = backend.default_rule() == GRAPH_LEVEL
    entries = _entries(backend.name, entries_with_options(backend))
    attrs = attrs_with_options(backend)
    entries += [Composite(label, rule, attrs) for label, rule in backend.added_rules.items()]
    return get_global_func("collage.MakeBackendRule")(backend.name, entries, "NoFusion", regions)


def _entries(compiler: str, table: Iterable[tuple]) -> list[Any]:
    return [make_labelled_dfpattern_partition_rule_wrapper(compiler, row) for row in table]
