# SPDX-License-Identifier: Apache-2.0
"""Base rules and rules over rules, by the names of RFC 0062; thin over C++ (docs/rules.md).

Every function checks its arguments: TypeError or ValueError names rule and argument.
Test: rules/test_rule.py, rules/test_*.py.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable
from typing import Any

import tvm._ffi
from tvm import relay
from tvm._ffi import get_global_func
from tvm.relay import dataflow_pattern
from tvm.runtime import Object

from ..options import CandidateOptions, CollageOptions
from ..views.graph import SubGraphConfig
from .combiners import Combiner
from .predicates import attrs_or_reason, raised_is_reason


@tvm._ffi.register_object("collage.PartitionRule")
class PartitionRule(Object):
    """Finds candidates in a function's graph; immutable, so it may be part of many others."""

    def summary(self) -> str:
        """Return the rule with its sub-rules on one line."""
        return str(get_global_func("collage.rules.Summary")(self))

    __repr__ = summary


# What C++ reads of a rule's numbers and flags, as JSON by these names (border.schema.json).


@dataclasses.dataclass(frozen=True)
class CombineLimits(SubGraphConfig):
    """Limits of what Combine builds."""

    max_candidates_per_node: int = 2048  # kept for each exit; the first node where max_exits is > 1


@dataclasses.dataclass(frozen=True)
class RegionLimits(SubGraphConfig):
    """Limits of the areas that Region finds, and which it gives."""

    keep_parts: bool = True  # the sub-candidates themselves, too
    max_cuts: int = 0  # most expensive parts to leave out, one after the other


@dataclasses.dataclass(frozen=True)
class RuleOptions:
    """Limits of the ready rules of TVM and of backends."""

    max_depth: int  # calls on the longest path of a candidate
    max_exits: int  # values that are used outside of it
    max_candidates_per_node: int  # as CombineLimits'
    style: str  # NoFusion, TVMFusion or ArbitraryFusion
    regions: bool  # merges all that touches into regions
    region_cuts: int  # as max_cuts of RegionLimits
    left_out: list[int]  # nodes that the backend is not to take

    @classmethod
    def of(
        cls,
        options: CandidateOptions,
        max_depth: int,
        regions: bool,
        style: str = "NoFusion",
        left_out: Iterable[int] = (),
    ) -> "RuleOptions":
        """Return the limits that all backends share with those that differ."""
        shared = (options.max_exits, options.max_per_node)
        nodes = sorted(left_out)
        return cls(max_depth, *shared, style, regions, options.region_cuts, left_out=nodes)

    def to_json(self) -> str:
        """Return the text that C++ reads."""
        return json.dumps(dataclasses.asdict(self))


def DFPattern(
    name: str,
    pattern: dataflow_pattern.DFPattern,
    predicate: Callable[[relay.Expr], bool | str] | None = None,
) -> PartitionRule:
    """Give every match of ``pattern``, overlapping ones too, that ``predicate`` accepts.

    The predicate gets the matched expression and answers with a bool, or a text that says why not;
    what it raises is a refusal.
    """
    check("DFPattern", "name", name, kinds=str, wanted="a str")
    check("DFPattern", "pattern", pattern, kinds=dataflow_pattern.DFPattern, wanted="a DFPattern")
    check_function("DFPattern", "predicate", predicate)
    return _make("DFPattern", name, pattern, predicate and raised_is_reason(predicate))


def OpCallByKind() -> PartitionRule:
    """Give each op call that TVM can fuse (kinds up to OUT_ELEMWISE_FUSABLE)."""
    return _make("OpCallByKind")


def OpPredicate(name: str, predicate: str | Callable[[relay.Call], bool | str]) -> PartitionRule:
    """Give each op call that ``predicate`` accepts: a function, or an op attribute that holds one.

    An attribute is usually ``target.<backend>``; ValueError when no op has it.
    """
    check("OpPredicate", "name", name, kinds=str, wanted="a str")
    if isinstance(predicate, str):
        return _make("OpPredicateOfAttribute", name, predicate)
    if predicate is None:
        raise TypeError("rule OpPredicate: predicate is a function or an op attribute, got None")
    check_function("OpPredicate", "predicate", predicate)
    return _make("OpPredicate", name, raised_is_reason(predicate))


def Glue() -> PartitionRule:
    """Give each tuple of tensors and each projection of one: what holds calls together."""
    return _make("Glue")


def Host() -> PartitionRule:
    """Give every node alone, free unless it launches a kernel; the pass always has this rule."""
    return _make("Host")


def Composite(
    label: str, sub_rule: PartitionRule, attrs: Callable[[relay.Expr], dict[str, Any]] | None = None
) -> PartitionRule:
    """Make each sub-candidate one function with ``Composite=label``.

    ``attrs`` gets the composite's last expression and gives further attributes of that function:
    ints, floats, strs or lists of such. What it raises or gives wrongly is a refusal.
    """
    check("Composite", "label", label, kinds=str, wanted="a str")
    _check_rule("Composite", sub_rule)
    check_function("Composite", "attrs", attrs)
    return _make("Composite", label, sub_rule, attrs and attrs_or_reason(attrs))


def Primitive(sub_rule: PartitionRule) -> PartitionRule:
    """Give sub-candidates, to be wrapped into functions for the backend's own compiler."""
    return _make("Primitive", _check_rule("Primitive", sub_rule))


def Joinable(sub_rule: PartitionRule) -> PartitionRule:
    """Give sub-candidates; those that the search chooses become one part with the ones they touch.

    As for TVM's pattern tables. What is joined was never measured as such.
    """
    return _make("Joinable", _check_rule("Joinable", sub_rule))


def Union(*sub_rules: PartitionRule) -> PartitionRule:
    """Give all sub-candidates of all sub-rules, equal ones once."""
    return _make("Union", [_check_rule("Union", rule) for rule in sub_rules])


def OnlyValid(
    sub_rule: PartitionRule, max_depth: int = 0, max_exits: int = 0, allow_taps: bool = True
) -> PartitionRule:
    """Give sub-candidates within the limits (SubGraphConfig).

    max_depth: calls on the longest path; max_exits: values used outside; 0 means no limit.
    allow_taps: may a value be used both inside and outside?
    """
    limits = _checked("OnlyValid", SubGraphConfig(max_depth, max_exits, allow_taps))
    return _make("OnlyValid", _check_rule("OnlyValid", sub_rule), limits)


def Combine(
    sub_rule: PartitionRule,
    combiners: Iterable[Combiner],
    max_depth: int = 8,
    max_exits: int = 1,
    allow_taps: bool = False,
    max_candidates_per_node: int = 2048,
) -> PartitionRule:
    """Give sub-candidates, and every union of them that the combiners build within the limits."""
    combiners = [
        check(
            "Combine", "a combiner", combiner, kinds=Combiner, wanted="a combiner of collage.rules"
        )
        for combiner in combiners
    ]
    check_limit("Combine", "max_candidates_per_node", max_candidates_per_node, least=1)
    given = CombineLimits(max_depth, max_exits, allow_taps, max_candidates_per_node)
    limits = _checked("Combine", given)
    return _make("Combine", _check_rule("Combine", sub_rule), combiners, limits)


def Region(
    sub_rule: PartitionRule,
    max_depth: int = 0,
    max_exits: int = 0,
    allow_taps: bool = True,
    keep_parts: bool = True,
    max_cuts: int = 0,
) -> PartitionRule:
    """Maximal convex areas of sub-candidates, and with ``keep_parts`` these themselves.

    ``max_cuts``: also the areas that are left of each without its most expensive part, without the
    two most expensive, and so on; what is expensive is a static estimate from shapes.
    """
    given = RegionLimits(max_depth, max_exits, allow_taps, keep_parts, max_cuts)
    limits = _checked("Region", given)
    return _make("Region", _check_rule("Region", sub_rule), limits)


def tvm_rule() -> PartitionRule:
    """Return the rule that TVM's own targets have, within the limits of the current options."""
    options = CollageOptions.current().candidates
    limits = RuleOptions.of(options, options.tvm_max_depth, options.tvm_regions)
    return _make("Tvm", limits.to_json())


def rule_of_entries(
    backend: str,
    entries: list[PartitionRule],
    options: CandidateOptions,
    own_style: str = "NoFusion",
    regions: bool = False,
    left_out: Iterable[int] = (),
) -> PartitionRule:
    """Return the rule of a backend's entries, within the limits of the options.

    ``own_style``: how it fuses unless an option says otherwise; ``regions``: whether it merges all
    that touches into regions; ``left_out``: nodes of the function that it is not to take.
    """
    style = options.style_of(backend, own_style)
    limits = RuleOptions.of(options, options.byoc_max_depth, regions, style, left_out)
    return get_global_func("collage.MakeBackendRule")(backend, entries, limits.to_json())


def _make(constructor: str, *args: Any) -> PartitionRule:
    return get_global_func(f"collage.rules.{constructor}")(*args)


def _check_rule(rule: str, value: object) -> PartitionRule:
    return check(rule, "a sub-rule", value, kinds=PartitionRule, wanted="a rule of collage.rules")


def _checked(rule: str, limits: SubGraphConfig) -> str:
    """Return limits as C++ reads them; TypeError or ValueError for a wrong number or flag."""
    for field in dataclasses.fields(limits):
        value = getattr(limits, field.name)
        if isinstance(field.default, bool):
            check(rule, field.name, value, kinds=bool, wanted="a bool")
        else:
            check_limit(rule, field.name, value)
    return json.dumps(dataclasses.asdict(limits))


def check(
    rule: str, argument: str, value: object, kinds: type | tuple[type, ...], wanted: str
) -> Any:
    """Return ``value``; TypeError that names rule and argument when it is of none of ``kinds``."""
    if not isinstance(value, kinds) or (kinds is int and isinstance(value, bool)):
        raise TypeError(f"rule {rule}: {argument} is {wanted}, got {type(value).__name__}")
    return value


def check_function(rule: str, argument: str, value: object) -> Any:
    """Return ``value``, a function or None; TypeError otherwise."""
    if value is not None and not callable(value):
        raise TypeError(f"rule {rule}: {argument} is a function, got {type(value).__name__}")
    return value


def check_limit(rule: str, argument: str, value: object, least: int = 0) -> int:
    """Return ``value``; ValueError when it is an int below ``least``, TypeError when it is none."""
    number: int = check(rule, argument, value, kinds=int, wanted="an int")
    if number < least:
        raise ValueError(f"rule {rule}: {argument} is an int >= {least}, got {number}")
    return number
