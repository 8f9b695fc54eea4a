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


def greedy_partition(mod: IRModule, backend_name: str, op_level: bool = False) -> IRModule:
    """Return the module with all that the backend takes in functions ``Compiler=backend_name``.

    The functions are as relay.build wants them (global, Primitive=1, Inline=1). ``op_level`` keeps
    each pattern's match in a function of its own. A predicate that raises or answers with a reason
    does not match, as in the pass. Precondition: weights are bound as constants
    (``relay.build_module.bind_params_by_name``) and the backend's preamble has run, if wanted.
    """
    backend = require_backend(backend_name)
    rows = [_row_of_merge_composite(row) for row in relevant_patterns(mod, backend.patterns())]
    passes = [
        relay.transform.InferType(),
        relay.transform.MergeComposite(rows),
        relay.transform.AnnotateTarget([backend_name], include_non_call_ops=False),
    ]
    if not op_level:
        passes.append(relay.transform.MergeCompilerRegions())
    passes += [relay.transform.PartitionGraph(), relay.transform.InferType()]
    with tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential(passes)(mod)


def _row_of_merge_composite(row: tuple) -> tuple:
    """Return (name, pattern[, predicate]): TVM reads a row of another length as the one before.

    Attrs, the fourth field of TVM's tables, are for whoever partitions by them; this does not.
    """
    name, pattern, *rest = row
    if not rest or rest[0] is None:
        return name, pattern
    return name, pattern, never_raises(name, rest[0])
