# SPDX-License-Identifier: Apache-2.0
"""A whole module on one backend: all that it can take in as large regions as possible.

This is the usual offloading of TVM, which plans of Collage are compared with.
Test: test_greedy.py, test_onednn_patterns.py.
"""

import tvm
from tvm import relay
from tvm.ir import IRModule

from .predicates import never_raises
from .registry import require_backend
from .relevant import relevant_patterns
from .target_options import entries_with_options, options_of


def greedy_partition(
    mod: IRModule,
    backend_name: str,
    op_level: bool = False,
    target: tvm.target.Target | None = None,
) -> IRModule:
    """Return the module with all that the backend takes in functions ``Compiler=backend_name``.

    The functions are as relay.build wants them (global, Primitive=1, Inline=1). ``op_level`` keeps
    each pattern's match in a function of its own. ``target`` may set the backend's options. A
    predicate that raises or answers with a reason does not match, as in the pass. Precondition:
    weights are bound as constants (``relay.build_module.bind_params_by_name``) and the backend's
    preamble has run, if wanted.
    """
    backend = require_backend(backend_name)
    backend = backend.with_options(options_of(backend, target))
    patterns = relevant_patterns(mod, entries_with_options(backend))
    rows = [_row_of_merge_composite(row) for row in patterns]
    passes = [
        relay.transform.InferType(),
        relay.transform.MergeComposite(rows),
        _add_attrs(patterns),
        relay.transform.AnnotateTarget([backend_name], include_non_call_ops=False),
    ]
    if not op_level:
        passes.append(relay.transform.MergeCompilerRegions())
    passes += [relay.transform.PartitionGraph(), relay.transform.InferType()]
    with tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential(passes)(mod)


def _row_of_merge_composite(row: tuple) -> tuple:
    """Return (name, pattern[, predicate]): TVM reads a row of another length as the one before."""
    name, pattern, predicate, attrs = (*row, None, None)[:4]
    if attrs is not None:
        predicate = _with_attrs(predicate, attrs)
    if predicate is None:
        return name, pattern
    return name, pattern, never_raises(name, predicate)


def _with_attrs(predicate, attrs):
    """As in the pass, a match whose attributes cannot be had is none."""

    def accepts(expr):
        answer = True if predicate is None else predicate(expr)
        accepted = not answer if isinstance(answer, str) else bool(answer)
        if accepted:
            _composite_attrs(attrs, expr)
        return answer

    return accepts


def _composite_attrs(attrs, expr):
    """What the attrs getter gives, as function attributes; ValueError for what can be none."""
    return tvm.get_global_func("collage.CompositeAttrs")(attrs(expr))


def _add_attrs(patterns: list[tuple]):
    """The pass that gives composites what the fourth fields of their rows say."""
    getters = {row[0]: row[3] for row in patterns if len(row) > 3 and row[3] is not None}

    @relay.transform.function_pass(opt_level=0)
    def add_attrs(function, mod, context):
        return _AttrsAdder(getters).visit(function) if getters else function

    return add_attrs


class _AttrsAdder(relay.ExprMutator):
    """A getter sees a composite's body, whose inputs are the composite's parameters."""

    def __init__(self, getters):
        super().__init__()
        self._getters = getters

    def visit_function(self, function):
        attrs = function.attrs or {}
        label = str(attrs["Composite"]) if "Composite" in attrs else None
        if label not in self._getters:
            return super().visit_function(function)
        found = _composite_attrs(self._getters[label], function.body)
        for key, value in found.items():
            function = function.with_attr(key, value)
        return function
