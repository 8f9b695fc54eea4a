# SPDX-License-Identifier: Apache-2.0
"""A backend -> its partition rule, for each external target kind.

Test: rules/test_pattern_entry.py, rules/test_target.py.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Iterable

from tvm._ffi import get_global_func
from tvm.relay.op import contrib
from tvm.target import Target

from ..errors import UnknownBackendError
from ..options import CollageOptions, split_style
from ..process_wide.interrupts import raise_if_interrupted
from ..relay_util.external import is_external
from ..rules.pattern_entry import entry_rules
from ..rules.rule import Joinable, PartitionRule, rule_of_entries, tvm_rule
from ..rules.target import own_rule
from .accuracy import check_budget
from .interface import Backend
from .registry import find_backend
from .target_options import options_of

_logger = logging.getLogger(__name__)


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
        options = CollageOptions.current()
        check_budget([kind], options.accuracy_budget)
        rule = backend.with_options(options_of(backend, target)).partition_rule(options)
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
    return freely_joined(compiler, entry_rules(compiler, table or []))


def freely_joined(compiler: str, entries: Iterable[PartitionRule]) -> PartitionRule:
    """Return the rule of a backend that is known by a pattern table alone.

    As in TVM's prototype, its patterns join freely, and so do chosen parts that touch.
    """
    options = CollageOptions.current().candidates
    return Joinable(
        rule_of_entries(str(compiler), list(entries), options, own_style="ArbitraryFusion")
    )


def backend_rule(backend: Backend) -> PartitionRule:
    """Return the rule of a registered backend's patterns and op predicates, as its kind has it,
    within the limits of the current options, whether it overrides ``partition_rule`` or not."""
    return Backend.partition_rule(backend, CollageOptions.current())


def rules_of_targets(targets: Iterable[Target]) -> list[PartitionRule]:
    """Return, asked by C++, what each target of a build can run (RFC 0062, phase 1).

    Its own rule, else its backend's, else TVM's.
    """
    targets = list(targets)
    _warn_of_unused_styles({target.kind.name for target in targets if is_external(target)})
    return [own_rule(target) or _rule_of_kind(target) for target in targets]


def _rule_of_kind(target: Target) -> PartitionRule:
    if not is_external(target):
        return tvm_rule()
    # Looked up each time: a test or a user may have replaced it, perhaps by TVM's function of the
    # name alone, which says all of a target without attributes.
    make = get_global_func("tvm.relay.collage.make_byoc_partition_rule")
    name = target.kind.name
    rule = make(name, target) if target.attrs else make(name)
    if rule is None:
        raise_if_interrupted()
    if not isinstance(rule, PartitionRule):
        raise TypeError(
            f"target {name}: tvm.relay.collage.make_byoc_partition_rule returned {rule!r}; it must "
            "return a rule of collage.rules"
        )
    return rule


@functools.cache
def _warn_once(text: str, backend: str) -> None:
    _logger.warning(
        "option relay.collage.byoc_fusion_style has %s, but %s is no external target of this "
        "build: it has no effect",
        text,
        backend,
    )


def _warn_of_unused_styles(external: Collection[str]) -> None:
    """Warn, once of each, of styles of backends that are not used, which a script may list."""
    for text in CollageOptions.current().candidates.styles:
        backend, _ = split_style(text)
        if backend not in external:
            _warn_once(text, backend)
