# SPDX-License-Identifier: Apache-2.0
"""Pattern tables -> partition rules, asked for by the pass for each external target kind.

An entry is (name, pattern), (name, pattern, predicate) or (name, pattern, predicate, attrs getter);
the predicate gets the matched expression and answers with a bool, or a text that says why not.
Test: test_rules.py.
"""

from tvm._ffi import get_global_func, register_func
from tvm.relay.dataflow_pattern import DFPattern

from .errors import UnknownBackendError


def make_labelled_dfpattern_partition_rule_wrapper(compiler, pattern_tuple):
    """Return the rule of one pattern-table entry of ``compiler``.

    ValueError or TypeError, naming the backend and the entry, for one that is none.
    """
    if not 2 <= len(pattern_tuple) <= 4:
        raise ValueError(
            f"backend {compiler}: a pattern entry has 2 to 4 fields, got {len(pattern_tuple)}: "
            f"{pattern_tuple[0]!r}; use (name, pattern[, predicate[, attrs]])"
        )
    name, pattern, *rest = pattern_tuple
    _check_field(compiler, name, "name", name, str, "a str")
    _check_field(compiler, name, "pattern", pattern, DFPattern, "a DFPattern")
    if rest and rest[0] is not None and not callable(rest[0]):
        _check_field(compiler, name, "predicate", rest[0], (), "a function")
    if rest and rest[0] is not None:
        make = get_global_func("collage.MakePatternEntryWithPredicate")
        return make(compiler, name, pattern, rest[0])
    return get_global_func("collage.MakePatternEntry")(compiler, name, pattern)


def _check_field(compiler, entry, field, value, kinds, wanted):
    if not isinstance(value, kinds):
        raise TypeError(
            f"backend {compiler}: the {field} of a pattern entry is {wanted}, "
            f"got {type(value).__name__} in entry {entry!r}"
        )


@register_func("tvm.relay.collage.make_byoc_partition_rule", override=True)
def make_byoc_partition_rule(compiler):
    """Return the partition rule of the external target kind ``compiler``.

    A backend registered with Collage says itself how its patterns combine; any other with a pattern
    table in TVM gets the prototype's way, in which they join freely. UnknownBackendError when there
    is neither.
    """
    # Through the package's attribute: TVM's tests replace it.
    import tvm.relay.op.contrib as contrib

    from .backends import GRAPH_LEVEL, find_backend

    compiler = str(compiler)
    backend = find_backend(compiler)
    table = backend.patterns() if backend else contrib.get_pattern_table(compiler)
    if table is None:
        raise UnknownBackendError(
            f"backend {compiler!r} has no patterns: register it with "
            "collage.register_backend(...), or a table with register_pattern_table"
        )
    entries = [make_labelled_dfpattern_partition_rule_wrapper(compiler, row) for row in table]
    if backend is None:
        return get_global_func("collage.MakePatternBackendRule")(compiler, entries)
    # A graph-level backend merges by regions; joining a few composites at a time is not its way.
    regions = backend.default_rule() == GRAPH_LEVEL
    return get_global_func("collage.MakeBackendRule")(compiler, entries, "NoFusion", regions)
