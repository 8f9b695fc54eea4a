# SPDX-License-Identifier: Apache-2.0
"""Partition rules: what of a function a backend could run (RFC 0062, docs/rules.md).

Put together from base rules, rules over rules and combiners, nested freely:

    Primitive(Combine(Union(Composite("my.relu", DFPattern("relu", RELU))), [JoinAnything()]))

A backend brings its own by overriding ``Backend.partition_rule``; a target by its attribute
``partition_rule`` or its kind's (``set_partition_rule``). Test: rules/test_rule.py.
"""

from ..process_wide.lazy import lazy_attributes

# Submodule -> its public names; all wait for their first use, since tvm.relay imports this package
# before itself is complete.
_NAMES = {
    "combiners": (
        "ByKind",
        "Combiner",
        "Constants",
        "JoinAnything",
        "TupleArg",
        "TupleProjection",
        "tvm_combiners",
    ),
    "custom": ("Custom", "PatternRule"),
    "pattern_entry": ("make_labelled_dfpattern_partition_rule_wrapper",),
    "rule": (
        "Combine",
        "Composite",
        "DFPattern",
        "Glue",
        "Host",
        "Joinable",
        "OnlyValid",
        "OpCallByKind",
        "OpPredicate",
        "PartitionRule",
        "Primitive",
        "Region",
        "Union",
        "tvm_rule",
    ),
    "target": (
        "load_plugin",
        "register_rule",
        "registered_rule",
        "registered_rules",
        "set_partition_rule",
    ),
}
_LAZY = {name: module for module, names in _NAMES.items() for name in names}

__all__ = list(_LAZY)

__getattr__ = lazy_attributes(__name__, _LAZY)
