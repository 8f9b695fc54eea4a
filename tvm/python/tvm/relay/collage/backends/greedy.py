# SPDX-License-Identifier: Apache-2.0
"""A whole module on one backend: all that it can take in as large regions as possible.

This is the usual offloading of TVM, which plans of Collage are compared with.
Test: test_onednn_patterns.py, test_backends.py.
"""

import tvm
from tvm import relay
from tvm.ir import IRModule

from .registry import require_backend
from .relevant import relevant_patterns


def greedy_partition(mod: IRModule, backend_name: str, op_level: bool = False) -> IRModule:
    """Return the module with all that the backend takes in functions ``Compiler=backend_name``.

    The functions are as relay.build wants them (global, Primitive=1, Inline=1). ``op_level`` keeps
    each pattern's match in a function of its own. Precondition: weights are bound as constants
    (``relay.build_module.bind_params_by_name``) and the backend's preamble has run, if wanted.
    """
    backend = require_backend(backend_name)
    passes = [
        relay.transform.InferType(),
        relay.transform.MergeComposite(relevant_patterns(mod, backend.patterns())),
        relay.transform.AnnotateTarget([backend_name], include_non_call_ops=False),
    ]
    if not op_level:
        passes.append(relay.transform.MergeCompilerRegions())
    passes += [relay.transform.PartitionGraph(), relay.transform.InferType()]
    with tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential(passes)(mod)
